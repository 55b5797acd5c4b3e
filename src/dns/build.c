/* build.c - writing messages, with compression. */
#include "dns/build.h"

#include <string.h>

#include "dns/edns.h"
#include "dns/name.h"
#include "dns/rrtype.h"

enum {
    POINTER = 0xc000,
    POINTER_END = 0x4000, /* first offset that a pointer cannot name (RFC 1035 4.1.4) */
    QUESTION = DNS_HEADER_SIZE,
    LABELS_MAX = (DNS_NAME_MAX + 1) / 2, /* one octet each, and room to find the root missing */
    ROOT = BUILD_NAMES,                  /* index of the tree's root, which is no target */
    NO_NODE = 0xff,
    EDNS_DO = 0x8000,
};

static inline bool bytes_put(struct dns_builder *b, const uint8_t *data, size_t len)
{
    if (b->size - b->len < len)
        return false;
    if (len > 0)
        memcpy(b->out + b->len, data, len);
    b->len += len;
    return true;
}

/* The child of a node that has this label, by exact octets. */
static inline uint8_t node_find(const struct dns_builder *b, uint8_t node, const uint8_t *label)
{
    for (uint8_t i = b->child[node]; i != NO_NODE; i = b->sibling[i]) {
        const uint8_t *have = b->out + b->targets[i];
        if (have[0] == label[0] && memcmp(have + 1, label + 1, label[0]) == 0)
            return i;
    }
    return NO_NODE;
}

/* Adds the label at an offset below a node; NO_NODE when there is no room for it. */
static inline uint8_t node_add(struct dns_builder *b, uint8_t node, size_t offset)
{
    if (b->n_targets == BUILD_NAMES || offset >= POINTER_END)
        return NO_NODE;
    uint8_t i = b->n_targets++;
    b->targets[i] = (uint16_t)offset;
    b->parent[i] = node;
    b->sibling[i] = b->child[node];
    b->child[i] = NO_NODE;
    b->child[node] = i;
    return i;
}

/* Back to an earlier state. Children are chained newest first, so that taking targets away
 * newest first only moves heads of chains. */
static void take_back(struct dns_builder *b, size_t len, uint8_t n_targets)
{
    while (b->n_targets > n_targets) {
        uint8_t i = --b->n_targets;
        b->child[b->parent[i]] = b->sibling[i];
    }
    b->len = len;
    b->overflow = true;
}

/* Where the labels of a wire name begin; returns how many, SIZE_MAX when it is malformed. */
static inline size_t labels_find(const uint8_t *name, size_t len, uint8_t at[LABELS_MAX])
{
    size_t n = 0, pos = 0;
    if (len == 0 || len > DNS_NAME_MAX)
        return SIZE_MAX;
    while (pos < len && name[pos] != 0) {
        if (name[pos] > DNS_LABEL_MAX)
            return SIZE_MAX;
        at[n++] = (uint8_t)pos;
        pos += 1 + (size_t)name[pos];
    }
    return pos == len - 1 ? n : SIZE_MAX;
}

/* Writes a name: labels up to where the rest was written before, then a pointer to that. What
 * is new becomes a target, from the root's side on, as a label needs its parent in the tree. */
static bool name_put(struct dns_builder *b, const uint8_t *name, size_t len, bool compress)
{
    uint8_t at[LABELS_MAX];
    size_t left = labels_find(name, len, at);
    if (left == SIZE_MAX)
        return false;

    uint8_t node = ROOT;
    size_t own = len; /* octets before the part that the tree has */
    while (left > 0) {
        uint8_t next = node_find(b, node, name + at[left - 1]);
        if (next == NO_NODE)
            break;
        node = next;
        own = at[--left];
    }
    bool pointer = compress && node != ROOT;
    size_t start = b->len;
    if (b->size - start < (pointer ? own + 2 : len))
        return false;
    memcpy(b->out + start, name, pointer ? own : len);
    b->len = start + (pointer ? own : len);
    if (pointer) {
        dns_write16(b->out + b->len, (uint16_t)(POINTER | b->targets[node]));
        b->len += 2;
    }
    while (left > 0 && node != NO_NODE)
        node = node_add(b, node, start + at[--left]);
    return true;
}

bool build_name(struct dns_builder *b, const uint8_t *name, size_t len, bool compress)
{
    if (name_put(b, name, len, compress))
        return true;
    b->overflow = true;
    return false;
}

