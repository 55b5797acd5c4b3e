/* upstream_fake.c - a scripted upstream in a thread. See upstream_fake.h. */
#include "upstream_fake.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNS = 64, QUERY_MAX = 4096, REPLY_MAX = 4096, HELD = 3 };

struct conn {
    int fd; /* -1: free */
    unsigned serial;
    SSL *ssl;
    bool ready; /* handshake done */
    uint8_t in[2 + QUERY_MAX];
    size_t in_len;
};

/* A reply that waits for its time. */
struct later {
    struct later *next;
    long due_ms;
    int conn; /* -1: UDP */
    unsigned serial;
    struct sockaddr_in to;
    size_t len;
    uint8_t msg[2 + REPLY_MAX];
};

struct fake {
    enum fake_transport transport;
    uint16_t port;
    int udp, other_udp, listener, wake[2];
    pthread_t thread;
    _Atomic int mode;
    _Atomic unsigned slow_ms, certificate, queries, connections, loopback;
    _Atomic bool stop, close_all;
    struct conn conns[CONNS];
    unsigned serials;
    _Atomic unsigned dice;
    long dribbled_ms; /* DRIBBLE: when the last byte is due */
    struct later *laters;
    uint8_t held[HELD][2 + REPLY_MAX]; /* COALESCE */
    size_t held_len[HELD];
    int held_n;
    pthread_mutex_t mutex;
    uint8_t last[QUERY_MAX];
    size_t last_len;
};

const char *fake_mode_text(enum fake_mode m)
{
    static const char *const text[] = {
#define FAKE_TEXT(symbol, t) t,
        FAKE_MODES(FAKE_TEXT)
#undef FAKE_TEXT
    };
    return text[m];
}

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- certificates */

static struct {
    EVP_PKEY *key;
    X509 *cert;
    char path[64];
} certificates[FAKE_CERTIFICATES];
static pthread_mutex_t certificates_mutex = PTHREAD_MUTEX_INITIALIZER;

static void add_extension(X509 *x, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    if (!e)
        abort();
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
}

static void make_certificate(unsigned i)
{
    pthread_mutex_lock(&certificates_mutex);
    if (!certificates[i].cert) {
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *x = X509_new();
        if (!key || !x)
            abort();
        X509_set_version(x, 2);
        ASN1_INTEGER_set(X509_get_serialNumber(x), (long)i + 1);
        X509_gmtime_adj(X509_getm_notBefore(x), -3600);
        X509_gmtime_adj(X509_getm_notAfter(x), 86400);
        X509_set_pubkey(x, key);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                                   (const unsigned char *)"dot.test", -1, -1, 0);
        X509_set_issuer_name(x, X509_get_subject_name(x));
        add_extension(x, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(x, NID_subject_alt_name, "DNS:dot.test");
        if (!X509_sign(x, key, EVP_sha256()))
            abort();
        certificates[i].key = key;
        certificates[i].cert = x;
    }
    pthread_mutex_unlock(&certificates_mutex);
}

const char *fake_certificate(unsigned number)
{
    make_certificate(number);
    char *path = certificates[number].path;
    if (!*path) {
        strcpy(path, "/tmp/pith-test-ca.XXXXXX");
        int fd = mkstemp(path);
        FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (!f || !PEM_write_X509(f, certificates[number].cert) || fclose(f))
            abort();
    }
    return path;
}

void fake_pin(unsigned number, uint8_t pin[32])
{
    make_certificate(number);
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(certificates[number].key, &der);
    if (len <= 0 || !EVP_Digest(der, (size_t)len, pin, NULL, EVP_sha256(), NULL))
        abort();
    OPENSSL_free(der);
}

void fake_cleanup(void)
{
    for (unsigned i = 0; i < FAKE_CERTIFICATES; i++) {
        if (certificates[i].path[0])
            unlink(certificates[i].path);
        certificates[i].path[0] = '\0';
        X509_free(certificates[i].cert);
        EVP_PKEY_free(certificates[i].key);
        certificates[i].cert = NULL;
        certificates[i].key = NULL;
    }
}

