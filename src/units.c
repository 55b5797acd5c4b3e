/* units.c - see units.h. */
#include "units.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first, as the writers need it; what they must not use stands behind. */
static const struct unit size_units[] = {
    {"TiB", 1ULL << 40},
    {"GiB", 1ULL << 30},
    {"MiB", 1ULL << 20},
    {"KiB", 1ULL << 10},
    {"B", 1},
};

static const struct unit decimal_units[] = {
    {"TB", 1000000000000ULL},
    {"GB", 1000000000ULL},
    {"MB", 1000000ULL},
    {"kB", 1000},
};

static const struct unit time_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};

static const struct unit week_unit = {"w", 7 * 86400000ULL};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The digits that text begins with; NULL when there are none or too many, else what follows. */
static const char *read_digits(const char *text, uint64_t *number)
{
    uint64_t n = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (n > (UINT64_MAX - digit) / 10)
            return NULL;
        n = n * 10 + digit;
    }
    *number = n;
    return p == text ? NULL : p;
}

static const struct unit *find_unit(const struct unit *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(list[i].name, name) == 0)
            return &list[i];
    }
    return NULL;
}

const char *units_read_count(const char *text, uint64_t max, uint64_t *value)
{
    uint64_t n;
    const char *rest = read_digits(text, &n);

    if (rest == NULL || *rest != '\0')
        return "is not a whole number";
    if (n > max)
        return "is too large";
    *value = n;
    return NULL;
}

const char *units_read_bytes(const char *text, uint64_t *bytes)
{
    uint64_t n;
    const char *rest = read_digits(text, &n);

    if (rest == NULL)
        return "is not a size such as 64MiB";
    uint64_t factor = 1;
    if (*rest != '\0') {
        const struct unit *u = find_unit(size_units, LENGTH(size_units), rest);
        if (u == NULL)
            u = find_unit(decimal_units, LENGTH(decimal_units), rest);
        if (u == NULL)
            return "has no unit that is known (KiB, MiB, GiB, TiB, kB, MB, GB, TB)";
        factor = u->factor;
    }
    if (n > UINT64_MAX / factor)
        return "is too large";
    *bytes = n * factor;
    return NULL;
}

const char *units_read_ms(const char *text, enum units_bare bare, uint64_t *ms)
{
    uint64_t n;
    const char *rest = read_digits(text, &n);

    if (rest == NULL)
        return "is not a time such as 1300ms, 5s or 1d";
    uint64_t factor = 1000;
    if (*rest != '\0') {
        const struct unit *u = find_unit(time_units, LENGTH(time_units), rest);
        if (u == NULL)
            u = find_unit(&week_unit, 1, rest);
        if (u == NULL)
            return "has no unit that is known (ms, s, m, h, d, w)";
        factor = u->factor;
    } else if (bare == UNITS_BARE_NO && n != 0) {
        return "needs a unit (ms, s, m, h, d, w)";
    }
    if (n > UINT64_MAX / factor)
        return "is too large";
    *ms = n * factor;
    return NULL;
}

static const char *write_number(const struct unit *list, size_t n, uint64_t number, char *out)
{
    for (size_t i = 0; i < n; i++) {
        if (number != 0 && number % list[i].factor == 0) {
            snprintf(out, UNITS_TEXT_SIZE, "%llu%s",
                     (unsigned long long)(number / list[i].factor), list[i].name);
            return out;
        }
    }
    snprintf(out, UNITS_TEXT_SIZE, "0");
    return out;
}

const char *units_write_bytes(uint64_t bytes, char *out)
{
    return write_number(size_units, LENGTH(size_units), bytes, out);
}

const char *units_write_ms(uint64_t ms, char *out)
{
    return write_number(time_units, LENGTH(time_units), ms, out);
}