bool build_start(struct dns_builder *b, uint8_t *out, size_t size, uint16_t id, uint16_t flags,
                 const uint8_t *qname, size_t qname_len, uint16_t qtype, uint16_t qclass)
{
    b->out = out;
    b->len = DNS_HEADER_SIZE;
    b->size = size < DNS_MESSAGE_MAX ? size : DNS_MESSAGE_MAX;
    memset(b->count, 0, sizeof b->count);
    b->n_targets = 0;
    b->qname_len = 0;
    b->overflow = false;
    b->child[ROOT] = NO_NODE;
    if (qname_len > DNS_NAME_MAX || b->size < DNS_HEADER_SIZE + qname_len + 4) {
        b->len = 0;
        b->overflow = true;
        return false;
    }
    dns_write16(out, id);
    dns_write16(out + 2, flags);
    dns_write16(out + 4, 1);
    memset(out + 6, 0, 6);
    if (!name_put(b, qname, qname_len, false)) {
        take_back(b, 0, 0);
        return false;
    }
    b->qname_len = (uint8_t)qname_len;
    dns_write16(out + b->len, qtype);
    dns_write16(out + b->len + 2, qclass);
    b->len += 4;
    return true;
}

/* Most owners are the qname: for them the tree is not asked. */
static inline bool owner_put(struct dns_builder *b, const uint8_t *owner, size_t len)
{
    const uint8_t *qname = b->out + QUESTION;
    if (owner == NULL) {
        owner = qname;
        len = b->qname_len;
    }
    if (len != b->qname_len || (owner != qname && memcmp(owner, qname, len) != 0))
        return name_put(b, owner, len, true);
    if (len <= 1)
        return bytes_put(b, qname, len);
    static const uint8_t to_question[] = {POINTER >> 8, QUESTION};
    return bytes_put(b, to_question, sizeof to_question);
}

/* Octets before the first name: prefix and strings. SIZE_MAX when they pass the end. */
static size_t rdata_head(const struct rrtype_layout *l, const uint8_t *rdata, size_t len)
{
    size_t pos = l->prefix;
    for (unsigned i = 0; i < l->strings && pos < len; i++)
        pos += 1 + (size_t)rdata[pos];
    return pos <= len ? pos : SIZE_MAX;
}

static bool rdata_put(struct dns_builder *b, uint16_t type, const uint8_t *rdata, size_t len)
{
    const struct rrtype_layout *l = rrtype_layout(type);
    if (l->names == 0)
        return (l->tail_any || len == l->prefix) && bytes_put(b, rdata, len);

    size_t pos = rdata_head(l, rdata, len);
    if (pos == SIZE_MAX || !bytes_put(b, rdata, pos))
        return false;
    for (unsigned i = 0; i < l->names; i++) {
        size_t n = name_wire_len(rdata + pos, len - pos);
        if (n == 0 || !name_put(b, rdata + pos, n, l->compress))
            return false;
        pos += n;
    }
    return (l->tail_any || len - pos == l->tail) && bytes_put(b, rdata + pos, len - pos);
}

/* Owner, fixed part, rdata; the builder is left half way when false. */
static bool rr_put(struct dns_builder *b, const uint8_t *owner, size_t owner_len,
                   const uint8_t fixed[DNS_RR_FIXED], const uint8_t *rdata, size_t rdata_len)
{
    if (!owner_put(b, owner, owner_len) || !bytes_put(b, fixed, DNS_RR_FIXED))
        return false;
    size_t start = b->len;
    if (!rdata_put(b, dns_read16(fixed), rdata, rdata_len) || b->len - start > UINT16_MAX)
        return false;
    dns_write16(b->out + start - 2, (uint16_t)(b->len - start));
    return true;
}

bool build_rr(struct dns_builder *b, enum dns_section section, const uint8_t *owner,
              size_t owner_len, uint16_t type, uint16_t rclass, uint32_t ttl,
              const uint8_t *rdata, size_t rdata_len)
{
    size_t len = b->len;
    uint8_t n_targets = b->n_targets;
    uint8_t fixed[DNS_RR_FIXED] = {0};

    dns_write16(fixed, type);
    dns_write16(fixed + 2, rclass);
    dns_write32(fixed + 4, ttl);
    if (!rr_put(b, owner, owner_len, fixed, rdata, rdata_len)) {
        take_back(b, len, n_targets);
        return false;
    }
    b->count[section]++;
    return true;
}

size_t build_finish(struct dns_builder *b)
{
    if (b->len < DNS_HEADER_SIZE)
        return 0;
    for (size_t i = 0; i < DNS_SECTIONS; i++)
        dns_write16(b->out + 6 + 2 * i, b->count[i]);
    return b->len;
}

size_t rdata_expand(const struct dns_reply *r, const struct dns_rr *rr, uint8_t *out,
                    size_t size)
{
    const struct rrtype_layout *l = rrtype_layout(rr->type);
    const uint8_t *rdata = r->msg + rr->rdata;
    size_t head = l->names == 0 ? rr->rdlength : rdata_head(l, rdata, rr->rdlength);
    if (head > size)
        return SIZE_MAX;
    memcpy(out, rdata, head);

    size_t pos = rr->rdata + head, len = head;
    for (unsigned i = 0; i < l->names; i++) {
        uint8_t name[DNS_NAME_MAX];
        size_t n = name_expand(r->msg, rr->end, &pos, name);
        if (n == 0 || n > size - len)
            return SIZE_MAX;
        memcpy(out + len, name, n);
        len += n;
    }
    if (rr->end - pos > size - len)
        return SIZE_MAX;
    memcpy(out + len, r->msg + pos, rr->end - pos);
    return len + (rr->end - pos);
}

