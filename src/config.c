/* config.c - a configuration from start to end: load, references, faults. */
#include "config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config_schema.h"

struct mark {
    const void *field;
    const char *path;
    unsigned line;
    char *key;
};

struct config_faults {
    const char *path; /* as it is told */
    FILE *out;
    unsigned count;
    struct mark *marks;
    size_t n_marks, marks_size;
};

/* ---- faults ---- */

static void tell(struct config_faults *f, const char *path, unsigned line, const char *key,
                 const char *fmt, va_list args) __attribute__((format(printf, 5, 0)));

static void tell(struct config_faults *f, const char *path, unsigned line, const char *key,
                 const char *fmt, va_list args)
{
    f->count++;
    fprintf(f->out, "%s:", path);
    if (line > 0)
        fprintf(f->out, "%u:", line);
    fprintf(f->out, " %s: ", key);
    vfprintf(f->out, fmt, args);
    fputc('\n', f->out);
}

void config_fault(struct config_faults *f, unsigned line, const char *key, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    tell(f, f->path, line, key, fmt, args);
    va_end(args);
}

static const struct mark *find_mark(const struct config_faults *f, const void *field)
{
    for (size_t i = 0; i < f->n_marks; i++) {
        if (f->marks[i].field == field)
            return &f->marks[i];
    }
    return NULL;
}

void config_fault_at(struct config_faults *f, const void *field, const char *key,
                     const char *fmt, ...)
{
    const struct mark *m = find_mark(f, field);
    va_list args;

    va_start(args, fmt);
    if (m == NULL)
        tell(f, f->path, 0, key, fmt, args);
    else
        tell(f, m->path, m->line, m->key, fmt, args);
    va_end(args);
}

bool config_mark(struct config_faults *f, const void *field, unsigned line, const char *key)
{
    if (f->n_marks == f->marks_size) {
        size_t size = f->marks_size == 0 ? 64 : 2 * f->marks_size;
        struct mark *marks = realloc(f->marks, size * sizeof(*marks));
        if (marks == NULL)
            return false;
        f->marks = marks;
        f->marks_size = size;
    }
    char *copy = strdup(key);
    if (copy == NULL)
        return false;
    f->marks[f->n_marks++] =
        (struct mark){.field = field, .path = f->path, .line = line, .key = copy};
    return true;
}

bool config_is_given(const struct config_faults *f, const void *field)
{
    return find_mark(f, field) != NULL;
}

unsigned config_fault_count(const struct config_faults *f)
{
    return f->count;
}

static void release_faults(struct config_faults *f)
{
    for (size_t i = 0; i < f->n_marks; i++)
        free(f->marks[i].key);
    free(f->marks);
}

/* ---- life ---- */

static void destroy_document(struct config_document *d)
{
    if (d == NULL)
        return;
    for (size_t i = 0; i < d->config.n_upstreams; i++)
        free(d->config.upstreams[i].host); /* no option of its own */
    option_table_release(&config_options, d);
    free(d->config.listeners);
    free(d->config.path);
    free(d);
}

/* The one list of listeners that everybody else uses; what its items own stays with the lists
 * of the document. */
static bool join_listeners(struct config_document *d)
{
    struct config *c = &d->config;
    size_t n = 0;

    for (size_t kind = 0; kind < 3; kind++)
        n += d->listeners[kind].n;
    c->listeners = calloc(n == 0 ? 1 : n, sizeof(*c->listeners));
    if (c->listeners == NULL)
        return false;
    for (size_t kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < d->listeners[kind].n; i++)
            c->listeners[c->n_listeners++] = d->listeners[kind].list[i];
    }
    return true;
}

static struct config_document *create_document(const char *path)
{
    struct config_document *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return NULL;
    d->config.refs = 1;
    if (path != NULL)
        d->config.path = strdup(path);
    if ((path != NULL && d->config.path == NULL) ||
        !option_table_defaults(&config_options, d)) {
        destroy_document(d);
        return NULL;
    }
    return d;
}

struct config *config_load(const char *path, FILE *faults)
{
    struct config_faults f = {.path = path == NULL ? "built-in defaults" : path, .out = faults};
    struct config_document *d = create_document(path);

    if (d == NULL) {
        config_fault(&f, 0, "config", "does not fit in memory");
        return NULL;
    }
    /* First, for what is given there is left alone by the file. */
    f.path = "environment";
    config_read_environment(&f, d);
    f.path = path == NULL ? "built-in defaults" : path;
    if (path == NULL || config_read_yaml(&f, path, d))
        config_check(&f, d);
    if (f.count == 0 && !join_listeners(d))
        config_fault(&f, 0, "config", "does not fit in memory");
    release_faults(&f);
    if (f.count > 0) {
        destroy_document(d);
        return NULL;
    }
    return &d->config;
}

struct config *config_ref(struct config *c)
{
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

void config_unref(struct config *c)
{
    if (c != NULL && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0)
        destroy_document((struct config_document *)c);
}
