/* test_upstream_fuzz.c - mutated replies through each transport, for a second or so each; for
 * FUZZ_SECONDS when that is set, over FUZZ_TRANSPORT alone when that is. Each question is
 * answered, by a reply that is whole and fits it or by none, and afterwards the upstream is
 * still of use. Best run in a build with sanitizers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/log.h"
#include "dns/name.h"
#include "dns/rrtype.h"
#include "upstream_client.h"

enum { WINDOW = 30 };

static struct client client;
static unsigned long asked, answered, failed, wrong;
static bool stop;
static unsigned open_asks;

struct question {
    uint8_t name[DNS_NAME_MAX];
    size_t len;
};

static void ask_another(void);

static void on_answer(void *arg, const struct upstream_answer *answer)
{
    struct question *q = arg;
    struct dns_reply again;
    open_asks--;
    if (answer->reply) {
        const struct dns_reply *r = answer->reply;
        answered++;
        wrong += !reply_parse(&again, r->msg, r->len) || r->qname_len != q->len ||
                 memcmp(r->qname, q->name, q->len) || r->qtype != RR_A;
    } else {
        failed++;
        wrong += !*answer->ede_text;
    }
    free(q);
    if (!stop)
        ask_another();
    else if (!open_asks)
        ev_break(client.loop, EVBREAK_ALL);
}

static void ask_another(void)
{
    char text[64];
    struct question *q = malloc(sizeof *q);
    if (!q)
        abort();
    snprintf(text, sizeof text, "Fuzz%lu.Example.", asked++);
    q->len = name_from_text(q->name, text);
    struct upstream_question question = {.qname = q->name, .qname_len = q->len, .qtype = RR_A};
    open_asks++;
    if (!upstream_ask(client.set, &question, on_answer, q))
        abort();
}

static const char *const transport[] = {"udp", "tcp", "tls"};

static bool run(enum fake_transport t, unsigned seed, unsigned ms)
{
    char yaml[1024], a[384], b[384];
    struct outcome o;
    struct fake *f[2] = {fake_start(t, 0), fake_start(t, 0)};
    memset(&o, 0, sizeof o);
    client_line(a, sizeof a, t, fake_port(f[0]), "");
    client_line(b, sizeof b, t, fake_port(f[1]), "");
    snprintf(yaml, sizeof yaml,
             "upstream: { policy: round-robin, timeout: 200ms, deadline: 600ms }\n"
             "upstreams:\n%s%s",
             a, b);
    client_open(&client, yaml);
    for (unsigned i = 0; i < 2; i++) {
        fake_seed(f[i], seed + i);
        fake_set(f[i], FAKE_MUTATED);
    }
    asked = answered = failed = wrong = 0;
    stop = false;
    for (int i = 0; i < WINDOW; i++)
        ask_another();
    client_run(&client, NULL, ms);
    stop = true;
    client_run(&client, &open_asks, 3000);
    for (int i = 0; i < 2; i++)
        fake_set(f[i], FAKE_OK);
    client_run(&client, NULL, 50);
    for (int i = 0; i < 100 && !(o.answered && o.rcode == 0); i++) {
        client_resolve(&client, &o, "after.example.");
        client_run(&client, NULL, 20);
    }
    bool ok = !wrong && !open_asks && o.answered && o.rcode == 0;
    printf("%s %s seed %u: %lu questions, %u + %u queries, %lu answered, %lu not, %lu wrong\n",
           ok ? "ok  " : "FAIL", transport[t], seed, asked, fake_queries(f[0]),
           fake_queries(f[1]), answered, failed, wrong);
    client_close(&client);
    fake_stop(f[0]);
    fake_stop(f[1]);
    return ok;
}

int main(void)
{
    const char *seconds = getenv("FUZZ_SECONDS"), *only = getenv("FUZZ_TRANSPORT");
    unsigned total_ms = seconds ? (unsigned)atoi(seconds) * 1000 : 0, seed = 1;
    bool ok = true;
    if (seconds)
        seed = getenv("FUZZ_SEED") ? (unsigned)atoi(getenv("FUZZ_SEED")) : (unsigned)time(NULL);
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    setvbuf(stdout, NULL, _IOLBF, 0);
    uint64_t end_ms = clock_now_ms() + total_ms;
    do {
        for (int t = 0; t < 3 && ok; t++)
            ok = (only && strcmp(only, transport[t])) ||
                 run((enum fake_transport)t, seed, total_ms ? 3000 : 700);
        seed += 7;
    } while (ok && clock_now_ms() < end_ms);
    fake_cleanup();
    return !ok;
}
