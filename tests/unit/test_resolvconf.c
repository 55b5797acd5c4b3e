/* test_resolvconf.c - nameservers of resolv.conf(5), and the way round systemd-resolved's stub.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "resolvconf.h"

static char folder[] = "/tmp/pith-resolvconf-XXXXXX";
static char main_path[64], resolved_path[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(main_path, sizeof(main_path), "%s/resolv.conf", folder);
    snprintf(resolved_path, sizeof(resolved_path), "%s/resolved.conf", folder);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    unlink(main_path);
    unlink(resolved_path);
    return rmdir(folder);
}

/* NULL: no such file. */
static void put(const char *path, const char *text)
{
    unlink(path);
    if (text == NULL)
        return;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void test_files(void **state)
{
    static const struct {
        const char *file, *resolved, *wanted; /* wanted: addresses with a blank behind each */
    } rows[] = {
        {NULL, NULL, ""},
        {"", NULL, ""},
        {"search example.net\noptions edns0\n", NULL, ""},
        {"nameserver 192.0.2.1\n", NULL, "192.0.2.1:53 "},
        {"nameserver 192.0.2.1", NULL, "192.0.2.1:53 "},
        {"# nameserver 192.0.2.9\n;nameserver 192.0.2.8\n\tnameserver\t192.0.2.1  # x\r\n",
         NULL, "192.0.2.1:53 "},
        {"nameserver 2001:db8::1\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n", NULL,
         "[2001:db8::1]:53 192.0.2.1:53 "},
        {"nameserver fe80::1%lo\n", NULL, "[fe80::1%1]:53 "},
        {"nameserver not.an.address\nnameserver\nnameservers 192.0.2.1\n", NULL, ""},
        {"nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
         "nameserver 192.0.2.4\n",
         NULL, "192.0.2.1:53 192.0.2.2:53 192.0.2.3:53 "},
        {"nameserver 127.0.0.53\noptions edns0 trust-ad\n", "nameserver 198.51.100.1\n",
         "198.51.100.1:53 "},
        {"nameserver 192.0.2.1\nnameserver 127.0.0.53\n",
         "nameserver 198.51.100.1\nnameserver 198.51.100.2\n",
         "198.51.100.1:53 198.51.100.2:53 "},
        {"nameserver 127.0.0.53\n", NULL, "127.0.0.53:53 "},
        {"nameserver 127.0.0.53\n", "# nothing\n", "127.0.0.53:53 "},
        {"nameserver 127.0.0.1\n", "nameserver 198.51.100.1\n", "127.0.0.1:53 "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct addr list[3];
        char got[256] = "", text[ADDR_TEXT_SIZE];
        put(main_path, rows[i].file);
        put(resolved_path, rows[i].resolved);
        size_t n = resolvconf_read(main_path, resolved_path, list, 3);
        for (size_t k = 0; k < n; k++) {
            strcat(got, addr_format(&list[k], text));
            strcat(got, " ");
        }
        assert_string_equal(got, rows[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};

    return cmocka_run_group_tests(tests, set_up, clean_up);
}
