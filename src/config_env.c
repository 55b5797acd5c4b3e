/* config_env.c - options in the environment, in place of those of the file: for containers.
 *
 * The name of an option is its key in capitals, with PITH_ before it and "_" for "." and "-":
 * PITH_CACHE_MEMORY is cache.memory. A list is words with blanks between (free text, as in
 * `local`: ";"). An item of a list of maps is the value of its first key, then further ones
 * with
 * "," before each: PITH_UPSTREAMS="9.9.9.9,transport=tls,tls-name=dns.quad9.net"; where such a
 * value is a list itself, "+" is between. All of it comes from the option table. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "config_schema.h"
#include "core/log.h"

enum { KEY_TEXT_SIZE = 256, SHOWN_TEXT_MAX = 80 };

static const char prefix[] = "PITH_";

extern char **environ;

/* What a variable is about. */
struct variable {
    char name[KEY_TEXT_SIZE]; /* for messages */
    struct config_faults *faults;
};

static void tell(const struct variable *v, const char *text, const char *why)
{
    char shown[SHOWN_TEXT_MAX];

    snprintf(shown, sizeof(shown), "%s", text);
    config_fault(v->faults, 0, v->name, "\"%s\" %s", log_clean(shown), why);
}

static bool mark(const struct variable *v, const void *field)
{
    if (config_mark(v->faults, field, 0, v->name))
        return true;
    config_fault(v->faults, 0, v->name, "does not fit in memory");
    return false;
}

static void read_scalar(const struct variable *v, const struct option *o, const char *text,
                        void *field)
{
    char why[256];

    if (!mark(v, field))
        return;
    if (o->kind->release != NULL)
        o->kind->release(field);
    if (!o->kind->read(o, text, field, why, sizeof(why)))
        tell(v, text, why);
}

static size_t count_words(const char *text, const char *separators)
{
    size_t n = 0;

    for (text += strspn(text, separators); *text != '\0'; text += strspn(text, separators)) {
        n++;
        text += strcspn(text, separators);
    }
    return n;
}

/* The next word of *rest, which is cut; NULL at the end. */
static char *next_word(char **rest, const char *separators)
{
    if (*rest == NULL)
        return NULL; /* strsep(3) at the end */
    *rest += strspn(*rest, separators);
    *rest += strspn(*rest, " ");
    return **rest == '\0' ? NULL : strsep(rest, separators);
}

static void read_list(const struct variable *v, const struct option *o, char *text,
                      const char *separators, void *object);

/* "key=value" of an item. */
static void read_member(const struct variable *v, const struct option *item, char *text,
                        void *object)
{
    char *value = strchr(text, '=');

    if (value != NULL)
        *value++ = '\0';
    for (size_t i = 0; i < item->members->n; i++) {
        const struct option *o = &item->members->options[i];
        if (strcmp(o->name, text) != 0)
            continue;
        if (value == NULL || *value == '\0')
            tell(v, text, "has no value");
        else if (o->shape == OPTION_SCALAR)
            read_scalar(v, o, value, option_field(o, object));
        else
            read_list(v, o, value, "+", object);
        return;
    }
    tell(v, text, "is no key of an item");
}

static void read_item(const struct variable *v, const struct option *o, char *text,
                      void *object)
{
    const struct option_table *t = o->members;
    char *rest = text;
    char *word = strsep(&rest, ",");

    if (!option_table_defaults(t, object)) {
        config_fault(v->faults, 0, v->name, "does not fit in memory");
        return;
    }
    read_scalar(v, &t->options[0], word, option_field(&t->options[0], object));
    while ((word = strsep(&rest, ",")) != NULL)
        read_member(v, o, word, object);
    for (size_t i = 1; i < t->n; i++) {
        const struct option *member = &t->options[i];
        if (member->required && !config_is_given(v->faults, option_field(member, object)))
            config_fault(v->faults, 0, v->name, "an item has no %s=", member->name);
    }
}

static void read_list(const struct variable *v, const struct option *o, char *text,
                      const char *separators, void *object)
{
    size_t n = count_words(text, separators);

    if (!option_list_create(o, object, n)) {
        config_fault(v->faults, 0, v->name, "does not fit in memory");
        return;
    }
    if (!mark(v, option_field(o, object)))
        return;
    char *item = option_list(o, object, &n);
    for (char *word; (word = next_word(&text, separators)) != NULL; item += o->item_size) {
        if (o->shape == OPTION_TEXTS)
            read_scalar(v, o, word, item);
        else
            read_item(v, o, word, item);
    }
}

/* The option whose key, written as a variable, the rest of a name is; maps are gone down into.
 */
static const struct option *find_option(const struct option_table *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        size_t n = 0;
        for (; o->name[n] != '\0'; n++) {
            char c = o->name[n] == '-' ? '_' : (char)toupper((unsigned char)o->name[n]);
            if (name[n] != c)
                break;
        }
        if (o->name[n] != '\0')
            continue;
        if (o->shape == OPTION_MAP && name[n] == '_') {
            const struct option *below = find_option(o->members, name + n + 1);
            if (below != NULL)
                return below;
        }
        if (o->shape != OPTION_MAP && name[n] == '\0')
            return o;
    }
    return NULL;
}

/* Not ours: the hooks of tests, and what Kubernetes sets for a service that is called pith. */
static bool is_foreign(const char *name)
{
    static const char *const others[] = {"TEST_", "PORT", "SERVICE_"};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return true;
    }
    return false;
}

static void read_variable(struct config_faults *f, const char *entry, struct config_document *d)
{
    struct variable v = {.faults = f};
    size_t len = strcspn(entry, "=");

    if (entry[len] == '\0' || is_foreign(entry + strlen(prefix)))
        return;
    snprintf(v.name, sizeof(v.name), "%.*s", (int)(len < sizeof(v.name) ? len : 0), entry);
    const struct option *o = find_option(&config_options, v.name + strlen(prefix));
    if (v.name[0] == '\0' || o == NULL) {
        config_fault(f, 0, log_clean(v.name), "unknown variable");
        return;
    }
    char *value = strdup(entry + len + 1);
    if (value == NULL)
        config_fault(f, 0, v.name, "does not fit in memory");
    else if (*value == '\0')
        config_fault(f, 0, v.name, "has no value, %s is wanted",
                     o->kind != NULL ? o->kind->what : "a list");
    else if (o->shape == OPTION_SCALAR)
        read_scalar(&v, o, value, option_field(o, d));
    else
        read_list(&v, o, value, o->kind == &kind_text ? ";\n" : " \t\n", d);
    free(value);
}

void config_read_environment(struct config_faults *f, struct config_document *d)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, prefix, strlen(prefix)) == 0)
            read_variable(f, *entry, d);
    }
}
