/* config_dump.c - the effective configuration as YAML, by the option table. */
#include <string.h>

#include "config_schema.h"

enum { INDENT = 2 };

/* A scalar that YAML cannot take for anything but text, unless it is a plain number or word. */
static void write_text(const char *text, FILE *out)
{
    static const char plain[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./";

    if (*text != '\0' && *text != '-' && text[strspn(text, plain)] == '\0') {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void write_scalar(const struct option *o, const void *field, FILE *out)
{
    char text[OPTION_TEXT_SIZE];

    if (o->kind->write(o, field, text, sizeof(text)))
        write_text(text, out);
}

/* What has no value that could be written: unset texts, and lists that are empty by default. */
static bool is_unset(const struct option *o, const void *object)
{
    char text[OPTION_TEXT_SIZE];
    size_t n;

    switch (o->shape) {
    case OPTION_SCALAR:
        return !o->kind->write(o, (const char *)object + o->offset, text, sizeof(text));
    case OPTION_MAP:
        return false;
    case OPTION_TEXTS:
    case OPTION_ITEMS:
        break;
    }
    option_list(o, object, &n);
    return n == 0 && o->initial == NULL;
}

static void write_table(const struct option_table *t, const void *object, int indent,
                        const char *lead, FILE *out);

static void write_texts(const struct option *o, const void *object, FILE *out)
{
    size_t n;
    const char *list = option_list(o, object, &n);

    fputs("[", out);
    for (size_t i = 0; i < n; i++) {
        fputs(i == 0 ? "" : ", ", out);
        write_scalar(o, list + i * o->item_size, out);
    }
    fputs("]\n", out);
}

static void write_items(const struct option *o, const void *object, int indent, FILE *out)
{
    size_t n;
    const char *list = option_list(o, object, &n);

    fputs("\n", out);
    for (size_t i = 0; i < n; i++)
        write_table(o->members, list + i * o->item_size, indent + INDENT, "- ", out);
}

static void write_option(const struct option *o, const void *object, int indent, FILE *out)
{
    fprintf(out, "%s:", o->name);
    switch (o->shape) {
    case OPTION_SCALAR:
        fputs(" ", out);
        write_scalar(o, (const char *)object + o->offset, out);
        fputs("\n", out);
        break;
    case OPTION_MAP:
        fputs("\n", out);
        write_table(o->members, object, indent + INDENT, "", out);
        break;
    case OPTION_TEXTS:
        fputs(" ", out);
        write_texts(o, object, out);
        break;
    case OPTION_ITEMS:
        write_items(o, object, indent, out);
        break;
    }
}

/* `lead` stands before the first line, in the indentation's last columns. */
static void write_table(const struct option_table *t, const void *object, int indent,
                        const char *lead, FILE *out)
{
    int lead_len = (int)strlen(lead);

    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (is_unset(o, object))
            continue;
        fprintf(out, "%*s%s", indent, "", lead);
        write_option(o, object, indent + lead_len, out);
        lead = lead_len == 0 ? "" : "  ";
    }
}

void config_dump(const struct config *c, FILE *out)
{
    /* config_load() makes nothing else. */
    const struct config_document *d = (const struct config_document *)c;

    write_table(&config_options, d, 0, "", out);
}
