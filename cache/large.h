/* large.h - answers that do not fit an entry. */
#ifndef PITH_CACHE_LARGE_H
#define PITH_CACHE_LARGE_H

/* Body of a LARGE record: | page, 32 | unit, 16 | length, 16 | stamp, 32 | */
enum { LARGE_STUB = 12 };

#endif
