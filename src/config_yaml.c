/* config_yaml.c - a YAML document into an object, driven by the option table.
 *
 * libyaml's document API gives nodes with marks, so every fault names its line. The walk goes
 * as deep as the table does and no deeper, whatever aliases the document has. A fault does not
 * end it: all faults are told in one run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "config_schema.h"
#include "core/log.h"

enum {
    KEY_TEXT_SIZE = 256,
    SHOWN_TEXT_MAX = 80,
    TEXT_MAX = 4 * 1024 * 1024, /* a file that large is not a configuration */
};

struct text {
    unsigned char *octets;
    size_t len;
};

struct walk {
    struct config_faults *faults;
    yaml_document_t *document;
};

static unsigned line_of(const yaml_node_t *node)
{
    return (unsigned)node->start_mark.line + 1;
}

static bool is_empty(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0 &&
           node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static const char *text_of(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

/* What the file has there, short and harmless, for a message. */
static const char *shown(const yaml_node_t *node, char *out)
{
    snprintf(out, SHOWN_TEXT_MAX, "%s", text_of(node));
    return log_clean(out);
}

static void read_map(struct walk *w, const yaml_node_t *node, const struct option_table *table,
                     void *object, const char *key);

static void out_of_memory(struct walk *w, const yaml_node_t *node, const char *key)
{
    config_fault(w->faults, line_of(node), key, "does not fit in memory");
}

/* A value that is no text where `what` is wanted. True when it is a text. */
static bool want_text(struct walk *w, const yaml_node_t *node, const char *key,
                      const char *what)
{
    if (node->type != YAML_SCALAR_NODE) {
        config_fault(w->faults, line_of(node), key, "is a %s, but %s is wanted",
                     node->type == YAML_MAPPING_NODE ? "map" : "list", what);
        return false;
    }
    if (is_empty(node)) {
        config_fault(w->faults, line_of(node), key, "has no value, %s is wanted", what);
        return false;
    }
    if (memchr(text_of(node), '\0', node->data.scalar.length) != NULL) {
        config_fault(w->faults, line_of(node), key, "has a NUL in it");
        return false;
    }
    return true;
}

static void read_scalar(struct walk *w, const yaml_node_t *node, const struct option *o,
                        void *field, const char *key)
{
    char why[256], text[SHOWN_TEXT_MAX];

    if (config_is_given(w->faults, field))
        return; /* in the environment */
    if (!want_text(w, node, key, o->kind->what))
        return;
    if (!config_mark(w->faults, field, line_of(node), key)) {
        out_of_memory(w, node, key);
        return;
    }
    if (o->kind->release != NULL)
        o->kind->release(field);
    if (!o->kind->read(o, text_of(node), field, why, sizeof(why)))
        config_fault(w->faults, line_of(node), key, "\"%s\" %s", shown(node, text), why);
}

static void read_list(struct walk *w, const yaml_node_t *node, const struct option *o,
                      void *object, const char *key)
{
    char item_key[KEY_TEXT_SIZE];

    if (config_is_given(w->faults, option_field(o, object)))
        return; /* in the environment */
    if (node->type != YAML_SEQUENCE_NODE && !is_empty(node)) {
        config_fault(w->faults, line_of(node), key,
                     "is not a list ([...], or lines with \"- \")");
        return;
    }
    size_t n = 0;
    if (node->type == YAML_SEQUENCE_NODE)
        n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (!option_list_create(o, object, n) ||
        !config_mark(w->faults, option_field(o, object), line_of(node), key)) {
        out_of_memory(w, node, key);
        return;
    }
    char *list = option_list(o, object, &n);
    for (size_t i = 0; i < n; i++) {
        void *item = list + i * o->item_size;
        const yaml_node_t *child =
            yaml_document_get_node(w->document, node->data.sequence.items.start[i]);
        snprintf(item_key, sizeof(item_key), "%.*s[%zu]", KEY_TEXT_SIZE / 2, key, i);
        if (o->shape == OPTION_TEXTS)
            read_scalar(w, child, o, item, item_key);
        else if (!option_table_defaults(o->members, item))
            out_of_memory(w, child, item_key);
        else
            read_map(w, child, o->members, item, item_key);
    }
}

static void read_option(struct walk *w, const yaml_node_t *node, const struct option *o,
                        void *object, const char *key)
{
    switch (o->shape) {
    case OPTION_SCALAR:
        read_scalar(w, node, o, option_field(o, object), key);
        break;
    case OPTION_MAP:
        read_map(w, node, o->members, object, key);
        break;
    case OPTION_TEXTS:
    case OPTION_ITEMS:
        read_list(w, node, o, object, key);
        break;
    }
}

static const struct option *find_option(const struct option_table *table, const char *name)
{
    for (size_t i = 0; i < table->n; i++) {
        if (strcmp(table->options[i].name, name) == 0)
            return &table->options[i];
    }
    return NULL;
}

static void full_key(char *out, const char *parent, const char *name)
{
    snprintf(out, KEY_TEXT_SIZE, "%s%s%s", parent, *parent == '\0' ? "" : ".", name);
}

/* One key and its value. first[i] is the line where option i was seen, 0 before that. */
static void read_pair(struct walk *w, const yaml_node_pair_t *pair,
                      const struct option_table *table, void *object, const char *parent,
                      unsigned *first)
{
    const yaml_node_t *name = yaml_document_get_node(w->document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(w->document, pair->value);
    char key[KEY_TEXT_SIZE], text[SHOWN_TEXT_MAX];

    if (name->type != YAML_SCALAR_NODE) {
        config_fault(w->faults, line_of(name), *parent == '\0' ? "document" : parent,
                     "has a key that is not a word");
        return;
    }
    full_key(key, parent, shown(name, text));
    const struct option *o = find_option(table, text_of(name));
    if (o == NULL) {
        config_fault(w->faults, line_of(name), key, "unknown key");
        return;
    }
    unsigned *seen = &first[o - table->options];
    if (*seen != 0) {
        config_fault(w->faults, line_of(name), key, "is given twice, first in line %u", *seen);
        return;
    }
    *seen = line_of(name);
    read_option(w, value, o, object, key);
}

static void read_map(struct walk *w, const yaml_node_t *node, const struct option_table *table,
                     void *object, const char *parent)
{
    char key[KEY_TEXT_SIZE];
    unsigned first[32] = {0};

    if (is_empty(node)) {
        ; /* All of it commented out: as if it were not there. */
    } else if (node->type != YAML_MAPPING_NODE) {
        config_fault(w->faults, line_of(node), *parent == '\0' ? "document" : parent,
                     "is not a map (\"key: value\")");
        return;
    } else {
        for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
             p < node->data.mapping.pairs.top; p++)
            read_pair(w, p, table, object, parent, first);
    }
    for (size_t i = 0; i < table->n; i++) {
        if (table->options[i].required && first[i] == 0) {
            full_key(key, parent, table->options[i].name);
            config_fault(w->faults, line_of(node), key, "is missing");
        }
    }
}

/* A fault below the parser (no UTF-8, say) has an offset only. */
static unsigned line_at(const struct text *text, size_t offset)
{
    unsigned line = 1;

    for (size_t i = 0; i < offset && i < text->len; i++)
        line += text->octets[i] == '\n';
    return line;
}

static void tell_syntax(struct config_faults *f, const yaml_parser_t *parser,
                        const struct text *text)
{
    unsigned line = (unsigned)parser->problem_mark.line + 1;
    const char *problem = parser->problem == NULL ? "cannot be read" : parser->problem;

    if (parser->error == YAML_MEMORY_ERROR)
        config_fault(f, 0, "yaml", "does not fit in memory");
    else if (parser->error == YAML_READER_ERROR)
        config_fault(f, line_at(text, parser->problem_offset), "yaml", "%s", problem);
    else if (parser->context != NULL)
        config_fault(f, line, "yaml", "%s (%s, line %zu)", problem, parser->context,
                     parser->context_mark.line + 1);
    else
        config_fault(f, line, "yaml", "%s", problem);
}

/* There is to be one document, and nothing after it. */
static bool read_documents(struct config_faults *f, yaml_parser_t *parser,
                           const struct text *text, struct config_document *d)
{
    yaml_document_t document;

    if (!yaml_parser_load(parser, &document)) {
        tell_syntax(f, parser, text);
        return false;
    }
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    struct walk w = {.faults = f, .document = &document};
    if (root != NULL)
        read_map(&w, root, &config_options, d, "");
    yaml_document_delete(&document);
    if (root == NULL)
        return true;

    if (!yaml_parser_load(parser, &document)) {
        tell_syntax(f, parser, text);
        return false;
    }
    root = yaml_document_get_root_node(&document);
    if (root != NULL)
        config_fault(f, line_of(root), "document", "is a second one, only one is read");
    yaml_document_delete(&document);
    return root == NULL;
}

/* All of the file. NULL, or why not. */
static const char *read_file(const char *path, struct text *text)
{
    struct stat st;
    const char *fault = NULL;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return strerror(errno);
    text->octets = malloc(TEXT_MAX);
    if (fstat(fileno(file), &st) == 0 && S_ISDIR(st.st_mode))
        fault = strerror(EISDIR);
    else if (text->octets == NULL)
        fault = strerror(ENOMEM);
    else
        text->len = fread(text->octets, 1, TEXT_MAX, file);
    if (fault == NULL && ferror(file))
        fault = strerror(errno);
    else if (text->len == TEXT_MAX)
        fault = strerror(EFBIG);
    fclose(file);
    return fault;
}

bool config_read_yaml(struct config_faults *f, const char *path, struct config_document *d)
{
    yaml_parser_t parser;
    struct text text = {.len = 0};
    const char *fault = read_file(path, &text);
    bool ok = false;

    if (fault != NULL) {
        config_fault(f, 0, "config", "cannot be read: %s", fault);
    } else if (yaml_parser_initialize(&parser)) {
        yaml_parser_set_input_string(&parser, text.octets, text.len);
        ok = read_documents(f, &parser, &text, d);
        yaml_parser_delete(&parser);
    } else {
        config_fault(f, 0, "config", "does not fit in memory");
    }
    free(text.octets);
    return ok;
}
