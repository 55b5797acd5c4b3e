/* lookup.c - see lookup.h. */
#include "lookup.h"

#include <ctype.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "units.h"

static size_t collect(const struct addrinfo *list, uint16_t port, struct addr *out, size_t max)
{
    size_t n = 0;

    for (; list != NULL && n < max; list = list->ai_next) {
        if (!addr_from_sockaddr(&out[n], list->ai_addr))
            continue;
        out[n++].port = port;
    }
    return n;
}

size_t lookup_host(const char *host, uint16_t port, unsigned timeout_ms, struct addr *out,
                   size_t max, char *why, size_t why_size)
{
    /* Static: an answer that comes late is still written. */
    static struct addrinfo hints;
    static struct gaicb request;
    struct gaicb *requests[] = {&request};
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                                     .tv_nsec = (long)(timeout_ms % 1000) * 1000000};

    if (max > 0 && strchr(host, '%') == NULL && addr_parse(&out[0], host, port)) {
        out[0].port = port;
        return 1;
    }
    hints = (struct addrinfo){.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    request = (struct gaicb){.ar_name = host, .ar_request = &hints};
    int result = getaddrinfo_a(GAI_NOWAIT, requests, 1, NULL);
    if (result == 0) {
        (void)gai_suspend((const struct gaicb *const *)requests, 1, &timeout);
        result = gai_error(&request);
    }
    if (result == EAI_INPROGRESS) {
        snprintf(why, why_size, "its address is not found in time");
        return 0;
    }
    if (result != 0) {
        snprintf(why, why_size, "its address is not found: %s", gai_strerror(result));
        return 0;
    }
    size_t n = collect(request.ar_result, port, out, max);
    freeaddrinfo(request.ar_result);
    if (n == 0)
        snprintf(why, why_size, "it has no address");
    return n;
}

static bool is_host(const char *text, size_t len)
{
    struct addr a;

    if (len == 0)
        return false;
    if (strchr(text, ':') != NULL)
        return addr_parse(&a, text, 0);
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr("-_.", text[i]) == NULL)
            return false;
    }
    return true;
}

bool lookup_split(const char *text, char *host, size_t host_size, uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    const char *end = text + strlen(text);
    bool bracketed = text[0] == '[';
    uint64_t number = 0;

    /* More than one colon without brackets is an IPv6 address alone. */
    if (colon != NULL && !bracketed && strchr(text, ':') != colon)
        colon = NULL;
    if (bracketed && (colon == NULL || colon[-1] != ']'))
        colon = NULL;
    if (colon != NULL) {
        if (units_read_count(colon + 1, UINT16_MAX, &number) != NULL || number == 0)
            return false;
        end = colon;
    }
    if (bracketed) {
        text++;
        if (end[-1] != ']')
            return false;
        end--;
    }
    size_t len = (size_t)(end - text);
    if (len >= host_size)
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    *port = (uint16_t)number;
    if (len > 1 && host[len - 1] == '.')
        host[--len] = '\0';
    return is_host(host, len) && (!bracketed || strchr(host, ':') != NULL);
}
