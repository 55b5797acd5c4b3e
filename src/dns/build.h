/* build.h - writing messages.
 *
 * The builder compresses owners and the names in RFC 1035 types (rrtype_layout().compress)
 * against everything it wrote before at offsets under 0x4000, and nothing else (RFC 3597 4). The
 * question is written as given, never compressed. Matching is by exact octets, so that what is
 * sent keeps the case it came with. No allocation; the work a name is bounded. */
#ifndef PITH_DNS_BUILD_H
#define PITH_DNS_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dns/message.h"
#include "dns/wire.h"

enum { BUILD_NAMES = 64 }; /* names remembered as targets for pointers */

/* The labels that pointers may name form a tree below the root, so that a name is looked up
 * label by label from its end, and no label twice. */
struct dns_builder {
    uint8_t *out;
    size_t len, size;
    uint16_t count[DNS_SECTIONS];
    uint16_t targets[BUILD_NAMES]; /* offsets of labels that pointers may name */
    uint8_t n_targets;
    uint8_t qname_len;
    bool overflow; /* something did not fit; what was written last was taken back */
    uint8_t parent[BUILD_NAMES], sibling[BUILD_NAMES]; /* of each target, as indices */
    uint8_t child[BUILD_NAMES + 1]; /* its newest child; the last one is the root's */
};

/* Starts a message: header with id and flags, then the question. False when it does not fit. */
bool build_start(struct dns_builder *b, uint8_t *out, size_t size, uint16_t id, uint16_t flags,
                 const uint8_t *qname, size_t qname_len, uint16_t qtype, uint16_t qclass);

/* Appends a record whose rdata is uncompressed. owner NULL: the qname. Sections must come in order.
 * False (and nothing added) when it does not fit, or is malformed: an owner or rdata that its
 * type's layout does not have. */
bool build_rr(struct dns_builder *b, enum dns_section section, const uint8_t *owner,
              size_t owner_len, uint16_t type, uint16_t rclass, uint32_t ttl,
              const uint8_t *rdata, size_t rdata_len);

/* Appends a name, compressed when allowed. For records built in parts. */
bool build_name(struct dns_builder *b, const uint8_t *name, size_t len, bool compress);

/* Writes the counts into the header and returns the message's length. */
size_t build_finish(struct dns_builder *b);

/* Expands the rdata of a record in a checked reply to its uncompressed form. out has
 * `size` octets; returns the length, SIZE_MAX when it does not fit. Types without names are copied. */
size_t rdata_expand(const struct dns_reply *r, const struct dns_rr *rr, uint8_t *out, size_t size);

/* An answer without records: header, question when q->qname is not NULL, OPT when q->has_opt. RCODE of 12
 * bits; flags RD and CD and the opcode copied, RA set. Returns the length (0: did not fit). opt_pos, when not NULL, gets
 * where OPT begins, 0 without OPT. */
size_t build_error(uint8_t *out, size_t size, const struct dns_query *q, uint16_t rcode,
                   size_t *opt_pos);

/* Cuts a message to at most limit octets at a boundary of RRsets (RFC 2181 9, RFC 6891 7): drops from
 * the end, whole RRsets only; sets TC unless only additional records were dropped. The message has no OPT
 * (it is added later), limit leaves room for it. Returns the new length. */
size_t message_truncate(uint8_t *msg, size_t len, size_t limit);

#endif
