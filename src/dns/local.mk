# src/dns: DNS wire format. Knows src/core only.
noinst_LIBRARIES += src/dns/libdns.a
src_dns_libdns_a_SOURCES = \
	src/dns/build.c src/dns/build.h \
	src/dns/ecs.c src/dns/ecs.h \
	src/dns/edns.c src/dns/edns.h \
	src/dns/message.c src/dns/message.h \
	src/dns/name.c src/dns/name.h \
	src/dns/rrtype.c src/dns/rrtype.h \
	src/dns/wire.h
