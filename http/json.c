/* json.c - parameters to a query, an answer to JSON. */
#include "http/json.h"

#include <stdbool.h> /* first: without it ldns makes bool a char */

#include <jansson.h>
#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/addr.h"
#include "dns/build.h"
#include "dns/ecs.h"
#include "dns/edns.h"
#include "dns/message.h"
#include "dns/name.h"
#include "dns/rrtype.h"
#include "http/url.h"

/* ---- the question */

struct question {
    uint8_t name[DNS_NAME_MAX];
    size_t name_len; /* 0: not seen */
    uint16_t type;
    bool wants_do, wants_cd, has_subnet;
    struct ecs subnet;
};

/* "1" and "true" switch on, "0", "false" and nothing off. */
static bool parse_switch(const char *value, bool *out)
{
    *out = strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0;
    return *out || *value == 0 || strcmp(value, "0") == 0 || strcasecmp(value, "false") == 0;
}

/* "192.0.2.1/24"; without a prefix the lengths that RFC 7871 11.1 recommends. */
static bool parse_subnet(char *value, struct ecs *out)
{
    char *slash = strchr(value, '/'), *end = NULL;
    struct addr a;
    unsigned long prefix;

    if (slash)
        *slash = 0;
    if (!addr_parse(&a, value, 0) || a.port != 0)
        return false;
    prefix = a.family == ADDR_V4 ? 24 : 56;
    if (slash) {
        if (slash[1] < '0' || slash[1] > '9')
            return false;
        prefix = strtoul(slash + 1, &end, 10);
        if (*end || prefix > 8 * addr_ip_len(a.family))
            return false;
    }
    return ecs_from_addr(out, &a, (uint8_t)prefix);
}

static bool parse_name(struct question *q, const char *value)
{
    for (const char *p = value; *p; p++)
        if ((uint8_t)*p >= 0x80)
            return false; /* in which encoding, and of which IDNA, is not said */
    q->name_len = name_from_text(q->name, value);
    return q->name_len > 0;
}

/* One parameter, decoded and with a NUL; returns what is wrong with it, or NULL. */
static const char *parse_parameter(struct question *q, char *key, char *value)
{
    if (strcmp(key, "name") == 0) {
        if (q->name_len > 0)
            return "More than one parameter name.\n";
        if (!parse_name(q, value))
            return "The parameter name is no domain name.\n";
    } else if (strcmp(key, "type") == 0) {
        if (!rrtype_from_text(&q->type, value) || q->type == 0)
            return "The parameter type is no record type.\n";
    } else if (strcmp(key, "do") == 0) {
        if (!parse_switch(value, &q->wants_do))
            return "The parameter do is 0 or 1.\n";
    } else if (strcmp(key, "cd") == 0) {
        if (!parse_switch(value, &q->wants_cd))
            return "The parameter cd is 0 or 1.\n";
    } else if (strcmp(key, "edns_client_subnet") == 0) {
        q->has_subnet = *value != 0;
        if (q->has_subnet && !parse_subnet(value, &q->subnet))
            return "The parameter edns_client_subnet is no ADDRESS/PREFIX.\n";
    }
    return NULL;
}

static const char *parse_parameters(struct question *q, const char *text, size_t len)
{
    const char *end = text + len;
    char pair[NAME_TEXT_SIZE + 32], *value;

    while (text < end) {
        const char *amp = memchr(text, '&', (size_t)(end - text)), *why;
        size_t n = (size_t)((amp ? amp : end) - text), plain;

        if (n < sizeof(pair)) { /* longer ones are none of ours, or names beyond 255 octets */
            plain = url_unescape(pair, text, n);
            pair[plain] = 0;
            if (memchr(pair, 0, plain))
                return "A parameter contains NUL.\n";
            value = strchr(pair, '=');
            if (value) {
                *value++ = 0;
                why = parse_parameter(q, pair, value);
                if (why)
                    return why;
            }
        }
        text += n + 1;
    }
    return q->name_len == 0 ? "The parameter name is missing.\n" : NULL;
}

size_t json_query(uint8_t *out, const char *parameters, size_t len, const char **why)
{
    struct question q = {.type = 1};
    struct dns_builder b;
    uint8_t option[ECS_OPTION_MAX], *opt, *end;

    *why = parse_parameters(&q, parameters, len);
    if (*why)
        return 0;
    build_start(&b, out, JSON_QUERY_MAX, 0, q.wants_cd ? DNS_RD | DNS_CD : DNS_RD, q.name,
                q.name_len, q.type, DNS_CLASS_IN);
    opt = out + build_finish(&b);
    end = opt + edns_write(opt, DNS_UDP_SIZE, 0, q.wants_do ? 0x8000 : 0);
    dns_write16(out + 10, 1);
    if (q.has_subnet)
        end = edns_add(opt, end, out + JSON_QUERY_MAX, DNS_OPTION_ECS, option,
                       ecs_write(&q.subnet, option));
    return (size_t)(end - out);
}

/* ---- the answer */

