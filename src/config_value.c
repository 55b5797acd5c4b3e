/* config_value.c - the kinds of values that are numbers, sizes, times and words.
 *
 * Every read() leaves the field alone when it fails. */
#include <sched.h>
#include <string.h>
#include <strings.h>

#include "config_schema.h"
#include "units.h"

/* ---- numbers ---- */

static bool in_range(const struct option *o, uint64_t v,
                     const char *(*format)(uint64_t, char *), char *why, size_t why_size)
{
    char low[UNITS_TEXT_SIZE], high[UNITS_TEXT_SIZE];

    if (v >= o->min && (o->max == 0 || v <= o->max))
        return true;
    if (o->max == 0)
        snprintf(why, why_size, "is out of range (%s at least)", format(o->min, low));
    else
        snprintf(why, why_size, "is out of range (%s to %s)", format(o->min, low),
                 format(o->max, high));
    return false;
}

static const char *format_count(uint64_t v, char *out)
{
    snprintf(out, UNITS_TEXT_SIZE, "%llu", (unsigned long long)v);
    return out;
}

static const char *format_seconds(uint64_t v, char *out)
{
    return units_write_ms(v * 1000, out);
}

static bool bool_read(const struct option *o, const char *text, void *field, char *why,
                      size_t why_size)
{
    static const struct option_choice words[] = {
        {"true", 1}, {"yes", 1}, {"on", 1}, {"false", 0}, {"no", 0}, {"off", 0}, {NULL, 0},
    };

    (void)o;
    for (const struct option_choice *w = words; w->name != NULL; w++) {
        if (strcasecmp(w->name, text) == 0) {
            bool value = w->value != 0;
            memcpy(field, &value, sizeof(value));
            return true;
        }
    }
    return option_refuse(why, why_size, "is not true or false");
}

static bool bool_write(const struct option *o, const void *field, char *text, size_t text_size)
{
    (void)o;
    snprintf(text, text_size, "%s", *(const bool *)field ? "true" : "false");
    return true;
}

const struct option_kind kind_bool = {"true or false", sizeof(bool), bool_read, bool_write,
                                      NULL};

static bool count_read(const struct option *o, const char *text, void *field, char *why,
                       size_t why_size)
{
    uint64_t v;
    const char *fault = units_read_count(text, UINT32_MAX, &v);

    if (fault != NULL)
        return option_refuse(why, why_size, fault);
    if (!in_range(o, v, format_count, why, why_size))
        return false;
    uint32_t value = (uint32_t)v;
    memcpy(field, &value, sizeof(value));
    return true;
}

static bool count_write(const struct option *o, const void *field, char *text, size_t text_size)
{
    (void)o;
    snprintf(text, text_size, "%u", *(const uint32_t *)field);
    return true;
}

const struct option_kind kind_count = {"a number", sizeof(uint32_t), count_read, count_write,
                                       NULL};

static bool octet_read(const struct option *o, const char *text, void *field, char *why,
                       size_t why_size)
{
    uint32_t v;

    if (!count_read(o, text, &v, why, why_size))
        return false;
    *(uint8_t *)field = (uint8_t)v;
    return true;
}

static bool octet_write(const struct option *o, const void *field, char *text, size_t text_size)
{
    uint32_t v = *(const uint8_t *)field;

    return count_write(o, &v, text, text_size);
}

const struct option_kind kind_octet = {"a number", sizeof(uint8_t), octet_read, octet_write,
                                       NULL};

/* As many as there are processors that we may run on. */
static unsigned count_processors(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}

static bool workers_read(const struct option *o, const char *text, void *field, char *why,
                         size_t why_size)
{
    if (strcmp(text, "auto") != 0)
        return count_read(o, text, field, why, why_size);
    unsigned n = count_processors();
    if (n > o->max)
        n = (unsigned)o->max;
    memcpy(field, &n, sizeof(n));
    return true;
}

const struct option_kind kind_workers = {"auto or a number", sizeof(unsigned), workers_read,
                                         count_write, NULL};

/* ---- sizes and times ---- */

static bool size_read(const struct option *o, const char *text, void *field, char *why,
                      size_t why_size)
{
    uint64_t v;
    const char *fault = units_read_bytes(text, &v);

    if (fault != NULL)
        return option_refuse(why, why_size, fault);
    if (!in_range(o, v, units_write_bytes, why, why_size))
        return false;
    memcpy(field, &v, sizeof(v));
    return true;
}