static SSL *accept_tls(struct fake *f, int fd)
{
    unsigned i = f->certificate;
    make_certificate(i);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx || !SSL_CTX_use_certificate(ctx, certificates[i].cert) ||
        !SSL_CTX_use_PrivateKey(ctx, certificates[i].key))
        abort();
    SSL *ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    SSL_set_fd(ssl, fd);
    return ssl;
}

/* ---- connections */

static void conn_end(struct conn *c, bool reset)
{
    if (c->fd < 0)
        return;
    if (reset) {
        struct linger l = {1, 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    } else if (c->ssl && c->ready) {
        SSL_shutdown(c->ssl);
    }
    SSL_free(c->ssl);
    close(c->fd);
    c->ssl = NULL;
    c->fd = -1;
}

static void conn_write(struct conn *c, const uint8_t *data, size_t len)
{
    while (c->fd >= 0 && len) {
        ssize_t n =
            c->ssl ? SSL_write(c->ssl, data, (int)len) : send(c->fd, data, len, MSG_NOSIGNAL);
        if (n <= 0) {
            conn_end(c, true);
            return;
        }
        data += n;
        len -= (size_t)n;
    }
}

static void later(struct fake *f, struct conn *c, const struct sockaddr_in *to,
                  const uint8_t *msg, size_t len, long ms)
{
    struct later *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->due_ms = now_ms() + ms;
    l->conn = c ? (int)(c - f->conns) : -1;
    l->serial = c ? c->serial : 0;
    if (to)
        l->to = *to;
    memcpy(l->msg, msg, len);
    l->len = len;
    struct later **p = &f->laters;
    while (*p && (*p)->due_ms <= l->due_ms)
        p = &(*p)->next;
    l->next = *p;
    *p = l;
}

static void run_laters(struct fake *f)
{
    while (f->laters && f->laters->due_ms <= now_ms()) {
        struct later *l = f->laters;
        f->laters = l->next;
        if (l->conn < 0)
            sendto(f->udp, l->msg, l->len, 0, (struct sockaddr *)&l->to, sizeof l->to);
        else if (f->conns[l->conn].fd >= 0 && f->conns[l->conn].serial == l->serial)
            conn_write(&f->conns[l->conn], l->msg, l->len);
        free(l);
    }
}

/* ---- messages */

static size_t question_end(const uint8_t *q, size_t len)
{
    size_t i = 12;
    while (i < len && q[i])
        i += 1 + (size_t)q[i];
    return i + 5;
}

static size_t add_a(uint8_t *out, size_t len, uint8_t last)
{
    const uint8_t rr[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, last};
    memcpy(out + len, rr, sizeof rr);
    out[7]++;
    return len + sizeof rr;
}

/* header, question, one A record; what the mode makes of it. Returns the length. */
static size_t make_reply(const uint8_t *q, size_t len, enum fake_mode mode, bool udp,
                         uint8_t *out)
{
    static const uint8_t victim[] = "\6victim\4test\0\0\1\0\1"; /* and the literal's NUL */
    size_t end = question_end(q, len);
    memcpy(out, q, end);
    out[2] = (uint8_t)(0x80 | (q[2] & 1));
    out[3] = (uint8_t)(0x80 | (q[3] & 0x10));
    memset(out + 6, 0, 6);
    switch (mode) {
    case FAKE_NO_EDNS:
        if (q[11] == 0)
            break;
        out[3] |= 1;
        if (q[1] & 1)
            return end;
        out[5] = 0; /* some do not even have the question */
        return 12;
    case FAKE_SERVFAIL:
    case FAKE_REFUSED:
        out[3] |= mode == FAKE_SERVFAIL ? 2 : 5;
        return end;
    case FAKE_TC:
        if (udp) {
            out[2] |= 2;
            return end;
        }
        break;
    case FAKE_OVERSIZE:
        if (udp) {
            for (uint8_t i = 0; i < 120; i++)
                end = add_a(out, end, i);
            return end;
        }
        break;
    case FAKE_WRONG_QUESTION:
        memcpy(out + 12, victim, sizeof victim - 1);
        return add_a(out, 12 + sizeof victim - 1, 66);
    case FAKE_WRONG_ID:
        out[0] ^= 0x55;
        return add_a(out, end, 66);
    case FAKE_GARBAGE:
        for (size_t i = 4; i < end; i++)
            out[i] = (uint8_t)(i * 151 + q[1]);
        return end;
    case FAKE_LOOP:
        end = add_a(out, end, 66);
        out[end - 16] = (uint8_t)(0xc0 | (end - 16) >> 8);
        out[end - 15] = (uint8_t)(end - 16);
        return end;
    case FAKE_LOWER:
        for (size_t i = 12; i < end; i++)
            out[i] = (uint8_t)tolower(out[i]);
        break;
    case FAKE_WRONG_SUBNET: {
        static const uint8_t opt[] = {0, 0, 41, 4, 208, 0, 0,  0,  0,   0, 11,
                                      0, 8, 0,  7, 0,   1, 24, 24, 203, 0, 113};
        end = add_a(out, end, 66);
        memcpy(out + end, opt, sizeof opt);
        out[11] = 1;
        return end + sizeof opt;
    }
    default:
        break;
    }
    return add_a(out, end, 1);
}

static unsigned roll(struct fake *f, unsigned sides)
{
    f->dice = f->dice * 1103515245 + 12345;
    return (f->dice >> 16) % sides;
}

/* A reply with records of many kinds, compressed. */
static size_t rich_reply(uint8_t *out, size_t len)
{
    static const uint8_t more[] = {/* CNAME www.<qname> */ 0xc0,
                                   12,
                                   0,
                                   5,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   9,
                                   0,
                                   6,
                                   3,
                                   'w',
                                   'w',
                                   'w',
                                   0xc0,
                                   12,
                                   /* MX */ 0xc0,
                                   12,
                                   0,
                                   15,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   9,
                                   0,
                                   4,
                                   0,
                                   10,
                                   0xc0,
                                   12,
                                   /* TXT */ 0xc0,
                                   12,
                                   0,
                                   16,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   9,
                                   0,
                                   4,
                                   3,
                                   'a',
                                   'b',
                                   'c',
                                   /* SRV */ 0xc0,
                                   12,
                                   0,
                                   33,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   9,
                                   0,
                                   8,
                                   0,
                                   1,
                                   0,
                                   2,
                                   0,
                                   53,
                                   0xc0,
                                   12,
                                   /* SOA */ 0xc0,
                                   12,
                                   0,
                                   6,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   9,
                                   0,
                                   24,
                                   0xc0,
                                   12,
                                   0xc0,
                                   12,
                                   0,
                                   0,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   2,
                                   0,
                                   0,
                                   0,
                                   3,
                                   0,
                                   0,
                                   0,
                                   4,
                                   0,
                                   0,
                                   0,
                                   5,
                                   /* OPT with EDE, cookie */ 0,
                                   0,
                                   41,
                                   4,
                                   208,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   18,
                                   0,
                                   15,
                                   0,
                                   2,
                                   0,
                                   22,
                                   0,
                                   10,
                                   0,
                                   8,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   6,
                                   7,
                                   8};
    memcpy(out + len, more, sizeof more);
    out[7] = (uint8_t)(out[7] + 4);
    out[9] = 1;
    out[11] = 1;
    return len + sizeof more;
}

/* Changes octets, cuts, lengthens; often leaves it alone. Not the ID, mostly: else nobody
 * looks. */
static size_t mutate(struct fake *f, uint8_t *msg, size_t len)
{
    if (roll(f, 2))
        len = rich_reply(msg, len);
    if (roll(f, f->transport == FAKE_UDP ? 3 : 6) > 1)
        return len; /* enough good ones that nobody thinks the upstream is down */
    for (unsigned n = 1 + roll(f, 4); n; n--) {
        size_t at = roll(f, 20) ? 2 + roll(f, (unsigned)len - 2) : roll(f, (unsigned)len);
        switch (roll(f, 5)) {
        case 0:
            msg[at] = (uint8_t)roll(f, 256);
            break;
        case 1:
            msg[at] ^= (uint8_t)(1U << roll(f, 8));
            break;
        case 2:
            msg[at] = (uint8_t)(0xc0 | (msg[at] & 3));
            break;
        case 3:
            msg[at] = roll(f, 2) ? 0 : 0xff;
            break;
        default:
            if (roll(f, 4) == 0 && at > 12)
                len = at;
        }
    }
    if (roll(f, 20) == 0) {
        size_t more = roll(f, 1500);
        memset(msg + len, (int)roll(f, 256), more);
        len += more;
    }
    return len;
}

static void frame(uint8_t *out, size_t len)
{
    out[0] = (uint8_t)(len >> 8);
    out[1] = (uint8_t)len;
}

static void note(struct fake *f, const uint8_t *q, size_t len)
{
    pthread_mutex_lock(&f->mutex);
    memcpy(f->last, q, len);
    f->last_len = len;
    pthread_mutex_unlock(&f->mutex);
    f->queries++;
}

static void udp_query(struct fake *f)
{
    uint8_t q[QUERY_MAX], out[REPLY_MAX];
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    ssize_t n =
        recvfrom(f->udp, q, sizeof q, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
    if (n < 17)
        return;
    enum fake_mode mode = (enum fake_mode)f->mode;
    note(f, q, (size_t)n);
    f->dice = f->dice * 1103515245 + 12345;
    if (mode == FAKE_SILENT || (mode == FAKE_LOSS && (f->dice >> 16) % 10 < 3))
        return;
    size_t len = make_reply(q, (size_t)n, mode, true, out);
    if (f->loopback && mode == FAKE_OK)
        memcpy(out + len - 4, (uint8_t[]){127, 0, 0, (uint8_t)f->loopback}, 4);
    if (mode == FAKE_MUTATED)
        len = mutate(f, out, len);
    int fd = mode == FAKE_WRONG_SOURCE ? f->other_udp : f->udp;
    if (mode == FAKE_SLOW)
        later(f, NULL, &from, out, len, (long)f->slow_ms);
    else
        sendto(fd, out, len, 0, (struct sockaddr *)&from, from_len);
}

static void release_held(struct fake *f, struct conn *c)
{
    static uint8_t all[HELD * (2 + REPLY_MAX)];
    size_t len = 0;
    for (int i = 0; i < f->held_n; i++) {
        memcpy(all + len, f->held[i], f->held_len[i]);
        len += f->held_len[i];
    }
    f->held_n = 0;
    conn_write(c, all, len);
}

static void stream_query(struct fake *f, struct conn *c, const uint8_t *q, size_t len)
{
    uint8_t out[2 + REPLY_MAX];
    enum fake_mode mode = (enum fake_mode)f->mode;
    note(f, q, len);
    if (mode == FAKE_SILENT)
        return;
    if (mode == FAKE_RST) {
        conn_end(c, true);
        return;
    }
    size_t n = make_reply(q, len, mode, false, out + 2);
    if (mode == FAKE_MUTATED)
        n = mutate(f, out + 2, n);
    frame(out, n);
    if (mode == FAKE_MUTATED && roll(f, 60) == 0)
        out[roll(f, 2)] ^= (uint8_t)roll(f, 256);
    n += 2;
    switch (mode) {
    case FAKE_SLOW:
        later(f, c, NULL, out, n, (long)f->slow_ms);
        break;
    case FAKE_DRIBBLE:
        if (f->dribbled_ms < now_ms())
            f->dribbled_ms = now_ms();
        for (size_t i = 0; i < n; i++) /* behind the reply before */
            later(f, c, NULL, out + i, 1, f->dribbled_ms++ - now_ms());
        break;
    case FAKE_RST_MID:
        conn_write(c, out, n / 2);
        conn_end(c, true);
        break;
    case FAKE_FIN:
        conn_write(c, out, n);
        conn_end(c, false);
        break;
    case FAKE_COALESCE:
        memcpy(f->held[f->held_n], out, n);
        f->held_len[f->held_n++] = n;
        if (f->held_n == HELD)
            release_held(f, c);
        break;
    case FAKE_UNKNOWN:
        out[2] ^= 0xff;
        conn_write(c, out, n);
        out[2] ^= 0xff;
        conn_write(c, out, n);
        conn_write(c, out, n);
        break;
    default:
        conn_write(c, out, n);
    }
}

static void stream_read(struct fake *f, struct conn *c)
{
    if (c->ssl && !c->ready) {
        if (SSL_accept(c->ssl) != 1) {
            conn_end(c, true);
            return;
        }
        c->ready = true;
        f->connections++;
        return;
    }
    do {
        size_t room = sizeof c->in - c->in_len;
        ssize_t n = c->ssl ? SSL_read(c->ssl, c->in + c->in_len, (int)room)
                           : recv(c->fd, c->in + c->in_len, room, 0);
        if (n <= 0) {
            conn_end(c, false);
            return;
        }
        c->in_len += (size_t)n;
        while (c->fd >= 0 && c->in_len >= 2) {
            size_t len = (size_t)c->in[0] << 8 | c->in[1];
            if (len > QUERY_MAX || c->in_len < 2 + len)
                break;
            uint8_t q[QUERY_MAX];
            memcpy(q, c->in + 2, len);
            c->in_len -= 2 + len;
            memmove(c->in, c->in + 2 + len, c->in_len);
            stream_query(f, c, q, len);
        }
    } while (c->fd >= 0 && c->ssl && SSL_pending(c->ssl));
}

static void stream_accept(struct fake *f)
{
    int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
    struct conn *c = f->conns;
    while (c < f->conns + CONNS && c->fd >= 0)
        c++;
    if (fd < 0)
        return;
    if (c == f->conns + CONNS) {
        close(fd);
        return;
    }
    struct timeval patience = {2, 0};
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->serial = ++f->serials;
    c->in_len = 0;
    c->ready = f->transport != FAKE_TLS;
    c->ssl = f->transport == FAKE_TLS ? accept_tls(f, fd) : NULL;
    if (!c->ssl)
        f->connections++;
}

/* ---- the thread */

static void *run(void *arg)
{
    struct fake *f = arg;
    while (!f->stop) {
        struct pollfd p[3 + CONNS] = {{.fd = f->wake[0], .events = POLLIN},
                                      {.fd = f->udp, .events = POLLIN},
                                      {.fd = f->listener, .events = POLLIN}};
        for (int i = 0; i < CONNS; i++)
            p[3 + i] = (struct pollfd){.fd = f->conns[i].fd, .events = POLLIN};
        long wait = f->laters ? f->laters->due_ms - now_ms() : 1000;
        if (f->held_n && wait > 20)
            wait = 20;
        int n = poll(p, 3 + CONNS, wait < 0 ? 0 : (int)wait);
        char c;
        if (p[0].revents)
            (void)!read(f->wake[0], &c, 1);
        if (f->close_all) {
            f->close_all = false;
            for (int i = 0; i < CONNS; i++)
                conn_end(&f->conns[i], false);
            continue;
        }
        if (p[1].revents)
            udp_query(f);
        for (int i = 0; i < CONNS; i++)
            if (p[3 + i].revents && f->conns[i].fd >= 0 &&
                !(f->mode == FAKE_SILENT && f->transport == FAKE_TLS && !f->conns[i].ready))
                stream_read(f, &f->conns[i]);
        if (p[2].revents)
            stream_accept(f);
        if (n == 0 && f->held_n)
            for (int i = 0; i < CONNS; i++)
                if (f->conns[i].fd >= 0 && f->held_n)
                    release_held(f, &f->conns[i]);
        run_laters(f);
    }
    return NULL;
}

static int bound(int type, uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(*port)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), one = 1;
    if (type == SOCK_STREAM)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || (type == SOCK_STREAM && listen(fd, 64)) ||
        getsockname(fd, (struct sockaddr *)&a, &len)) {
        close(fd);
        return -1;
    }
    *port = ntohs(a.sin_port);
    return fd;
}

