/* options.c - prints the option table: full key, default, what is wanted and help, a tab
 * between.
 *
 * What the checks of the manual and of the example configuration compare with. */
#include <stdio.h>

#include "config_schema.h"

enum { KEY_TEXT_SIZE = 256 };

static void print_table(const struct option_table *t, const char *parent)
{
    char key[KEY_TEXT_SIZE];

    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        const char *list = o->shape == OPTION_TEXTS || o->shape == OPTION_ITEMS ? "[]" : "";
        const char *what = o->kind == NULL ? "map" : o->kind->what;
        snprintf(key, sizeof(key), "%s%s%s%s", parent, *parent == '\0' ? "" : ".", o->name,
                 list);
        printf("%s\t%s\t", key, o->initial == NULL ? "-" : o->initial);
        if (o->choices == NULL)
            printf("%s", what);
        for (const struct option_choice *c = o->choices; c != NULL && c->name != NULL; c++)
            printf("%s%s", c == o->choices ? "" : ", ", c->name);
        printf("\t%s\n", o->help);
        if (o->members != NULL)
            print_table(o->members, key);
    }
}

int main(void)
{
    print_table(&config_options, "");
    return ferror(stdout) != 0;
}