/* The rdata in presentation form: what ldns writes after owner, TTL, class and type. */
static bool rdata_text(ldns_buffer *text, const struct dns_reply *r, const struct dns_rr *rr)
{
    ldns_rr *record = NULL;
    size_t pos = rr->pos, tabs = 0;
    char *at;
    bool ok;

    ldns_buffer_clear(text);
    ok =
        ldns_wire2rr(&record, r->msg, r->len, &pos, LDNS_SECTION_ANSWER) == LDNS_STATUS_OK &&
        ldns_rr2buffer_str_fmt(text, ldns_output_format_nocomments, record) == LDNS_STATUS_OK &&
        ldns_buffer_reserve(text, 1);
    ldns_rr_free(record);
    if (!ok)
        return false;
    ldns_buffer_write_u8(text, 0);
    at = (char *)ldns_buffer_begin(text);
    at[strcspn(at, "\n")] = 0;
    for (size_t i = 0; at[i]; i++) {
        if (at[i] == '\t' && ++tabs == 4) {
            memmove(at, at + i + 1, strlen(at + i + 1) + 1);
            return true;
        }
    }
    *at = 0; /* no rdata */
    return true;
}

static json_t *record_json(ldns_buffer *text, const struct dns_reply *r,
                           const struct dns_rr *rr)
{
    uint8_t owner[DNS_NAME_MAX];
    char name[NAME_TEXT_SIZE];
    size_t pos = rr->pos, len = name_expand(r->msg, r->len, &pos, owner);

    if (len == 0 || !rdata_text(text, r, rr))
        return NULL;
    return json_pack("{s:s, s:i, s:I, s:s}", "name", name_to_text(owner, len, name), "type",
                     (int)rr->type, "TTL", (json_int_t)rr->ttl, "data",
                     (const char *)ldns_buffer_begin(text));
}

/* Adds the records of the three sections; empty sections are left out. */
static bool add_sections(json_t *root, const struct dns_reply *r)
{
    static const char *const names[] = {"Answer", "Authority", "Additional"};
    ldns_buffer *text = ldns_buffer_new(512);
    struct dns_walk w;
    struct dns_rr rr;
    bool ok = text;

    walk_start(&w, r);
    while (ok && walk_next(&w, &rr)) {
        json_t *list;

        if (rr.type == LDNS_RR_TYPE_OPT)
            continue;
        list = json_object_get(root, names[rr.section]);
        if (!list) {
            list = json_array();
            ok = json_object_set_new(root, names[rr.section], list) == 0;
        }
        ok = ok && json_array_append_new(list, record_json(text, r, &rr)) == 0;
    }
    ldns_buffer_free(text);
    return ok;
}

/* The client subnet with its scope, as Google shows it. */
static bool add_subnet(json_t *root, const struct dns_reply *r)
{
    char ip[ADDR_TEXT_SIZE], text[ADDR_TEXT_SIZE + 4];
    struct addr a = {0};
    struct ecs e;
    size_t len;
    const uint8_t *data = edns_option(r->options, r->options_len, DNS_OPTION_ECS, &len);

    if (!data || !ecs_parse(&e, data, len))
        return true;
    a.family = e.family;
    memcpy(a.ip, e.ip, sizeof(a.ip));
    snprintf(text, sizeof(text), "%s/%u", addr_format_ip(&a, ip), e.scope);
    return json_object_set_new(root, "edns_client_subnet", json_string(text)) == 0;
}

/* The first extended error (RFC 8914); text that is not UTF-8 is left out. */
static bool add_error(json_t *root, const struct dns_reply *r)
{
    size_t len;
    const uint8_t *data = edns_option(r->options, r->options_len, DNS_OPTION_EDE, &len);
    json_t *text, *list;

    if (!data || len < 2)
        return true;
    text = json_stringn((const char *)data + 2, len - 2);
    if (!text)
        text = json_string("");
    list = json_pack("[{s:i, s:o}]", "info_code", (int)dns_read16(data), "extra_text", text);
    return json_object_set_new(root, "extended_dns_errors", list) == 0;
}

char *json_answer(const uint8_t *msg, size_t len, size_t *text_len)
{
    struct dns_reply r;
    char name[NAME_TEXT_SIZE], *text = NULL;
    json_t *root;

    if (!reply_parse(&r, msg, len))
        return NULL;
    root = json_pack("{s:i, s:b, s:b, s:b, s:b, s:b, s:[{s:s, s:i}]}", "Status", (int)r.rcode,
                     "TC", !!(r.flags & DNS_TC), "RD", !!(r.flags & DNS_RD), "RA",
                     !!(r.flags & DNS_RA), "AD", !!(r.flags & DNS_AD), "CD",
                     !!(r.flags & DNS_CD), "Question", "name",
                     name_to_text(r.qname, r.qname_len, name), "type", (int)r.qtype);
    if (root && add_sections(root, &r) &&
        (!r.has_opt || (add_subnet(root, &r) && add_error(root, &r))))
        text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (text)
        *text_len = strlen(text);
    return text;
}
