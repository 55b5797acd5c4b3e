/* activation.c - see activation.h. */
#include "activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "units.h"

enum {
    FIRST = 3, /* SD_LISTEN_FDS_START */
    PASSED_MAX = 64,
};

struct passed {
    int fd;
    int type; /* SOCK_STREAM, SOCK_DGRAM */
    struct addr address;
};

static struct passed list[PASSED_MAX];
static size_t n_list;

/* How many were passed to this process, not to its parent. */
static uint64_t count_passed(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint64_t owner, n;

    if (pid == NULL || fds == NULL || units_read_count(pid, INT32_MAX, &owner) != NULL ||
        owner != (uint64_t)getpid() || units_read_count(fds, PASSED_MAX, &n) != NULL)
        return 0;
    return n;
}

static bool describe(int fd, struct passed *out)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa), type_len = sizeof(out->type);

    out->fd = fd;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &out->type, &type_len) == 0 &&
           getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
           addr_from_sockaddr(&out->address, (const struct sockaddr *)&sa);
}

void activation_take(void)
{
    uint64_t n = count_passed();

    for (int fd = FIRST; fd < FIRST + (int)n; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (describe(fd, &list[n_list]))
            n_list++;
        else
            log_warning("socket activation: descriptor %d is no socket of IPv4 or IPv6", fd);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

static const struct passed *find(const struct addr *address, int type)
{
    for (size_t i = 0; i < n_list; i++) {
        if (list[i].type == type && list[i].address.port == address->port &&
            addr_ip_equal(&list[i].address, address))
            return &list[i];
    }
    return NULL;
}

bool activation_has(const struct addr *address, int type)
{
    return find(address, type) != NULL;
}

int activation_open(const struct addr *address, int type)
{
    const struct passed *p = find(address, type);

    if (p == NULL) {
        errno = ENOENT;
        return -1;
    }
    int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, FIRST);
    if (fd < 0)
        return -1;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static bool is_used(const struct passed *p, const struct config *c)
{
    for (size_t i = 0; i < c->n_listeners; i++) {
        const struct config_listener *l = &c->listeners[i];
        if (find(&l->address, p->type) == p &&
            (p->type == SOCK_STREAM || l->kind == LISTENER_DNS))
            return true;
    }
    return false;
}

void activation_check(const struct config *c)
{
    char text[ADDR_TEXT_SIZE];

    for (size_t i = 0; i < n_list; i++) {
        if (!is_used(&list[i], c))
            log_warning("socket activation: %s over %s is no listener of the configuration",
                        addr_format(&list[i].address, text),
                        list[i].type == SOCK_STREAM ? "TCP" : "UDP");
    }
}
