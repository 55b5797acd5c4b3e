/* udp.h - the plain DNS front end over UDP, in batches (recvmmsg, sendmmsg), one worker.
 *
 * Answers leave from the address that was asked (IP_PKTINFO), unfragmented (RFC 9715).
 * Owner and thread: the worker. */
#ifndef PITH_UDP_H
#define PITH_UDP_H

#include <ev.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/query.h"

struct udp_listener;

/* Takes fd, a bound non-blocking datagram socket. NULL when memory is out. */
struct udp_listener *udp_open(struct ev_loop *loop, int fd, struct query_handler *handler);
/* Reads what has come, then no more; answers in flight still go out. */
void udp_drain(struct udp_listener *u);
size_t udp_in_flight(const struct udp_listener *u);
/* Cancels what is in flight and frees. */
void udp_close(struct udp_listener *u);

#endif
