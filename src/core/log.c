/* log.c - one write(2) a line. */
#include "core/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE = 1024 };

static _Atomic int max_level = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&max_level, (int)level, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&max_level, memory_order_relaxed);
}

/* systemd sets JOURNAL_STREAM to the device and inode of the journal's socket; only when that
 * is our stderr do the prefixes mean anything (systemd.exec(5)). */
static bool stderr_is_journal(void)
{
    static _Atomic int known = -1;
    int is = atomic_load_explicit(&known, memory_order_relaxed);

    if (is < 0) {
        const char *text = getenv("JOURNAL_STREAM");
        unsigned long long dev, ino;
        struct stat st;

        is = text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 &&
             fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is;
}

static const char *level_word(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error";
    case LOG_LEVEL_WARNING:
        return "warning";
    case LOG_LEVEL_INFO:
        return "info";
    case LOG_LEVEL_DEBUG:
        return "debug";
    }
    return "?";
}

static size_t write_prefix(char *line, size_t size, enum log_level level)
{
    struct timespec ts;
    struct tm tm;
    size_t n;

    if (stderr_is_journal())
        return (size_t)snprintf(line, size, "<%d>", (int)level);
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, size - n, ".%03ldZ pithd[%d] %s: ", ts.tv_nsec / 1000000,
                          (int)getpid(), level_word(level));
    return n;
}

__attribute__((format(printf, 2, 0))) static void write_line(enum log_level level,
                                                              const char *fmt, va_list args)
{
    char line[LINE_SIZE];
    size_t n = write_prefix(line, sizeof line, level);
    int m = vsnprintf(line + n, sizeof line - n, fmt, args);

    if (m < 0)
        return;
    n += (size_t)m;
    if (n > sizeof line - 1)
        n = sizeof line - 1;
    line[n++] = '\n'; /* in place of the NUL */
    /* A log that nobody reads must not stop the service. */
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

#define LOG_FUNCTION(name, level)                                                              \
    void name(const char *fmt, ...)                                                            \
    {                                                                                          \
        va_list args;                                                                          \
                                                                                               \
        if (!log_enabled(level))                                                               \
            return;                                                                            \
        va_start(args, fmt);                                                                   \
        write_line(level, fmt, args);                                                          \
        va_end(args);                                                                          \
    }

LOG_FUNCTION(log_error, LOG_LEVEL_ERROR)
LOG_FUNCTION(log_warning, LOG_LEVEL_WARNING)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug_, LOG_LEVEL_DEBUG)

char *log_clean(char *s)
{
    for (char *p = s; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            *p = '?';
    return s;
}
