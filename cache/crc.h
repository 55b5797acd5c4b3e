/* crc.h - CRC-32C (Castagnoli), as snapshots have it. */
#ifndef PITH_CACHE_CRC_H
#define PITH_CACHE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of len octets after others that had crc (0 in the beginning). Thread: any. */
uint32_t cache_crc(uint32_t crc, const void *data, size_t len);

#endif
