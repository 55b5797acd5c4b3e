/* replay.c - runs inputs of a fuzz target without a fuzzer, so that `make check` sees every
 * input that was once of interest, with any compiler.
 *
 * replay_WHAT [FILE|FOLDER]...    without arguments: $top_srcdir/tests/fuzz/corpus/WHAT */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned inputs;

/* The input lies in memory of exactly its size, so that a sanitizer sees reads beyond it. */
static void replay_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (f == NULL || data == NULL || fread(data, 1, size, f) != size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    inputs++;
}

static void replay_folder(const char *path);

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        exit(1);
    }
    if (S_ISDIR(st.st_mode))
        replay_folder(path);
    else
        replay_file(path, (size_t)st.st_size);
}

static void replay_folder(const char *path)
{
    struct dirent **list;
    int n = scandir(path, &list, NULL, alphasort);
    if (n < 0) {
        perror(path);
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        char file[4096];
        if (list[i]->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
            replay(file);
        }
        free(list[i]);
    }
    free(list);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (argc == 1) {
        const char *top = getenv("top_srcdir");
        const char *what = strrchr(argv[0], '_');
        char path[4096];
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", top != NULL ? top : ".",
                 what != NULL ? what + 1 : "");
        replay(path);
    }
    printf("%u inputs\n", inputs);
    return inputs > 0 ? 0 : 1;
}
