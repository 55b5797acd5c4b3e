/* json.h - application/dns-json, the way Google's and Cloudflare's clients ask and expect it.
 *
 *      GET /resolve?name=example.com&type=AAAA&do=1
 *      {"Status":0,"TC":false,"RD":true,"RA":true,"AD":false,"CD":false,
 *       "Question":[{"name":"example.com.","type":28}],
 *       "Answer":[{"name":"example.com.","type":28,"TTL":300,"data":"2001:db8::1"}]}
 *
 * Not on the hit path: memory is allocated freely. Only home of jansson and ldns. */
#ifndef PITH_HTTP_JSON_H
#define PITH_HTTP_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Octets of any query that json_query() writes. */
enum { JSON_QUERY_MAX = 12 + 255 + 4 + 11 + 4 + 20 };

/* The query that a query string asks: name (RFC 1035 presentation form), type (mnemonic or
 * number; A), do, cd (1 or true), edns_client_subnet (ADDRESS[/PREFIX]); others are ignored. ID
 * 0, RD set, with OPT. out has JSON_QUERY_MAX octets. Returns its length, 0 with *why (one
 * line, constant) when a parameter is malformed. */
size_t json_query(uint8_t *out, const char *parameters, size_t len, const char **why);

/* A DNS answer as JSON text of *text_len octets, to be freed with free(). NULL when memory is
 * out or the message is malformed. */
char *json_answer(const uint8_t *msg, size_t len, size_t *text_len);

#endif
