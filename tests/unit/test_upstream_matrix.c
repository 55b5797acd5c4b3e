/* test_upstream_matrix.c - every way in which an upstream may misbehave x transport x one or
 * two upstreams (the second is well): each question is answered in time, as well as can be, and
 * once the upstream is well again that is noticed within 2 s.
 *
 * Each cell is a process of its own, many at a time, since most of it is waiting. Prints the
 * table. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autoconfig.h"
#include "core/log.h"
#include "upstream_client.h"

enum {
    TIMEOUT_MS = 300,
    DEADLINE_MS = 1200,
    SLOW_MS = 700, /* later than a try, sooner than the deadline */
    LATE_MS = 200, /* what an answer may come after the deadline */
    RECOVERY_MS = 2000,
    ASKS = 8,
    AT_ONCE = 12,
    ATTEMPTS = 4, /* when the machine was too busy to tell */
    BUSY_MS = 60,
};

/* Ways of going wrong that are not modes of the scripted upstream. */
enum special {
    CLOSED_PORT = FAKE_MODE_COUNT,
    RESTART,
    IDLE_CLOSE,
    CERTIFICATE,
    DESCRIPTORS,
    WAYS
};

enum expect { NOTHING, ANSWERS, FAILURE, MIXED };

struct cell {
    int way;
    enum fake_transport transport;
    int upstreams;
    int attempt;
};

struct result {
    unsigned good, failures, none, queries;
    uint64_t worst_ms, recovery_ms, stall_ms;
    char text[96];
    bool pass;
};

static const char *way_text(int way)
{
    static const char *const text[] = {"closed port", "restart", "close when idle",
                                       "wrong certificate", "no descriptors"};
    return way < FAKE_MODE_COUNT ? fake_mode_text((enum fake_mode)way)
                                 : text[way - FAKE_MODE_COUNT];
}

/* What one upstream alone can give. */
static enum expect expectation(const struct cell *c)
{
    bool udp = c->transport == FAKE_UDP;
    switch (c->way) {
    case FAKE_OK:
    case FAKE_SLOW:
    case FAKE_FIN:
    case FAKE_COALESCE:
    case FAKE_TC:
    case FAKE_OVERSIZE:
    case FAKE_LOSS:
    case FAKE_LOWER:
    case FAKE_DRIBBLE:
    case FAKE_UNKNOWN:
    case FAKE_NO_EDNS:
    case RESTART:
    case IDLE_CLOSE:
        return ANSWERS;
    case FAKE_RST_MID:
    case FAKE_RST:
        return udp ? ANSWERS : NOTHING; /* UDP: there is nothing to reset */
    case FAKE_WRONG_SOURCE:
        return udp ? NOTHING : ANSWERS;
    case FAKE_WRONG_SUBNET:
        return ANSWERS; /* the question has none */
    case FAKE_SERVFAIL:
    case FAKE_REFUSED:
        return FAILURE;
    case DESCRIPTORS:
        return udp ? NOTHING : ANSWERS; /* the connection is open already */
    default:
        return NOTHING;
    }
}

static bool applies(const struct cell *c)
{
    if (c->way == FAKE_MUTATED)
        return false; /* test_upstream_fuzz.c */
    return c->way != CERTIFICATE || c->transport == FAKE_TLS;
}

static int hoard[8192], hoarded;

static void take_descriptors(void)
{
    struct rlimit r = {256, 256};
    setrlimit(RLIMIT_NOFILE, &r);
    while (hoarded < 8192 && (hoard[hoarded] = open("/dev/null", O_RDONLY)) >= 0)
        hoarded++;
}

static void give_descriptors(void)
{
    while (hoarded)
        close(hoard[--hoarded]);
}

static struct fake *first;
static uint16_t first_port;

