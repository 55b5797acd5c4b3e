/* main.c - pithd: command line, signals, readiness.
 *
 * The main thread answers nothing. It starts the server, then waits for signals: SIGHUP
 * reloads, SIGTERM and SIGINT drain and end. Only here (and in config) does anything end the
 * process. */
#include "autoconfig.h"

#include <errno.h>
#include <ev.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "activation.h"
#include "check.h"
#include "config.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "privileges.h"
#include "server.h"
#include "setup.h"

#ifndef PITH_DEFAULT_CONFIG
#define PITH_DEFAULT_CONFIG "/etc/pith/pith.yaml"
#endif

enum {
    EXIT_USAGE = 2,
    ERROR_TEXT_SIZE = 1024,
    DRAIN_MS = 5000,
    /* How soon renewed certificates are noticed. */
    CERTIFICATES_EVERY_S = 5,
    /* Descriptors beside those of clients: listeners, upstreams, files. */
    DESCRIPTORS_SPARE = 1024,
};

enum mode {
    MODE_RUN,
    MODE_TEST,
    MODE_PRINT,
    MODE_HEALTH,
    MODE_CHECK,
    MODE_SETUP,
    MODE_MOBILECONFIG,
};

/* What the command line says. */
struct command {
    enum mode mode;
    const char *path; /* of the configuration; NULL: the default, if it is there */
    const char *host; /* HOST[:PORT] of another server */
    const char *ca;
};

struct main_loop {
    struct ev_loop *loop;
    const char *path; /* of the configuration; NULL: the default, if it is there */
    struct server *server;
    const char *clock_path; /* of the tests' clock; NULL as ever in real life */
    ev_signal hangup, terminate, interrupt, clock;
    ev_timer certificates;
    ev_async crowded; /* sent by workers */
};

/* ---- readiness ---- */

static void notify(const char *state)
{
#ifdef HAVE_SYSTEMD
    (void)sd_notify(0, state);
#else
    (void)state;
#endif
}

static void notify_ready(void)
{
    char state[64];

    snprintf(state, sizeof(state), "READY=1\nMAINPID=%lu", (unsigned long)getpid());
    notify(state);
}

/* systemd wants to know when, to tell this reload from the one before. */
static void notify_reloading(void)
{
    char state[96];
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)now.tv_sec * 1000000ULL +
                 (unsigned long long)now.tv_nsec / 1000ULL);
    notify(state);
}

/* ---- configuration ---- */

static const char *effective_path(const char *path)
{
    if (path != NULL)
        return path;
    return access(PITH_DEFAULT_CONFIG, F_OK) == 0 ? PITH_DEFAULT_CONFIG : NULL;
}

/* The faults of a reload go the way of all log lines. */
static struct config *load_logged(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *faults = open_memstream(&text, &size);

    if (faults == NULL)
        return NULL;
    struct config *c = config_load(effective_path(path), faults);
    fclose(faults);
    char *rest = text;
    for (const char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (*line != '\0')
            log_error("%s", line);
    }
    free(text);
    return c;
}

/* ---- events ---- */

static void on_hangup(struct ev_loop *loop, ev_signal *watcher, int events)
{
    struct main_loop *m = watcher->data;
    char error[ERROR_TEXT_SIZE];

    (void)loop;
    (void)events;
    notify_reloading();
    struct config *c = load_logged(m->path);
    if (c == NULL)
        log_error("reload: refused, the configuration in use goes on");
    else if (!server_reload(m->server, c, error, sizeof(error)))
        log_error("reload: %s; the configuration in use goes on", error);
    else
        log_info("reload: done");
    config_unref(c);
    notify_ready();
}