static bool open_sockets(struct fake *f, uint16_t port)
{
    for (int attempt = 0; attempt < 20; attempt++) {
        f->port = port;
        f->udp = f->listener = -1;
        if ((f->listener = bound(SOCK_STREAM, &f->port)) < 0)
            return false;
        if (f->transport != FAKE_UDP || (f->udp = bound(SOCK_DGRAM, &f->port)) >= 0)
            return true;
        close(f->listener); /* that port is free for TCP only: another one */
        if (port)
            return false;
    }
    return false;
}

struct fake *fake_start(enum fake_transport transport, uint16_t port)
{
    struct fake *f = calloc(1, sizeof *f);
    uint16_t any = 0;
    if (!f)
        return NULL;
    f->transport = transport;
    f->slow_ms = 3000;
    for (int i = 0; i < CONNS; i++)
        f->conns[i].fd = -1;
    pthread_mutex_init(&f->mutex, NULL);
    if (!open_sockets(f, port)) {
        free(f);
        return NULL;
    }
    f->other_udp = bound(SOCK_DGRAM, &any);
    if (pipe(f->wake) || pthread_create(&f->thread, NULL, run, f))
        abort();
    return f;
}

static void wake(struct fake *f)
{
    (void)!write(f->wake[1], "", 1);
}

