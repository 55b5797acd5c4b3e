/* test_upstream_dark.c - one of two upstreams goes dark under 200 questions a second: after the
 * first second the slowest percent is hardly slower than before. Prints the figures. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "upstream_client.h"

enum {
    RATE = 200,
    PHASE_MS = 1200,
    ANSWER_MS = 20,
    ASKS_MAX = 4000,
    ATTEMPTS = 6, /* when the machine was too busy to tell */
    BUSY_MS = 15, /* of being kept from running, which the slowest percent would show */
    SLACK_PERCENT = 130,
    SLACK_MS = 5, /* timers and the scheduler */
};

static struct outcome asks[ASKS_MAX];
static size_t n_asks;
static struct client client;
static ev_timer pace;

static void pace_cb(struct ev_loop *loop, ev_timer *t, int revents)
{
    (void)loop;
    (void)t;
    (void)revents;
    char name[32];
    if (n_asks == ASKS_MAX)
        return;
    snprintf(name, sizeof name, "n%zu.example.", n_asks);
    asks[n_asks].open = NULL;
    if (client_ask(&client, &asks[n_asks], name))
        n_asks++;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The 99th percentile of what was asked from `from` on; SIZE_MAX when one had no good answer.
 */
static uint64_t p99_ms(size_t from, size_t to)
{
    static uint64_t ms[ASKS_MAX];
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (!asks[i].answered)
            return UINT64_MAX;
        ms[n++] = asks[i].ms;
    }
    qsort(ms, n, sizeof *ms, compare);
    return n ? ms[n - 1 - n / 100] : UINT64_MAX;
}

static bool run(enum fake_transport t, const char *policy, enum fake_mode dark)
{
    static const char *const transport[] = {"udp", "tcp", "tls"};
    char yaml[1024], a[384], b[384];
    struct fake *f[2] = {fake_start(t, 0), fake_start(t, 0)};
    for (int i = 0; i < 2; i++) {
        fake_set_slow_ms(f[i], ANSWER_MS);
        fake_set(f[i], FAKE_SLOW);
    }
    client_line(a, sizeof a, t, fake_port(f[0]), "");
    client_line(b, sizeof b, t, fake_port(f[1]), "");
    snprintf(yaml, sizeof yaml, "upstream: { policy: %s }\nupstreams:\n%s%s", policy, a, b);
    client_open(&client, yaml);
    n_asks = 0;
    memset(asks, 0, sizeof asks);
    ev_timer_init(&pace, pace_cb, 0.0, 1.0 / RATE);
    ev_timer_start(client.loop, &pace);
    client_run(&client, NULL, 500); /* connections, response times */
    size_t healthy = n_asks;
    client_run(&client, NULL, PHASE_MS);
    size_t goes_dark = n_asks;
    fake_set(f[0], dark);
    client_run(&client, NULL, 1000);
    size_t settled = n_asks;
    client_run(&client, NULL, PHASE_MS);
    size_t end = n_asks;
    ev_timer_stop(client.loop, &pace);
    client_run(&client, NULL, 300);
    uint64_t before = p99_ms(healthy, goes_dark), first = p99_ms(goes_dark, settled),
             after = p99_ms(settled, end);
    bool ok = before != UINT64_MAX && first != UINT64_MAX && after != UINT64_MAX &&
              after <= before * SLACK_PERCENT / 100 + SLACK_MS;
    printf("%s %s, %s, one upstream: %s: p99 %ld ms before, %ld in the first second, %ld "
           "afterwards\n",
           ok ? "ok  " : "slow", transport[t], policy, fake_mode_text(dark), (long)before,
           (long)first, (long)after);
    client_close(&client);
    fake_stop(f[0]);
    fake_stop(f[1]);
    return ok;
}

/* Again only when the machine stalled meanwhile: then the slowest percent is its doing. */
static bool passes(enum fake_transport t, const char *policy)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        client_stall_ms();
        if (run(t, policy, FAKE_SILENT))
            return true;
        uint64_t stall_ms = client_stall_ms();
        if (stall_ms <= BUSY_MS)
            return false;
        printf("the machine stalled for %lu ms\n", (unsigned long)stall_ms);
    }
    return false;
}

int main(void)
{
    static const char *const policies[] = {"fastest", "ordered", "round-robin"};
    int failed = 0;
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int t = 0; t < 3; t++)
        for (int p = 0; p < 3; p++) {
            if (t != (p == 1 ? 2 : 0))
                continue; /* those that differ most */
            failed += !passes((enum fake_transport)t, policies[p]);
        }
    fake_cleanup();
    return failed != 0;
}
