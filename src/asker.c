/* asker.c - finishing answers for who asked. */
#include "asker.h"

#include <string.h>

#include "core/clock.h"
#include "dns/build.h"
#include "dns/edns.h"

enum {
    PADDING_BLOCK = 468,     /* RFC 8467 4.1 */
    KEEPALIVE_UNIT_MS = 100, /* RFC 7828 3.1 */
    COOKIE_MIN = 16,
    COOKIE_MAX = 40, /* with a server part (RFC 7873 4) */
    EDE_TEXT_MAX = 120,
    OPTIONS_MAX = 512, /* two texts, a subnet, a cookie, a time-out */
};

/* One option of the query. False when it is malformed. */
static bool take_option(struct asker *a, uint16_t code, const uint8_t *data, size_t len)
{
    switch (code) {
    case DNS_OPTION_ECS:
        if (a->has_ecs) /* two of them say two things */
            return false;
        /* RFC 7871 7.1.2: a query's scope is 0; RFC 7871 6 for the rest. */
        if (!ecs_parse(&a->ecs, data, len) || a->ecs.scope != 0)
            return false;
        a->has_ecs = true;
        return true;
    case DNS_OPTION_PADDING:
        a->wants_padding = a->transport == QUERY_DOT || a->transport == QUERY_DOH;
        return true;
    case DNS_OPTION_KEEPALIVE:
        /* RFC 7828 3.2.1: a query carries no time-out; over UDP it means nothing. */
        if (a->transport != QUERY_TCP && a->transport != QUERY_DOT)
            return true;
        a->wants_keepalive = true;
        return len == 0;
    case DNS_OPTION_COOKIE:
        if (len != COOKIE_CLIENT_SIZE && (len < COOKIE_MIN || len > COOKIE_MAX))
            return false; /* RFC 7873 5.2.2 */
        a->has_cookie = a->transport == QUERY_UDP || a->transport == QUERY_TCP;
        memcpy(a->cookie, data, COOKIE_CLIENT_SIZE);
        return true;
    default:
        return true;
    }
}

bool asker_init(struct asker *a, const struct query *q, const struct dns_query *dq)
{
    size_t pos = 0;

    a->id = dq->id;
    a->flags = dq->flags;
    a->qtype = dq->qtype;
    a->qclass = dq->qclass;
    a->udp_size = dq->udp_size;
    a->transport = q->transport;
    a->has_opt = dq->has_opt;
    a->dnssec_ok = query_do(dq);
    a->wants_padding = a->wants_keepalive = a->has_cookie = a->has_ecs = false;
    a->subnet_from_address = a->has_subnet = false;
    a->client = q->client;
    a->qname_len = (uint8_t)dq->qname_len;
    memcpy(a->qname, dq->qname, dq->qname_len);
    while (pos < dq->options_len) {
        const uint8_t *p = dq->options + pos;
        size_t len = dns_read16(p + 2);

        if (!take_option(a, dns_read16(p), p + 4, len))
            return false;
        pos += 4 + len;
    }
    return true;
}

static size_t size_limit(const struct asker *a)
{
    size_t asked = a->udp_size;

    if (a->transport != QUERY_UDP)
        return DNS_MESSAGE_MAX;
    if (asked > DNS_UDP_SIZE)
        asked = DNS_UDP_SIZE;
    return asked < DNS_UDP_CLASSIC ? DNS_UDP_CLASSIC : asked;
}

static uint8_t *add_errors(uint8_t *opt, uint8_t *end, const uint8_t *limit,
                           const struct asker_errors *e)
{
    for (size_t i = 0; i < 2; i++) {
        uint8_t data[2 + EDE_TEXT_MAX];
        size_t text = e->text[i] ? strnlen(e->text[i], EDE_TEXT_MAX) : 0;
        uint8_t *next;

        if (e->code[i] == DNS_EDE_NONE)
            continue;
        dns_write16(data, e->code[i]);
        if (text > 0)
            memcpy(data + 2, e->text[i], text);
        next = edns_add(opt, end, limit, DNS_OPTION_EDE, data, 2 + text);
        end = next ? next : end;
    }
    return end;
}

