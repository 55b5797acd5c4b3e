/* resolvconf.c - see resolvconf.h. */
#include "resolvconf.h"

#include <stdio.h>
#include <string.h>

static bool is_listed(const struct addr *list, size_t n, const struct addr *a)
{
    for (size_t i = 0; i < n; i++) {
        if (addr_ip_equal(&list[i], a) && list[i].scope_id == a->scope_id)
            return true;
    }
    return false;
}

static bool is_resolved_stub(const struct addr *a)
{
    static const uint8_t stub[4] = {127, 0, 0, 53};

    return a->family == ADDR_V4 && memcmp(a->ip, stub, sizeof(stub)) == 0;
}

/* "nameserver ADDRESS", whatever blanks and comment there are. The address may have a scope,
 * but not a port. */
static bool read_line(char *line, struct addr *out)
{
    static const char blanks[] = " \t\r\n";
    char *rest;
    const char *word = strtok_r(line, blanks, &rest);

    if (word == NULL || strcmp(word, "nameserver") != 0)
        return false;
    word = strtok_r(NULL, blanks, &rest);
    return word != NULL && addr_parse(out, word, 53);
}

static size_t read_file(const char *path, struct addr *out, size_t max)
{
    char line[1024];
    size_t n = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    while (n < max && fgets(line, sizeof(line), file) != NULL) {
        struct addr a;
        if (read_line(line, &a) && !is_listed(out, n, &a))
            out[n++] = a;
    }
    fclose(file);
    return n;
}

size_t resolvconf_read(const char *path, const char *resolved_path, struct addr *out,
                       size_t max)
{
    size_t n = read_file(path, out, max);

    for (size_t i = 0; i < n; i++) {
        if (!is_resolved_stub(&out[i]))
            continue;
        size_t behind = read_file(resolved_path, out, max);
        return behind > 0 ? behind : n;
    }
    return n;
}
