/* config_schema.h - the option table: what there is to configure, of what kind, with which
 * default.
 *
 * One table is all there is to know about an option: the document walk (config_yaml.c),
 * defaults, the dump (config_dump.c), release and the check of pith.yaml(5) come from it. To
 * add an option: a field in struct config, a row in config_schema.c, an entry in
 * man/pith.yaml.5. Private to src/config*.c and their tests. Thread: the tables are constant.
 */
#ifndef PITH_CONFIG_SCHEMA_H
#define PITH_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config.h"

struct option;

/* How a scalar is read from text and written back. */
struct option_kind {
    const char *what; /* what is wanted, for messages and the manual: "true or false" */
    size_t size;      /* octets of the field */
    /* Sets *field. False with the reason in why, to follow the quoted text: "is not ...".
     * Fields that own memory are NULL or released before. */
    bool (*read)(const struct option *o, const char *text, void *field, char *why,
                 size_t why_size);
    /* The text that read() takes for the same value; false when there is none (an unset text).
     */
    bool (*write)(const struct option *o, const void *field, char *text, size_t text_size);
    void (*release)(void *field); /* NULL: owns nothing */
};

struct option_choice {
    const char *name;
    int value;
};

enum option_shape {
    OPTION_SCALAR,
    OPTION_MAP,   /* members lie in the same struct as the map itself */
    OPTION_TEXTS, /* a list of scalars of `kind` */
    OPTION_ITEMS, /* a list of maps, each a struct of its own */
};

struct option_table {
    const struct option *options;
    size_t n;
};

struct option {
    const char *name;
    enum option_shape shape;
    bool required;
    const struct option_kind *kind;
    size_t offset;       /* of the field; of a list: of the pointer to its first item */
    size_t count_offset; /* of a list: of its size_t count */
    size_t item_size;
    const struct option_table *members;
    const char *initial; /* default as text, a list's items with blanks between; NULL: unset */
    uint64_t min, max;   /* in the field's unit; both 0: any */
    uint16_t port;       /* of an address without one */
    const struct option_choice *choices;
    const char *help;
};

extern const struct option_table config_options;

/* What config_load() returns is the first member of this: the lists of listeners as the file
 * has them, which config.listeners repeats as one. */
struct config_document {
    struct config config;
    struct listener_list {
        struct config_listener *list;
        size_t n;
    } listeners[3]; /* by enum listener_kind */
};

/* Fields of an object that table describes. */
static inline void *option_field(const struct option *o, void *object)
{
    return (char *)object + o->offset;
}

void *option_list(const struct option *o, const void *object, size_t *count);
/* An array of n zeroed items, owned by the object, in place of what was there; false when
 * memory is out. */
bool option_list_create(const struct option *o, void *object, size_t n);
/* Frees what the object's fields own, and leaves them unset. */
void option_table_release(const struct option_table *t, void *object);
/* Sets every field to its default. The object is zeroed before. False when memory is out. */
bool option_table_defaults(const struct option_table *t, void *object);

/* Where faults go, and where in the file a value came from. */
struct config_faults;

/* One line "FILE:LINE: key: what"; without the line number when line is 0. */
void config_fault(struct config_faults *f, unsigned line, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for the value that was read into field; for a value that is not in the file, key
 * alone. */
void config_fault_at(struct config_faults *f, const void *field, const char *key,
                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Remembers that field was read at this line under this key. False when memory is out. */
bool config_mark(struct config_faults *f, const void *field, unsigned line, const char *key);
/* True when the field was given in the file. */
bool config_is_given(const struct config_faults *f, const void *field);
unsigned config_fault_count(const struct config_faults *f);

/* config_yaml.c: reads the document into d, which holds the defaults. Every fault is told.
 * False when it is no YAML, so that checking what was read makes no sense. */
bool config_read_yaml(struct config_faults *f, const char *path, struct config_document *d);

/* config_env.c: options in the environment. Read before the file, which then leaves them alone.
 * Every fault is told. */
void config_read_environment(struct config_faults *f, struct config_document *d);

/* config_check.c: what one value alone cannot tell; fills in what follows from other values.
 * Copes with values that were refused, which are unset or the default. */
void config_check(struct config_faults *f, struct config_document *d);

/* Says in why what is wrong, for a read() to return. Always false. */
static inline bool option_refuse(char *why, size_t why_size, const char *what)
{
    snprintf(why, why_size, "%s", what);
    return false;
}

/* config_value.c, config_text.c: the kinds. */
extern const struct option_kind kind_bool, kind_count, kind_octet, kind_workers, kind_size,
    kind_seconds, kind_ttl, kind_millis, kind_choice, kind_text, kind_header, kind_file,
    kind_saved_file, kind_host, kind_url_path, kind_address, kind_cidr, kind_domain, kind_pin;

enum { OPTION_TEXT_SIZE = 4096 };

#endif