/* Everything but padding. opt has been begun; returns the new end. */
static uint8_t *add_options(const struct asker *a, const struct asker_answer *answer,
                            uint8_t *opt, uint8_t *end, const uint8_t *limit,
                            uint32_t keepalive_ms)
{
    uint8_t *next;

    if (a->has_ecs && a->has_subnet) {
        struct ecs echo = a->ecs;
        uint8_t data[ECS_OPTION_MAX];

        /* RFC 7871 7.2.1: as asked, with the scope that was used; nothing is tailored to
         * who opted out. */
        echo.scope = answer->scoped && a->ecs.source > 0 ? answer->scope : 0;
        next = edns_add(opt, end, limit, DNS_OPTION_ECS, data, ecs_write(&echo, data));
        end = next ? next : end;
    }
    if (a->wants_keepalive) {
        uint32_t units = keepalive_ms / KEEPALIVE_UNIT_MS;
        uint8_t data[2];

        dns_write16(data, (uint16_t)(units > UINT16_MAX ? UINT16_MAX : units));
        next = edns_add(opt, end, limit, DNS_OPTION_KEEPALIVE, data, sizeof data);
        end = next ? next : end;
    }
    if (a->has_cookie) {
        uint8_t data[COOKIE_SIZE];

        cookie_write(data, a->cookie, &a->client, (uint32_t)clock_wall_s());
        next = edns_add(opt, end, limit, DNS_OPTION_COOKIE, data, sizeof data);
        end = next ? next : end;
    }
    return add_errors(opt, end, limit, &answer->errors);
}

static size_t append_opt(const struct asker *a, const struct asker_answer *answer, uint8_t *msg,
                         size_t len, size_t limit, const uint8_t *options, size_t options_len)
{
    uint8_t *opt = msg + len;
    uint8_t *end = opt + edns_write(opt, DNS_UDP_SIZE, (uint8_t)(answer->rcode >> 4),
                                    a->dnssec_ok ? 0x8000 : 0);

    if (options_len > 0) {
        memcpy(end, options, options_len);
        end += options_len;
        dns_write16(opt + DNS_OPT_FIXED - 2, (uint16_t)options_len);
    }
    if (a->wants_padding) {
        size_t pad = edns_padding((size_t)(end - msg), PADDING_BLOCK, limit);

        if (pad != SIZE_MAX) {
            uint8_t *padding = end + 4;

            end = edns_add(opt, end, msg + limit, DNS_OPTION_PADDING, NULL, 0);
            memset(padding, 0, pad);
            dns_write16(padding - 2, (uint16_t)pad);
            end += pad;
            dns_write16(opt + DNS_OPT_FIXED - 2, (uint16_t)(end - opt - DNS_OPT_FIXED));
        }
    }
    dns_write16(msg + 10, (uint16_t)(dns_read16(msg + 10) + 1));
    return (size_t)(end - msg);
}

static uint16_t answer_flags(const struct asker *a, const struct asker_answer *answer,
                             uint16_t flags)
{
    flags =
        (uint16_t)((flags & DNS_TC) | DNS_QR | DNS_RA |
                   (a->flags & (DNS_OPCODE | DNS_RD | DNS_CD)) | (answer->rcode & DNS_RCODE));
    if (answer->authoritative)
        flags |= DNS_AA;
    /* RFC 6840 5.8: AD only to those who understand it. */
    if (answer->authentic && (a->dnssec_ok || (a->flags & DNS_AD)))
        flags |= DNS_AD;
    return flags;
}

/* The options without OPT's head, to out; returns their length. */
static size_t write_options(const struct asker *a, const struct asker_answer *answer,
                            uint8_t out[OPTIONS_MAX], uint32_t keepalive_ms)
{
    uint8_t opt[DNS_OPT_FIXED + OPTIONS_MAX];
    uint8_t *end = opt + edns_write(opt, DNS_UDP_SIZE, 0, 0);
    size_t len;

    end = add_options(a, answer, opt, end, opt + sizeof opt, keepalive_ms);
    len = (size_t)(end - opt) - DNS_OPT_FIXED;
    memcpy(out, opt + DNS_OPT_FIXED, len);
    return len;
}

size_t asker_finish(const struct asker *a, const struct asker_answer *answer, uint8_t *msg,
                    size_t len, size_t size, uint32_t keepalive_ms, bool *truncated)
{
    size_t limit = size_limit(a) < size ? size_limit(a) : size;
    uint8_t options[OPTIONS_MAX];
    size_t options_len = 0;
    size_t opt_size = 0;

    if (a->has_opt) {
        options_len = write_options(a, answer, options, keepalive_ms);
        opt_size = DNS_OPT_FIXED + options_len;
        if (len + opt_size > limit) { /* records are worth more than words (RFC 8914 3) */
            struct asker_answer terse = *answer;

            terse.errors.text[0] = terse.errors.text[1] = NULL;
            options_len = write_options(a, &terse, options, keepalive_ms);
            opt_size = DNS_OPT_FIXED + options_len;
        }
    }
    dns_write16(msg, a->id);
    memcpy(msg + DNS_HEADER_SIZE, a->qname, a->qname_len);
    dns_write16(msg + 2, answer_flags(a, answer, dns_read16(msg + 2)));
    if (len + opt_size > limit)
        len = message_truncate(msg, len, limit - opt_size);
    *truncated = dns_read16(msg + 2) & DNS_TC;
    if (a->has_opt)
        len = append_opt(a, answer, msg, len, limit, options, options_len);
    return len;
}