void fake_stop(struct fake *f)
{
    if (!f)
        return;
    f->stop = true;
    wake(f);
    pthread_join(f->thread, NULL);
    for (int i = 0; i < CONNS; i++)
        conn_end(&f->conns[i], true);
    while (f->laters) {
        struct later *l = f->laters;
        f->laters = l->next;
        free(l);
    }
    if (f->udp >= 0)
        close(f->udp);
    close(f->other_udp);
    close(f->listener);
    close(f->wake[0]);
    close(f->wake[1]);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}

uint16_t fake_port(const struct fake *f)
{
    return f->port;
}

void fake_set(struct fake *f, enum fake_mode mode)
{
    f->mode = (int)mode;
}

void fake_set_slow_ms(struct fake *f, unsigned ms)
{
    f->slow_ms = ms;
}

void fake_answer_loopback(struct fake *f, unsigned last)
{
    f->loopback = last;
}

void fake_use_certificate(struct fake *f, unsigned number)
{
    f->certificate = number;
}

void fake_seed(struct fake *f, unsigned seed)
{
    f->dice = seed;
}

void fake_close_connections(struct fake *f)
{
    f->close_all = true;
    wake(f);
}

unsigned fake_queries(const struct fake *f)
{
    return f->queries;
}

unsigned fake_connections(const struct fake *f)
{
    return f->connections;
}

size_t fake_last_query(struct fake *f, uint8_t *out, size_t size)
{
    pthread_mutex_lock(&f->mutex);
    size_t len = f->last_len < size ? f->last_len : size;
    memcpy(out, f->last, len);
    pthread_mutex_unlock(&f->mutex);
    return len;
}
