/* fuzz_namecode.c - the coder of names is one-to-one on names without case.
 *
 * An input is read twice: as two names one after the other, and as a code. */
#include <string.h>

#include "cache/key.h"
#include "dns/name.h"
#include "fuzz.h"

struct code {
    _Alignas(8) uint8_t octets[NAMECODE_SPACE];
    size_t len;
};

static void encode(struct code *c, const uint8_t *name, size_t len)
{
    memset(c->octets, 0xa5, sizeof c->octets);
    c->len = cache_namecode_encode(c->octets, name, len);
    if (c->len == SIZE_MAX)
        return;
    CHECK(c->len <= NAMECODE_MAX);
}

/* A name in any case, and the entry of it in a page, have one key and one hash. */
static void check_key(const uint8_t *name, const uint8_t *lower, size_t len)
{
    static struct cache_hash hash;
    static struct cache_name a, b, c;
    if (hash.word[0] == 0)
        cache_hash_init(&hash, &(struct hash_key){1, 2});
    CHECK(cache_key_from_name(&a, &hash, name, len));
    CHECK(cache_key_from_name(&b, &hash, lower, len));
    CHECK(cache_key_from_entry(&c, &hash, a.kind, a.key, a.key_len));
    CHECK(a.hash == b.hash && a.hash == c.hash && a.kind == b.kind && a.kind == c.kind);
    CHECK(a.key_len == b.key_len && a.key_len == c.key_len);
    CHECK(memcmp(a.key, b.key, a.key_len) == 0 && memcmp(a.key, c.key, a.key_len) == 0);
}

static void check_name(const uint8_t *name, size_t len, struct code *c)
{
    uint8_t lower[DNS_NAME_MAX], back[DNS_NAME_MAX];
    struct code again;
    encode(c, name, len);
    CHECK(c->len != SIZE_MAX && c->len <= len && (c->len == 0) == (len == 1));
    name_lower(lower, name, len);
    CHECK(cache_namecode_decode(back, c->octets, c->len) == len);
    CHECK(memcmp(back, lower, len) == 0);
    check_key(name, lower, len);
    encode(&again, lower, len);
    CHECK(again.len == c->len && memcmp(again.octets, c->octets, c->len) == 0);
}

/* Whatever decodes is the code of what it decodes to. */
static void check_code(const uint8_t *data, size_t size)
{
    uint8_t name[DNS_NAME_MAX];
    struct code c;
    size_t len = cache_namecode_decode(name, data, size);
    if (len == 0)
        return;
    CHECK(name_wire_len(name, len) == len);
    encode(&c, name, len);
    CHECK(c.len == size && memcmp(c.octets, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2 * DNS_NAME_MAX)
        return 0;
    check_code(data, size);

    size_t a_len = name_wire_len(data, size);
    if (a_len == 0) {
        struct code c;
        encode(&c, data, size);
        CHECK(c.len == SIZE_MAX);
        return 0;
    }
    struct code a, b;
    check_name(data, a_len, &a);
    size_t b_len = name_wire_len(data + a_len, size - a_len);
    if (b_len > 0) {
        const uint8_t *other = data + a_len;
        check_name(other, b_len, &b);
        bool equal_codes = a.len == b.len && memcmp(a.octets, b.octets, a.len) == 0;
        CHECK(equal_codes == name_equal(data, a_len, other, b_len));
    }
    return 0;
}
