# contrib: example configuration, systemd units and what goes beside them.
exampledir = $(docdir)/examples
dist_example_DATA = contrib/pith.yaml contrib/pithd-keys.conf contrib/pithd.socket
# What takes more than the README says.
dist_doc_DATA = \
	doc/browsers-and-phones.md \
	doc/certificates.md \
	doc/docker.md \
	doc/systemd-resolved.md
EXTRA_DIST += contrib/pithd.service.in
if SYSTEMD_UNIT
systemdsystemunit_DATA = contrib/pithd.service
CLEANFILES += contrib/pithd.service
contrib/pithd.service: $(top_srcdir)/contrib/pithd.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) contrib && \
	$(SED) 's|@sbindir[@]|$(sbindir)|g' $(top_srcdir)/contrib/pithd.service.in >$@.new && \
	mv $@.new $@
endif
