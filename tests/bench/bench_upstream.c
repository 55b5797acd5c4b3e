/* bench_upstream.c - asks an upstream many questions through the set, without the rest of pith,
 * and says what that costs: CPU a question, time, losses.
 *
 *   bench_upstream [-t udp|tcp|tls] [-c CA] [-a TLS-NAME] [-n QUESTIONS] [-w WINDOW] [-z ZONE]
 * ADDRESS...
 *
 * Questions are qN.ZONE A, each another; WINDOW of them are open at a time. */
#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "dns/name.h"
#include "dns/rrtype.h"
#include "upstream.h"

static struct bench {
    struct ev_loop *loop;
    struct upstream_set *set;
    unsigned long total, window, sent, done, good, failed, rcode[16];
    const char *zone;
} b = {.total = 100000, .window = 100, .zone = "example."};

static void ask(void);

static void on_answer(void *arg, const struct upstream_answer *answer)
{
    (void)arg;
    b.done++;
    if (answer->reply) {
        b.good++;
        b.rcode[answer->reply->rcode & 15]++;
    } else if (b.failed++ < 3) {
        fprintf(stderr, "no answer: EDE %u %s\n", answer->ede, answer->ede_text);
    }
    while (b.sent < b.total && b.sent - b.done < b.window)
        ask();
    if (b.done == b.total)
        ev_break(b.loop, EVBREAK_ALL);
}

static void ask(void)
{
    char text[128];
    uint8_t name[DNS_NAME_MAX];
    snprintf(text, sizeof text, "q%lu-%ld.%s", b.sent++, (long)getpid(), b.zone);
    struct upstream_question q = {
        .qname = name, .qname_len = name_from_text(name, text), .qtype = RR_A};
    if (!upstream_ask(b.set, &q, on_answer, NULL)) {
        fprintf(stderr, "too many outstanding\n");
        exit(1);
    }
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static long resident_kib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static void print_stats(void)
{
    struct upstream_stats s;
    for (size_t i = 0; upstream_stats(b.set, i, &s); i++)
        printf("%s: asks %lu replies %lu time-outs %lu refused %lu closed %lu bad %lu tc %lu "
               "resent %lu hedged %lu, %u us\n",
               s.text, s.asks, s.replies, s.timeouts, s.refused, s.closed, s.bad, s.truncated,
               s.resent, s.hedged, s.srtt_us);
}

static struct config *configure(int argc, char **argv)
{
    const char *transport = "udp", *ca = NULL, *name = NULL, *policy = "fastest";
    int o;
    while ((o = getopt(argc, argv, "t:c:a:n:w:z:p:v")) != -1) {
        switch (o) {
        case 't':
            transport = optarg;
            break;
        case 'c':
            ca = optarg;
            break;
        case 'a':
            name = optarg;
            break;
        case 'n':
            b.total = strtoul(optarg, NULL, 10);
            break;
        case 'w':
            b.window = strtoul(optarg, NULL, 10);
            break;
        case 'z':
            b.zone = optarg;
            break;
        case 'p':
            policy = optarg;
            break;
        case 'v':
            log_set_level(LOG_LEVEL_DEBUG);
            break;
        default:
            exit(2);
        }
    }
    char path[] = "/tmp/bench_upstream.XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    if (!f)
        exit(1);
    fprintf(f, "upstream: { policy: %s }\nupstreams:\n", policy);
    for (int i = optind; i < argc; i++) {
        fprintf(f, "  - { address: \"%s\", transport: %s", argv[i], transport);
        if (ca)
            fprintf(f, ", ca: \"%s\"", ca);
        if (name)
            fprintf(f, ", tls-name: \"%s\"", name);
        fprintf(f, " }\n");
    }
    fclose(f);
    struct config *c = config_load(path, stderr);
    unlink(path);
    if (!c)
        exit(2);
    return c;
}

int main(int argc, char **argv)
{
    struct config *c = configure(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    b.loop = ev_loop_new(EVFLAG_AUTO);
    if (!(b.set = upstream_create(b.loop, c)))
        return 1;
    long before_kib = resident_kib();
    double cpu = cpu_s();
    uint64_t start_us = clock_now_us();
    while (b.sent < b.total && b.sent - b.done < b.window)
        ask();
    ev_run(b.loop, 0);
    double s = (double)(clock_now_us() - start_us) / 1e6;
    cpu = cpu_s() - cpu;
    printf("%lu questions: %lu answered, %lu not; %.2f s, %.0f/s, CPU %.2f us each, "
           "memory %ld -> %ld KiB\n",
           b.done, b.good, b.failed, s, (double)b.done / s, cpu * 1e6 / (double)b.done,
           before_kib, resident_kib());
    print_stats();
    upstream_destroy(b.set);
    ev_loop_destroy(b.loop);
    config_unref(c);
    return b.failed != 0;
}
