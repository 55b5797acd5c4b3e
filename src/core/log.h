/* log.h - log lines to stderr, with the priority prefix that journald reads when
 * stderr is the journal (sd-daemon(3)), else with a time stamp.
 *
 * At the default level (info) no query name and no client address is logged;
 * such lines are debug. One line is one write(2). Thread: any. */
#ifndef PITH_CORE_LOG_H
#define PITH_CORE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
};

/* Lines above this level are dropped. Default: LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Arguments are not evaluated unless the level is on. */
#define log_debug(...)                                                                         \
    do {                                                                                       \
        if (log_enabled(LOG_LEVEL_DEBUG))                                                      \
            log_debug_(__VA_ARGS__);                                                           \
    } while (0)
void log_debug_(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A warning that a signal handler may write: the texts one after another, up to NULL. Nothing
 * in it takes a lock or allocates (signal-safety(7)). log_prepare() comes before, in no
 * handler. */
void log_prepare(void);
void log_warning_async(const char *const texts[]);

/* A number as text, for the above; returns `out`. */
enum { LOG_NUMBER_SIZE = 21 };
char *log_number(char out[LOG_NUMBER_SIZE], uint64_t n);

/* The time as lines have it, 2026-12-01T08:30:00.123Z; returns `out`. */
enum { LOG_TIME_SIZE = 25 };
char *log_time(char out[LOG_TIME_SIZE], int64_t seconds, unsigned ms);

/* Replaces every character outside printable ASCII by '?': names and paths that
 * others chose must not forge log lines. Works in place, returns s. */
char *log_clean(char *s);

#endif