static void on_terminate(struct ev_loop *loop, ev_signal *watcher, int events)
{
    (void)watcher;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

/* Tests do not wait for answers to grow old: with PITH_TEST_CLOCK in the environment, SIGUSR1
 * moves the clocks forward by the milliseconds in the file that it names. The file is emptied
 * as a sign that it is done. */
static void on_clock(struct ev_loop *loop, ev_signal *watcher, int events)
{
    struct main_loop *m = watcher->data;
    unsigned long long ms;
    FILE *file = fopen(m->clock_path, "r+");

    (void)loop;
    (void)events;
    if (file == NULL)
        return;
    if (fscanf(file, "%llu", &ms) == 1) {
        clock_advance(ms);
        if (ms >= CERTIFICATES_EVERY_S * 1000ULL) /* timers do not see our clock */
            server_check_certificates(m->server);
        if (ftruncate(fileno(file), 0) != 0)
            log_error("clock: %s", strerror(errno));
    }
    fclose(file);
}

static void on_certificates(struct ev_loop *loop, ev_timer *watcher, int events)
{
    struct main_loop *m = watcher->data;

    (void)loop;
    (void)events;
    server_check_certificates(m->server);
}

static void on_crowded(struct ev_loop *loop, ev_async *watcher, int events)
{
    struct main_loop *m = watcher->data;

    (void)loop;
    (void)events;
    server_grow_cache(m->server);
}

static void tell_crowded(void *arg)
{
    struct main_loop *m = arg;

    ev_async_send(m->loop, &m->crowded);
}

static void watch_signal(struct main_loop *m, ev_signal *watcher, int number,
                         void (*on_signal)(struct ev_loop *, ev_signal *, int))
{
    ev_signal_init(watcher, on_signal, number);
    watcher->data = m;
    ev_signal_start(m->loop, watcher);
}

static int run_server(struct config *c, const char *path)
{
    struct main_loop m = {.path = path};
    char error[ERROR_TEXT_SIZE];

    signal(SIGPIPE, SIG_IGN);
    activation_take();
    size_t descriptors = privileges_raise_descriptors();
    if (descriptors < (size_t)c->limit_connections + DESCRIPTORS_SPARE)
        log_warning(
            "limits.connections: only %zu descriptors can be had, for %u connections and "
            "%d other uses",
            descriptors, c->limit_connections, DESCRIPTORS_SPARE);
    if (c->n_upstreams == 0)
        log_warning("upstreams: none, and /etc/resolv.conf has no nameserver");
    m.loop = ev_loop_new(EVFLAG_AUTO);
    if (m.loop == NULL) {
        log_error("event loop: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    /* Before the start, so that a signal that comes early is not lost. */
    watch_signal(&m, &m.hangup, SIGHUP, on_hangup);
    watch_signal(&m, &m.terminate, SIGTERM, on_terminate);
    watch_signal(&m, &m.interrupt, SIGINT, on_terminate);
    m.clock_path = secure_getenv("PITH_TEST_CLOCK");
    if (m.clock_path != NULL)
        watch_signal(&m, &m.clock, SIGUSR1, on_clock);

    int status = EXIT_FAILURE;
    ev_async_init(&m.crowded, on_crowded);
    m.crowded.data = &m;
    ev_async_start(m.loop, &m.crowded);
    m.server = server_start(c, tell_crowded, &m, error, sizeof(error));
    if (m.server == NULL) {
        log_error("%s", error);
        goto out;
    }
    activation_check(c);
    ev_timer_init(&m.certificates, on_certificates, CERTIFICATES_EVERY_S, CERTIFICATES_EVERY_S);
    m.certificates.data = &m;
    ev_timer_start(m.loop, &m.certificates);
    notify_ready();
    ev_run(m.loop, 0);

    notify("STOPPING=1");
    log_info("stopping: answers in flight go out");
    server_stop(m.server, DRAIN_MS);
    log_info("stopped");
    status = EXIT_SUCCESS;
out:
    ev_loop_destroy(m.loop);
    return status;
}

/* ---- command line ---- */

static void print_usage(FILE *out)
{
    fputs("Usage: pithd [-c FILE] [-t] [-p] [-v]...\n"
          "A DNS over HTTPS/TLS forwarding proxy.\n\n"
          "  -c, --config FILE  the configuration (default: " PITH_DEFAULT_CONFIG ",\n"
          "                     if there is one)\n"
          "  -t, --test         check the configuration, tell each fault, and exit\n"
          "  -p, --print        print the effective configuration and exit\n"
          "  -v, --verbose      log debugging lines too, which may name queries and clients\n"
          "      --version      print the version and exit\n"
          "  -h, --help         print this and exit\n\n"
          "Instead of running a server:\n"
          "      --show-setup HOST[:PORT]    what to type into browsers, phones, resolvers\n"
          "      --mobileconfig HOST[:PORT]  a profile for iOS and macOS\n"
          "      --check HOST[:PORT]         connect as a strict client, tell what is wrong\n"
          "      --ca FILE                   authorities that --check trusts\n"
          "      --health                    ask the server that runs here\n",
          out);
}

/* A reload reads keys as the user that the server became, so they are checked as that user. */
static bool test_as_user(const char *path, const struct config *c)
{
    char error[ERROR_TEXT_SIZE];

    if (c->user == NULL || geteuid() != 0)
        return true;
    if (!privileges_drop(c->user, error, sizeof(error))) {
        fprintf(stderr, "%s\n", error);
        return false;
    }
    struct config *again = config_load(effective_path(path), stderr);
    if (again == NULL)
        fprintf(stderr, "(read as user \"%s\")\n", c->user);
    config_unref(again);
    return again != NULL;
}

static int run_configured(const struct command *m)
{
    struct config *c = config_load(effective_path(m->path), stderr);
    int status = EXIT_SUCCESS;

    if (c == NULL)
        return EXIT_FAILURE;
    switch (m->mode) {
    case MODE_TEST:
        if (!test_as_user(m->path, c)) {
            status = EXIT_FAILURE;
            break;
        }
        fprintf(stderr, "%s: configuration is good\n",
                c->path == NULL ? "built-in defaults" : c->path);
        break;
    case MODE_PRINT:
        config_dump(c, stdout);
        if (fflush(stdout) != 0)
            status = EXIT_FAILURE;
        break;
    case MODE_HEALTH:
        signal(SIGPIPE, SIG_IGN);
        status = check_health(c, stdout);
        break;
    default:
        status = run_server(c, m->path);
        break;
    }
    config_unref(c);
    return status;
}

/* Path and port are those of the configuration only when it was named: the host may be another
 * machine. */
static int run_for_host(const struct command *m)
{
    struct setup_server server = {.path = "/dns-query", .dot_port = 853};
    struct config *c = m->path == NULL ? NULL : config_load(m->path, stderr);
    int status = EXIT_FAILURE;

    if (m->path != NULL && c == NULL)
        return EXIT_FAILURE;
    if (c != NULL)
        server.path = c->http_paths[0];
    for (size_t i = c == NULL ? 0 : c->n_listeners; i-- > 0;) {
        if (c->listeners[i].kind == LISTENER_DOT && c->listeners[i].address.port != 0)
            server.dot_port = c->listeners[i].address.port;
    }
    signal(SIGPIPE, SIG_IGN);
    if (m->mode == MODE_CHECK)
        status = check_server(m->host, server.path, m->ca, stdout);
    else if (m->mode == MODE_SETUP)
        status = setup_show(m->host, &server, stdout);
    else
        status = setup_mobileconfig(m->host, &server, stdout);
    config_unref(c);
    return fflush(stdout) == 0 ? status : EXIT_FAILURE;
}

/* What is not an option that goes on: -1, or the exit status. */
static int read_command(int argc, char **argv, struct command *m)
{
    enum {
        OPTION_VERSION = 256,
        OPTION_CHECK,
        OPTION_SETUP,
        OPTION_MOBILECONFIG,
        OPTION_HEALTH,
        OPTION_CA,
    };
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"test", no_argument, NULL, 't'},
        {"print", no_argument, NULL, 'p'},
        {"verbose", no_argument, NULL, 'v'},
        {"version", no_argument, NULL, OPTION_VERSION},
        {"help", no_argument, NULL, 'h'},
        {"check", required_argument, NULL, OPTION_CHECK},
        {"show-setup", required_argument, NULL, OPTION_SETUP},
        {"mobileconfig", required_argument, NULL, OPTION_MOBILECONFIG},
        {"health", no_argument, NULL, OPTION_HEALTH},
        {"ca", required_argument, NULL, OPTION_CA},
        {NULL, 0, NULL, 0},
    };
    static const enum mode modes[] = {MODE_CHECK, MODE_SETUP, MODE_MOBILECONFIG, MODE_HEALTH};

    for (int o; (o = getopt_long(argc, argv, "c:tpvh", options, NULL)) != -1;) {
        switch (o) {
        case 'c':
            m->path = optarg;
            break;
        case 't':
            m->mode = MODE_TEST;
            break;
        case 'p':
            m->mode = MODE_PRINT;
            break;
        case 'v':
            log_set_level(LOG_LEVEL_DEBUG);
            break;
        case OPTION_CHECK:
        case OPTION_SETUP:
        case OPTION_MOBILECONFIG:
            m->host = optarg;
            /* FALLTHROUGH */
        case OPTION_HEALTH:
            m->mode = modes[o - OPTION_CHECK];
            break;
        case OPTION_CA:
            m->ca = optarg;
            break;
        case OPTION_VERSION:
            puts("pithd " PACKAGE_VERSION);
            return EXIT_SUCCESS;
        case 'h':
            print_usage(stdout);
            return EXIT_SUCCESS;
        default:
            print_usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (optind == argc)
        return -1;
    fprintf(stderr, "pithd: \"%s\" is not understood\n", argv[optind]);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    struct command m = {.mode = MODE_RUN};
    int status = read_command(argc, argv, &m);

    if (status >= 0)
        return status;
    return m.mode >= MODE_CHECK ? run_for_host(&m) : run_configured(&m);
}
