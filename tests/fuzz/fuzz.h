/* fuzz.h - what every fuzz target needs. */
#ifndef PITH_TESTS_FUZZ_H
#define PITH_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One input; returns 0. Called by libFuzzer or replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that has to hold whatever the input; on in every build. */
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#endif
