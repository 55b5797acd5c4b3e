/* upstream_getdns.c - how a getdns context is set up. See upstream_getdns.h. */
#include "upstream_getdns.h"

#include <stdio.h>
#include <string.h>

static getdns_dict *pin_dict(const uint8_t pin[32])
{
    getdns_bindata digest = {6, (uint8_t *)(uintptr_t) "sha256"};
    getdns_bindata value = {32, (uint8_t *)(uintptr_t)pin};
    getdns_dict *d = getdns_dict_create();
    if (d && !getdns_dict_set_bindata(d, "digest", &digest) &&
        !getdns_dict_set_bindata(d, "value", &value))
        return d;
    getdns_dict_destroy(d);
    return NULL;
}

static bool set_pins(getdns_dict *d, const struct upstream_target *t)
{
    getdns_list *list = getdns_list_create();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < t->n_pins; i++) {
        getdns_dict *pin = pin_dict(t->pins[i]);
        ok = pin && !getdns_list_set_dict(list, i, pin);
        getdns_dict_destroy(pin);
    }
    ok = ok && !getdns_dict_set_list(d, "tls_pubkey_pinset", list);
    getdns_list_destroy(list);
    return ok;
}

static bool set_text(getdns_dict *d, const char *key, const char *text)
{
    getdns_bindata b = {strlen(text), (uint8_t *)(uintptr_t)text};
    return getdns_dict_set_bindata(d, key, &b) == GETDNS_RETURN_GOOD;
}

/* The upstream as getdns wants it, in a list of one. */
static getdns_list *upstream_list(const struct upstream_target *t)
{
    getdns_bindata address = {addr_ip_len(t->addr.family), (uint8_t *)(uintptr_t)t->addr.ip};
    getdns_list *list = getdns_list_create();
    getdns_dict *d = getdns_dict_create();
    char scope[16];
    snprintf(scope, sizeof scope, "%u", (unsigned)t->addr.scope_id);
    bool ok = list && d && !getdns_dict_set_bindata(d, "address_data", &address) &&
              !getdns_dict_set_int(d, "port", t->addr.port) &&
              !getdns_dict_set_int(d, "tls_port", t->addr.port);
    if (t->addr.scope_id)
        ok = ok && set_text(d, "scope_id", scope);
    if (t->transport == UPSTREAM_TLS && t->tls_name)
        ok = ok && set_text(d, "tls_auth_name", t->tls_name);
    if (t->transport == UPSTREAM_TLS && t->n_pins)
        ok = ok && set_pins(d, t);
    ok = ok && !getdns_list_set_dict(list, 0, d);
    getdns_dict_destroy(d);
    if (ok)
        return list;
    getdns_list_destroy(list);
    return NULL;
}

bool upstream_getdns_set_upstream(getdns_context *c, const struct upstream_target *t)
{
    getdns_list *list = upstream_list(t);
    bool ok = list && !getdns_context_set_upstream_recursive_servers(c, list);
    getdns_list_destroy(list);
    return ok;
}

bool upstream_getdns_set_up(getdns_context *c, const struct upstream_target *t,
                            getdns_eventloop *loop, getdns_logfunc_type log, void *log_arg)
{
    static const getdns_transport_list_t transports[] = {
        [UPSTREAM_UDP] = GETDNS_TRANSPORT_UDP,
        [UPSTREAM_TCP] = GETDNS_TRANSPORT_TCP,
        [UPSTREAM_TLS] = GETDNS_TRANSPORT_TLS,
    };
    getdns_namespace_t dns = GETDNS_NAMESPACE_DNS;
    getdns_transport_list_t transport = transports[t->transport];
    return !getdns_context_set_resolution_type(c, GETDNS_RESOLUTION_STUB) &&
           !getdns_context_set_namespaces(c, 1, &dns) &&
           !getdns_context_set_append_name(c, GETDNS_APPEND_NAME_NEVER) &&
           !getdns_context_set_dns_transport_list(c, 1, &transport) &&
           !getdns_context_set_edns_maximum_udp_payload_size(c, DNS_UDP_SIZE) &&
           !getdns_context_set_timeout(c, GETDNS_TIMEOUT_MS) &&
           !getdns_context_set_logfunc(c, log_arg, GETDNS_LOG_UPSTREAM_STATS, GETDNS_LOG_ERR,
                                       log) &&
           upstream_getdns_set_upstream(c, t) &&
           !getdns_context_set_idle_timeout(c, GETDNS_IDLE_MS) &&
           (t->transport != UPSTREAM_TLS ||
            (!getdns_context_set_tls_authentication(c, GETDNS_AUTHENTICATION_REQUIRED) &&
             (!t->ca || !getdns_context_set_tls_ca_file(c, t->ca)))) &&
           !getdns_context_set_eventloop(c, loop);
}

getdns_dict *upstream_getdns_extensions(enum upstream_extensions kind)
{
    static uint8_t none[4];
    getdns_bindata data = {sizeof none, none};
    getdns_dict *d = getdns_dict_create();
    if (!d)
        return NULL;
    getdns_return_t r = getdns_dict_set_int(d, "/header/rd", 1);
    r |= getdns_dict_set_int(d, "/header/ad", 1);
    r |= getdns_dict_set_int(d, "/header/cd", 0);
    r |= getdns_dict_set_int(d, "/add_opt_parameters/do_bit", 0);
    if (kind == EXTENSIONS_PLAIN) /* the size that stands for no OPT */
        r |= getdns_dict_set_int(d, "/add_opt_parameters/maximum_udp_payload_size",
                                 DNS_UDP_CLASSIC);
    if (kind == EXTENSIONS_SUBNET) {
        r |=
            getdns_dict_set_int(d, "/add_opt_parameters/options/0/option_code", DNS_OPTION_ECS);
        r |= getdns_dict_set_bindata(d, "/add_opt_parameters/options/0/option_data", &data);
    }
    if (r == GETDNS_RETURN_GOOD)
        return d;
    getdns_dict_destroy(d);
    return NULL;
}
