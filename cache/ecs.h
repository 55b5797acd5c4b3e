/* ecs.h - answers for subnets (RFC 7871 7.3). */
#ifndef PITH_CACHE_ECS_H
#define PITH_CACHE_ECS_H

#include <stddef.h>

/* Body of a SUBNETS record: | generation, 32 | count times: kind, prefix length | */
static inline size_t cache_ecs_head_len(unsigned count)
{
    return 4 + 2 * (size_t)count;
}

#endif