static void make_bad(const struct cell *c)
{
    switch (c->way) {
    case CLOSED_PORT:
        fake_stop(first);
        first = NULL;
        break;
    case RESTART:
        fake_stop(first);
        first = fake_start(c->transport, first_port);
        break;
    case IDLE_CLOSE:
        fake_close_connections(first);
        break;
    case CERTIFICATE:
        fake_use_certificate(first, 1);
        fake_close_connections(first);
        break;
    case DESCRIPTORS:
        take_descriptors();
        break;
    default:
        fake_set_slow_ms(first, SLOW_MS);
        fake_set(first, (enum fake_mode)c->way);
    }
}

static void make_well(const struct cell *c)
{
    switch (c->way) {
    case CLOSED_PORT:
        first = fake_start(c->transport, first_port);
        break;
    case CERTIFICATE:
        fake_use_certificate(first, 0);
        break;
    case DESCRIPTORS:
        give_descriptors();
        break;
    case RESTART:
    case IDLE_CLOSE:
        break;
    default:
        fake_set(first, FAKE_OK);
    }
}

static void account(struct result *r, const struct outcome *o)
{
    if (!o->done)
        snprintf(r->text, sizeof r->text, "a question without an answer");
    else if (!o->answered)
        r->none++;
    else if (o->rcode == 0)
        r->good++;
    else
        r->failures++;
    if (o->ms > r->worst_ms)
        r->worst_ms = o->ms;
    if (o->done && !o->answered && !*o->text)
        snprintf(r->text, sizeof r->text, "no answer and no reason");
}

/* Two after each other, then the rest at once. */
static void ask_all(struct client *c, struct result *r)
{
    static struct outcome o[ASKS];
    unsigned open = ASKS - 2;
    char name[32];
    for (int i = 0; i < ASKS; i++) {
        snprintf(name, sizeof name, "Name%d.Example.", i);
        if (i < 2) {
            client_resolve(c, &o[i], name);
            continue;
        }
        o[i].open = &open;
        if (!client_ask(c, &o[i], name))
            snprintf(r->text, sizeof r->text, "the set takes no question");
    }
    client_run(c, &open, 10000);
    for (int i = 0; i < ASKS; i++)
        account(r, &o[i]);
}

static void recover(struct client *c, struct result *r, int way)
{
    struct outcome o;
    memset(&o, 0, sizeof o);
    uint64_t ms = 0;
    do {
        client_resolve(c, &o, "again.example.");
        ms += o.ms;
        if (o.answered && o.rcode == 0)
            break;
        client_run(c, NULL, 20);
        ms += 20;
    } while (ms < 2 * RECOVERY_MS);
    (void)way;
    r->recovery_ms = ms;
}

static bool judge(const struct cell *c, const struct result *r)
{
    enum expect e = c->upstreams == 2 ? ANSWERS : expectation(c);
    if (r->text[0] || r->worst_ms > DEADLINE_MS + LATE_MS || r->recovery_ms > RECOVERY_MS)
        return false;
    if (c->way == DESCRIPTORS && c->transport == FAKE_UDP)
        return true; /* the reserve gives some of them a socket */
    if (e == ANSWERS)
        return r->good == ASKS;
    if (e == FAILURE)
        return r->failures == ASKS;
    return r->none == ASKS;
}

static void run_cell(const struct cell *c, struct result *r)
{
    char yaml[1024], one[384], two[384] = "";
    struct client client;
    struct outcome o;
    memset(&o, 0, sizeof o);
    first = fake_start(c->transport, 0);
    first_port = fake_port(first);
    struct fake *second = fake_start(c->transport, 0);
    client_line(one, sizeof one, c->transport, first_port, "");
    if (c->upstreams == 2)
        client_line(two, sizeof two, c->transport, fake_port(second), "");
    snprintf(yaml, sizeof yaml,
             "upstream: { policy: ordered, timeout: %dms, tries: 3, deadline: %dms }\n"
             "upstreams:\n%s%s",
             TIMEOUT_MS, DEADLINE_MS, one, two);
    client_open(&client, yaml);
    client_resolve(&client, &o, "warm.example.");
    if (!o.answered)
        snprintf(r->text, sizeof r->text, "no answer from an upstream that is well: %.30s",
                 o.text);
    make_bad(c);
    unsigned before = first ? fake_queries(first) : 0;
    ask_all(&client, r);
    r->queries = first ? fake_queries(first) - before : 0;
    make_well(c);
    recover(&client, r, c->way);
    client_close(&client);
    fake_stop(first);
    fake_stop(second);
    r->stall_ms = client_stall_ms();
    r->pass = judge(c, r);
}

