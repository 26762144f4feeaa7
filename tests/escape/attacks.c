/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

struct canary canary;

static const struct attack *const groups[] = {
    attacks_calls, attacks_nesting, attacks_sockets,  attacks_terminal, attacks_proc, attacks_dev,
    attacks_root,  attacks_init,    attacks_identity, attacks_limits,   attacks_abi,  attacks_reach,
};

long call(long number, long a, long b, long c, long d, long e, long f)
{
    return syscall(number, a, b, c, d, e, f);
}

enum verdict refused(long result)
{
    if (result != -1)
        return BREACH;
    switch (errno) {
    case EPERM:
    case ENOSYS:
    case EACCES:
    case EAFNOSUPPORT:
        return CONTAINED;
    default:
        printf("reached the kernel: %s\n", strerror(errno));
        return BREACH;
    }
}

int read_text(const char *path, char *buf, int size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, buf, (size_t) size - 1);
    int saved = errno;
    close(fd);
    if (n < 0)
        return -saved;
    buf[n] = '\0';
    return (int) n;
}

static void take_canary(const char *word)
{
    static const struct {
        const char *key;
        long *number;
    } numbers[] = {
        { "net=", &canary.host_net },   { "ipc=", &canary.host_ipc },
        { "uts=", &canary.host_uts },   { "pid=", &canary.host_pid },
        { "mnt=", &canary.host_mnt },   { "user=", &canary.host_user },
        { "time=", &canary.host_time }, { "cgroup=", &canary.host_cgroup },
        { "shm=", &canary.shm_key },
    };

    if (strncmp(word, "file=", 5) == 0)
        canary.host_file = word + 5;
    else if (strncmp(word, "text=", 5) == 0)
        canary.host_text = word + 5;
    else if (strncmp(word, "socket=", 7) == 0)
        canary.host_socket = word + 7;
    else if (strncmp(word, "abstract=", 9) == 0)
        canary.abstract = word + 9;
    else if (strncmp(word, "port=", 5) == 0)
        canary.tcp_port = (int) strtol(word + 5, NULL, 10);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strncmp(word, numbers[i].key, strlen(numbers[i].key)) == 0)
            *numbers[i].number = strtol(word + strlen(numbers[i].key), NULL, 10);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 3; i < argc; i++)
        take_canary(argv[i]);
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        for (const struct attack *a = groups[g]; a->name; a++) {
            if (argc == 2 && strcmp(argv[1], "list") == 0)
                printf("%s\t%s\t%u\t%u\t%s\n", a->name, a->requirement, a->walls, a->needs,
                       a->host ? a->host : "-");
            else if (argc >= 3 && strcmp(argv[1], "run") == 0 && strcmp(argv[2], a->name) == 0)
                return (int) a->run(a);
        }
    }
    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return 0;
    fprintf(stderr, "usage: attacks list | attacks run NAME [key=value]...\n");
    return 2;
}