size_t build_error(uint8_t *out, size_t size, const struct dns_query *q, uint16_t rcode,
                   size_t *opt_pos)
{
    size_t question = q->qname != NULL ? q->qname_len + 4 : 0;
    size_t len = DNS_HEADER_SIZE + question;
    if (size < len + (q->has_opt ? DNS_OPT_FIXED : 0))
        return 0;
    /* without OPT the upper bits would be lost, and BADVERS become NOERROR */
    if (rcode > DNS_RCODE && !q->has_opt)
        rcode = DNS_RCODE_SERVFAIL;

    if (question > 0) { /* first, for q may point into out */
        memmove(out + QUESTION, q->qname, q->qname_len);
        dns_write16(out + len - 4, q->qtype);
        dns_write16(out + len - 2, q->qclass);
    }
    memset(out, 0, DNS_HEADER_SIZE);
    dns_write16(out, q->id);
    dns_write16(out + 2,
                (uint16_t)(DNS_QR | DNS_RA | (q->flags & (DNS_OPCODE | DNS_RD | DNS_CD)) |
                           (rcode & DNS_RCODE)));
    out[5] = question > 0;
    out[11] = q->has_opt;
    if (opt_pos != NULL)
        *opt_pos = q->has_opt ? len : 0;
    if (q->has_opt)
        len +=
            edns_write(out + len, DNS_UDP_SIZE, (uint8_t)(rcode >> 4), q->ext_flags & EDNS_DO);
    return len;
}

/* Two neighbours belong to one RRset (RFC 2181 5): section, owner, type, class are the same. */
static bool same_rrset(const struct dns_reply *r, const struct dns_rr *a,
                       const struct dns_rr *b)
{
    if (a->section != b->section || a->type != b->type || a->rclass != b->rclass)
        return false;
    uint8_t a_owner[DNS_NAME_MAX], b_owner[DNS_NAME_MAX];
    size_t a_pos = a->pos, b_pos = b->pos;
    size_t a_len = name_expand(r->msg, r->len, &a_pos, a_owner);
    size_t b_len = name_expand(r->msg, r->len, &b_pos, b_owner);
    return name_equal(a_owner, a_len, b_owner, b_len);
}

/* Ends the message at pos with so many records. */
static size_t cut_at(uint8_t *msg, size_t pos, const uint16_t count[DNS_SECTIONS],
                     bool truncated)
{
    for (size_t i = 0; i < DNS_SECTIONS; i++)
        dns_write16(msg + 6 + 2 * i, count[i]);
    if (truncated)
        msg[2] |= DNS_TC >> 8;
    return pos;
}

/* For what has no records to go by: header and question, or the header alone. */
static size_t cut_all(uint8_t *msg, size_t len, size_t limit)
{
    static const uint16_t none[DNS_SECTIONS];
    if (limit < DNS_HEADER_SIZE || len < DNS_HEADER_SIZE)
        return 0;
    size_t name = name_wire_len(msg + QUESTION, len - QUESTION);
    size_t end = QUESTION + name + 4;
    if (dns_read16(msg + 4) == 1 && name > 0 && end <= len && end <= limit)
        return cut_at(msg, end, none, true);
    dns_write16(msg + 4, 0);
    return cut_at(msg, DNS_HEADER_SIZE, none, true);
}

size_t message_truncate(uint8_t *msg, size_t len, size_t limit)
{
    struct dns_reply r;
    if (len <= limit)
        return len;
    if (!reply_parse(&r, msg, len) || r.section[DNS_ANSWER] > limit)
        return cut_all(msg, len, limit);

    size_t end = r.section[DNS_ANSWER]; /* the last boundary within the limit */
    uint16_t kept[DNS_SECTIONS] = {0}, seen[DNS_SECTIONS] = {0};
    struct dns_walk w;
    struct dns_rr rr, before;
    walk_start(&w, &r);
    for (bool first = true; walk_next(&w, &rr) && rr.pos <= limit; first = false) {
        if (first || !same_rrset(&r, &before, &rr)) {
            end = rr.pos;
            memcpy(kept, seen, sizeof kept);
        }
        seen[rr.section]++;
        before = rr;
    }
    bool truncated = kept[DNS_ANSWER] != r.count[DNS_ANSWER] ||
                     kept[DNS_AUTHORITY] != r.count[DNS_AUTHORITY];
    return cut_at(msg, end, kept, truncated);
}