/* ---- the processes */

static void print(const struct cell *c, const struct result *r)
{
    static const char *const transport[] = {"udp", "tcp", "tls"};
    printf("%s %-26s %-3s %d: %u answers, %u SERVFAIL/REFUSED, %u without; worst %4lu ms, "
           "asked %2u times, well again after %4lu ms %s\n",
           r->pass ? "ok  " : "FAIL", way_text(c->way), transport[c->transport], c->upstreams,
           r->good, r->failures, r->none, (unsigned long)r->worst_ms, r->queries,
           (unsigned long)r->recovery_ms, r->text);
    fflush(stdout);
}

static struct job {
    pid_t pid;
    int pipe;
    struct cell cell;
} jobs[AT_ONCE];

enum verdict { PASSED, FAILED, AGAIN };

static enum verdict reap(int i)
{
    struct result r;
    int status;
    memset(&r, 0, sizeof r);
    ssize_t n = read(jobs[i].pipe, &r, sizeof r);
    close(jobs[i].pipe);
    waitpid(jobs[i].pid, &status, 0);
    jobs[i].pid = 0;
    if (n != (ssize_t)sizeof r || !WIFEXITED(status) || WEXITSTATUS(status)) {
        r.pass = false;
        snprintf(r.text, sizeof r.text, "died (status %d)", status);
    }
    if (!r.pass && r.stall_ms > BUSY_MS && jobs[i].cell.attempt + 1 < ATTEMPTS)
        return AGAIN;
    print(&jobs[i].cell, &r);
    return r.pass ? PASSED : FAILED;
}

static void start(int i, const struct cell *c)
{
    int p[2];
    if (pipe(p))
        abort();
    jobs[i].cell = *c;
    jobs[i].pipe = p[0];
    jobs[i].pid = fork();
    if (jobs[i].pid == 0) {
        struct result r;
        memset(&r, 0, sizeof r);
        close(p[0]);
        signal(SIGPIPE, SIG_IGN);
        if (!getenv("VERBOSE"))
            log_set_level(LOG_LEVEL_ERROR);
        client_stall_ms();
        run_cell(c, &r);
        (void)!write(p[1], &r, sizeof r);
        close(p[1]);
        exit(0);
    }
    close(p[1]);
}

/* Waits for the i-th job and what it takes to be sure. */
static int conclude(int i)
{
    enum verdict v;
    if (!jobs[i].pid)
        return 0;
    while ((v = reap(i)) == AGAIN) {
        struct cell c = jobs[i].cell;
        c.attempt++;
        start(i, &c);
    }
    return v == FAILED;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    int failed = 0, i = 0;
    fake_certificate(0);
    fake_certificate(1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (struct cell c = {0}; c.way < WAYS; c.way++) {
        for (int k = 0; k < 6; k++) {
            c.transport = (enum fake_transport)(k / 2);
            c.upstreams = 1 + k % 2;
            if (!applies(&c) || (only && !strstr(way_text(c.way), only)))
                continue;
            failed += conclude(i);
            start(i, &c);
            i = (i + 1) % AT_ONCE;
        }
    }
    for (int k = 0; k < AT_ONCE; k++, i = (i + 1) % AT_ONCE)
        failed += conclude(i);
    fake_cleanup();
    printf("%d failed\n", failed);
    return failed != 0;
}
