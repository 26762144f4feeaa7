/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"

#define MAX_MESSAGES 65536 /* of one dump */

int csn_netlink_open(csn_netlink *nl, int protocol)
{
    int r = csn_fault("netlink");

    if (r < 0)
        return r;
    nl->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    nl->sequence = 1;
    return nl->fd < 0 ? -errno : 0;
}

void csn_netlink_done(csn_netlink *nl)
{
    csn_close(&nl->fd);
}

int csn_netlink_put(struct nlmsghdr *request, size_t size, uint16_t type, const void *data,
                    size_t len)
{
    size_t at = NLMSG_ALIGN(request->nlmsg_len);
    struct nlattr attr = { (uint16_t) (NLA_HDRLEN + len), type };

    if (len > UINT16_MAX - NLA_HDRLEN || at + NLA_HDRLEN + NLA_ALIGN(len) > size)
        return -EMSGSIZE;
    memcpy((char *) request + at, &attr, sizeof(attr));
    memcpy((char *) request + at + NLA_HDRLEN, data, len);
    request->nlmsg_len = (uint32_t) (at + NLA_HDRLEN + NLA_ALIGN(len));
    return 0;
}

static int send_bytes(csn_netlink *nl, const void *bytes, size_t len)
{
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    ssize_t n = sendto(nl->fd, bytes, len, 0, (struct sockaddr *) &kernel, sizeof(kernel));

    return n < 0 ? -errno : 0;
}

static int send_request(csn_netlink *nl, struct nlmsghdr *request)
{
    request->nlmsg_seq = ++nl->sequence;
    return send_bytes(nl, request, request->nlmsg_len);
}

/* The kernel's error message: -errno, or 0 as acknowledgement. */
static int verdict(const struct nlmsghdr *m)
{
    int32_t error;

    if (m->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return -EPROTO;
    memcpy(&error, NLMSG_DATA(m), sizeof(error));
    return error;
}

/* Answers to `sequence` until the end: 0, -errno, or what `each` said. */
static int receive(csn_netlink *nl, int (*each)(const struct nlmsghdr *, void *), void *user)
{
    _Alignas(struct nlmsghdr) char data[32768];

    for (int n = 0; n < MAX_MESSAGES;) {
        ssize_t got = recv(nl->fd, data, sizeof(data), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EPIPE;
        size_t left = (size_t) got;
        for (struct nlmsghdr *m = (void *) data; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left), n++) {
            if (m->nlmsg_seq != nl->sequence)
                continue;
            if (m->nlmsg_type == NLMSG_DONE)
                return 0;
            if (m->nlmsg_type == NLMSG_ERROR)
                return verdict(m);
            int r = each ? each(m, user) : 0;
            if (r != 0)
                return r;
        }
    }
    return -E2BIG;
}

int csn_netlink_do(csn_netlink *nl, struct nlmsghdr *request)
{
    request->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    int r = send_request(nl, request);

    return r < 0 ? r : receive(nl, NULL, NULL);
}

int csn_netlink_batch(csn_netlink *nl, void *messages, size_t len)
{
    size_t left = len;

    nl->sequence++;
    for (struct nlmsghdr *m = messages; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left))
        m->nlmsg_seq = nl->sequence;
    int r = send_bytes(nl, messages, len);
    return r < 0 ? r : receive(nl, NULL, NULL);
}

int csn_netlink_dump(csn_netlink *nl, struct nlmsghdr *request,
                     int (*each)(const struct nlmsghdr *message, void *user), void *user)
{
    request->nlmsg_flags |= NLM_F_REQUEST | NLM_F_DUMP;
    int r = send_request(nl, request);

    return r < 0 ? r : receive(nl, each, user);
}
