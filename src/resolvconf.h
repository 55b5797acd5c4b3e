/* resolvconf.h - the nameservers of resolv.conf(5). */
#ifndef PITH_RESOLVCONF_H
#define PITH_RESOLVCONF_H

#include <stddef.h>

#include "core/addr.h"

/* Up to max nameservers in the order of the file, port 53, each once; 0 when there is none or
 * no such file. systemd-resolved's stub (127.0.0.53), which may well ask us, is replaced by the
 * servers of resolved_path where that file has any. */
size_t resolvconf_read(const char *path, const char *resolved_path, struct addr *out,
                       size_t max);

#endif
