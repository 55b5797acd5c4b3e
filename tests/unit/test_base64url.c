/* test_base64url.c - RFC 4648 5, with and without padding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/base64url.h"

static void decodes(void **state)
{
    static const struct {
        const char *in, *out;
        size_t len;
    } rows[] = {
        {"", "", 0},
        {"Zg", "f", 1},
        {"Zm8", "fo", 2},
        {"Zm9v", "foo", 3},
        {"Zm9vYg", "foob", 4},
        {"Zm9vYmE", "fooba", 5},
        {"Zm9vYmFy", "foobar", 6},
        {"Zg==", "f", 1},
        {"Zm8=", "fo", 2},
        {"Zm9vYg=", "foob", 4}, /* padding cut short */
        {"-_8", "\xfb\xff", 2},
        {"AAAA", "\0\0\0", 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t out[16];
        size_t len = strlen(rows[i].in);

        assert_true(base64url_size(len) >= rows[i].len);
        if (base64url_decode(out, rows[i].in, len) != rows[i].len)
            fail_msg("%s", rows[i].in);
        assert_memory_equal(out, rows[i].out, rows[i].len);
    }
}

static void refuses(void **state)
{
    static const char *const rows[] = {
        "Z",
        "Zm9vY",
        "Zm9v=",
        "Zm9v==",
        "Zg===",
        "=",
        "==",
        "Z=",
        "Z===",
        "Zg=a",
        "Zm=v",
        "+_8",
        "-/8",
        "Zm 9",
        "Zm9v\n",
        "Zm9.",
        "Zm9v!",
        "Zh",
        "Zn",
        "Zm9",
        "Zm-",
        "\xc3\xbc--",
        "AAA%",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t out[16];

        if (base64url_decode(out, rows[i], strlen(rows[i])) != SIZE_MAX)
            fail_msg("%s", rows[i]);
    }
}

/* Every octet in every place of a message of every length up to 70, against a plain encoder. */
static void all_lengths(void **state)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    (void)state;
    srandom(1);
    for (size_t len = 0; len <= 70; len++) {
        for (int round = 0; round < 50; round++) {
            uint8_t in[70], *out = malloc(base64url_size((len * 8 + 5) / 6));
            char text[100];
            size_t n = 0;
            uint32_t bits = 0;
            int have = 0;

            for (size_t i = 0; i < len; i++) {
                in[i] = (uint8_t)random();
                bits = bits << 8 | in[i];
                for (have += 8; have >= 6; have -= 6)
                    text[n++] = alphabet[bits >> (have - 6) & 63];
            }
            if (have > 0)
                text[n++] = alphabet[bits << (6 - have) & 63];
            assert_int_equal(base64url_decode(out, text, n), len);
            assert_memory_equal(out, in, len);
            free(out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes),
        cmocka_unit_test(refuses),
        cmocka_unit_test(all_lengths),
    };

    return cmocka_run_group_tests_name("base64url", tests, NULL, NULL);
}