static bool size_write(const struct option *o, const void *field, char *text, size_t text_size)
{
    char number[UNITS_TEXT_SIZE];
    uint64_t v;

    (void)o;
    memcpy(&v, field, sizeof(v));
    snprintf(text, text_size, "%s", units_write_bytes(v, number));
    return true;
}

const struct option_kind kind_size = {"a size such as 64MiB", sizeof(uint64_t), size_read,
                                      size_write, NULL};

static bool whole_seconds_read(const struct option *o, const char *text, enum units_bare bare,
                               void *field, char *why, size_t why_size)
{
    uint64_t ms;
    const char *fault = units_read_ms(text, bare, &ms);

    if (fault != NULL)
        return option_refuse(why, why_size, fault);
    if (ms % 1000 != 0)
        return option_refuse(why, why_size, "is not in whole seconds");
    if (!in_range(o, ms / 1000, format_seconds, why, why_size))
        return false;
    uint32_t value = (uint32_t)(ms / 1000);
    memcpy(field, &value, sizeof(value));
    return true;
}

static bool seconds_read(const struct option *o, const char *text, void *field, char *why,
                         size_t why_size)
{
    return whole_seconds_read(o, text, UNITS_BARE_NO, field, why, why_size);
}

static bool ttl_read(const struct option *o, const char *text, void *field, char *why,
                     size_t why_size)
{
    return whole_seconds_read(o, text, UNITS_BARE_SECONDS, field, why, why_size);
}

static bool seconds_write(const struct option *o, const void *field, char *text,
                          size_t text_size)
{
    char number[UNITS_TEXT_SIZE];

    (void)o;
    snprintf(text, text_size, "%s", format_seconds(*(const uint32_t *)field, number));
    return true;
}

const struct option_kind kind_seconds = {"a time such as 1d", sizeof(uint32_t), seconds_read,
                                         seconds_write, NULL};
/* DNS counts in seconds, so a bare number is no riddle here. */
const struct option_kind kind_ttl = {"a time such as 30 or 1d", sizeof(uint32_t), ttl_read,
                                     seconds_write, NULL};

static bool millis_read(const struct option *o, const char *text, void *field, char *why,
                        size_t why_size)
{
    uint64_t ms;
    const char *fault = units_read_ms(text, UNITS_BARE_NO, &ms);

    if (fault != NULL)
        return option_refuse(why, why_size, fault);
    if (!in_range(o, ms, units_write_ms, why, why_size))
        return false;
    uint32_t value = (uint32_t)ms;
    memcpy(field, &value, sizeof(value));
    return true;
}

static bool millis_write(const struct option *o, const void *field, char *text,
                         size_t text_size)
{
    char number[UNITS_TEXT_SIZE];

    (void)o;
    snprintf(text, text_size, "%s", units_write_ms(*(const uint32_t *)field, number));
    return true;
}

const struct option_kind kind_millis = {"a time such as 1300ms", sizeof(uint32_t), millis_read,
                                        millis_write, NULL};

/* ---- words ---- */

static bool choice_read(const struct option *o, const char *text, void *field, char *why,
                        size_t why_size)
{
    for (const struct option_choice *c = o->choices; c->name != NULL; c++) {
        if (strcmp(c->name, text) == 0) {
            memcpy(field, &c->value, sizeof(c->value));
            return true;
        }
    }
    size_t len = (size_t)snprintf(why, why_size, "is not one of");
    for (const struct option_choice *c = o->choices; c->name != NULL && len < why_size; c++)
        len += (size_t)snprintf(why + len, why_size - len, "%s %s", c == o->choices ? "" : ",",
                                c->name);
    return false;
}

static bool choice_write(const struct option *o, const void *field, char *text,
                         size_t text_size)
{
    int value;

    memcpy(&value, field, sizeof(value));
    for (const struct option_choice *c = o->choices; c->name != NULL; c++) {
        if (c->value == value)
            snprintf(text, text_size, "%s", c->name);
    }
    return true;
}

const struct option_kind kind_choice = {"a word", sizeof(int), choice_read, choice_write, NULL};
