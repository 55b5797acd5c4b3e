/* date.c - one date string a thread, made anew when the second changes. */
#include "http/date.h"

#include <stdio.h>
#include <time.h>

const char *http_date(int64_t now_s)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    static _Thread_local char text[80];
    static _Thread_local int64_t made_for = INT64_MIN;
    time_t t = (time_t)now_s;
    struct tm tm;

    if (now_s == made_for || !gmtime_r(&t, &tm))
        return text;
    /* Not strftime(): its names of days and months follow the locale. */
    snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday],
             tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
             tm.tm_sec);
    made_for = now_s;
    return text;
}
