# cache: the compact answer cache. Knows src/core and src/dns only.
noinst_LIBRARIES += cache/libcache.a
cache_libcache_a_SOURCES = \
	cache/answer.c cache/answer.h \
	cache/arena.c cache/arena.h \
	cache/cache.c cache/cache.h \
	cache/check.c cache/check.h \
	cache/clock.c cache/clock.h \
	cache/crc.c cache/crc.h \
	cache/ecs.c cache/ecs.h \
	cache/encode.c cache/encode.h \
	cache/entry.c cache/entry.h \
	cache/flush.c \
	cache/hint.h \
	cache/internal.h \
	cache/key.c cache/key.h \
	cache/large.c cache/large.h \
	cache/namecode.c cache/namecode.h \
	cache/octets.h \
	cache/page.c cache/page.h \
	cache/put.c \
	cache/racy.h \
	cache/record.c cache/record.h \
	cache/refresh.c cache/refresh.h \
	cache/resize.c cache/resize.h \
	cache/restore.c \
	cache/room.c cache/room.h \
	cache/save.c \
	cache/snapshot.h \
	cache/stats.c cache/stats.h \
	cache/store.c cache/store.h \
	cache/walk.c
