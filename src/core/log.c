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

/* `digits` of them at least; returns the end. */
static char *put_number(char *p, uint64_t n, unsigned digits)
{
    char reversed[LOG_NUMBER_SIZE];
    unsigned len = 0;

    while (n > 0 || len < digits) {
        reversed[len++] = (char)('0' + n % 10);
        n /= 10;
    }
    while (len > 0)
        *p++ = reversed[--len];
    return p;
}

char *log_number(char out[LOG_NUMBER_SIZE], uint64_t n)
{
    *put_number(out, n, 1) = '\0';
    return out;
}

/* gmtime_r() takes the lock of the time zone. Here: the calendar of years that begin in March,
 * so that the day that comes and goes is the last of its year. */
char *log_time(char out[LOG_TIME_SIZE], int64_t seconds, unsigned ms)
{
    enum { DAY = 86400, DAYS_TO_1970 = 719468, ERA_DAYS = 146097 }; /* since March of year 0 */
    uint64_t since = (uint64_t)(seconds < 0 ? 0 : seconds);
    unsigned second = (unsigned)(since % DAY);
    uint64_t days = since / DAY + DAYS_TO_1970;
    unsigned in_era = (unsigned)(days % ERA_DAYS);
    unsigned year_of_era = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    unsigned in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month = (5 * in_year + 2) / 153; /* 0: March */
    uint64_t year = days / ERA_DAYS * 400 + year_of_era + (month >= 10);
    char *p = out;

    p = put_number(p, year % 10000, 4);
    *p++ = '-';
    p = put_number(p, month < 10 ? month + 3 : month - 9, 2);
    *p++ = '-';
    p = put_number(p, in_year - (153 * month + 2) / 5 + 1, 2);
    *p++ = 'T';
    p = put_number(p, second / 3600, 2);
    *p++ = ':';
    p = put_number(p, second / 60 % 60, 2);
    *p++ = ':';
    p = put_number(p, second % 60, 2);
    *p++ = '.';
    p = put_number(p, ms % 1000, 3);
    *p++ = 'Z';
    *p = '\0';
    return out;
}

/* As much as there is room for, with a NUL; returns the length of all so far. */
static size_t put_text(char *line, size_t n, const char *text)
{
    size_t len = strlen(text), room = LINE_SIZE - 1 - n;

    if (len > room)
        len = room;
    memcpy(line + n, text, len);
    line[n + len] = '\0';
    return n + len;
}

static size_t write_prefix(char line[LINE_SIZE], enum log_level level)
{
    char number[LOG_NUMBER_SIZE], time[LOG_TIME_SIZE];
    struct timespec ts;
    size_t n = 0;

    if (stderr_is_journal()) {
        n = put_text(line, n, "<");
        n = put_text(line, n, log_number(number, (uint64_t)level));
        return put_text(line, n, ">");
    }
    clock_gettime(CLOCK_REALTIME, &ts);
    n = put_text(line, n, log_time(time, ts.tv_sec, (unsigned)(ts.tv_nsec / 1000000)));
    n = put_text(line, n, " pithd[");
    n = put_text(line, n, log_number(number, (uint64_t)getpid()));
    n = put_text(line, n, "] ");
    n = put_text(line, n, level_word(level));
    return put_text(line, n, ": ");
}

/* A log that nobody reads must not stop the service. */
static void end_line(char line[LINE_SIZE], size_t n)
{
    line[n++] = '\n'; /* in place of the NUL */
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

void log_prepare(void)
{
    (void)stderr_is_journal(); /* which is known from then on */
}

void log_warning_async(const char *const texts[])
{
    char line[LINE_SIZE];

    if (!log_enabled(LOG_LEVEL_WARNING))
        return;
    size_t n = write_prefix(line, LOG_LEVEL_WARNING);
    for (size_t i = 0; texts[i] != NULL; i++)
        n = put_text(line, n, texts[i]);
    end_line(line, n);
}

__attribute__((format(printf, 2, 0))) static void write_line(enum log_level level,
                                                             const char *fmt, va_list args)
{
    char line[LINE_SIZE];
    size_t n = write_prefix(line, level);
    int m = vsnprintf(line + n, sizeof line - n, fmt, args);

    if (m < 0)
        return;
    n += (size_t)m;
    if (n > sizeof line - 1)
        n = sizeof line - 1;
    end_line(line, n);
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
