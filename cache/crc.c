/* crc.c - CRC-32C, eight octets a step. */
#include "cache/crc.h"

#include <pthread.h>

enum { POLYNOMIAL = 0x82f63b78, STEPS = 8 }; /* reflected */

static uint32_t table[STEPS][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void table_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (unsigned k = 1; k < STEPS; k++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
    }
}

uint32_t cache_crc(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;
    pthread_once(&once, table_make);
    crc = ~crc;
    for (; len >= STEPS; p += STEPS, len -= STEPS) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
              table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
              table[0][p[7]];
    }
    for (; len > 0; p++, len--)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}
