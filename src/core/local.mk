# src/core: the leaf. libc only.
noinst_LIBRARIES += src/core/libcore.a
src_core_libcore_a_SOURCES = \
	src/core/addr.c src/core/addr.h \
	src/core/buf.c src/core/buf.h \
	src/core/clock.c src/core/clock.h \
	src/core/err.h \
	src/core/hash.c src/core/hash.h \
	src/core/log.c src/core/log.h \
	src/core/metrics.c src/core/metrics.h \
	src/core/query.h \
	src/core/stream.h
