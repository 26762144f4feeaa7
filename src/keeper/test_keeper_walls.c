/* SPDX-License-Identifier: Apache-2.0 */
/* Walls, layers, copies, disks and the network, over the wire. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "csn_test.h"
#include "drive.h"
#include "owner.h"
#include "wire/spec.h"

TEST(walls_stand)
{
    static box b;
    char out[8192];

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    CHECK_INT(b.ready.walls_missing, 0);
    run(&b, "grep -E '^(Cap|NoNew|Seccomp:|Uid|Groups)' /proc/self/status; id -u; hostname", out,
        sizeof(out));
    CHECK(strstr(out, "CapBnd:\t0000000000000000"));
    CHECK(strstr(out, "CapEff:\t0000000000000000"));
    CHECK(strstr(out, "NoNewPrivs:\t1"));
    CHECK(strstr(out, "Seccomp:\t2"));
    CHECK(strstr(out, "Uid:\t1000\t1000\t1000\t1000"));
    CHECK(strstr(out, "1000\ncaisson\n"));
    run(&b, "cat /proc/self/mountinfo", out, sizeof(out));
    CHECK(!strstr(out, b.state));
    CHECK(!strstr(out, "caisson-"));
    run(&b, "cat /proc/self/cgroup", out, sizeof(out));
    CHECK(!strstr(out, b.id));
    CHECK(run(&b, "unshare -U true 2>/dev/null", NULL, 0).exit_code != 0);
    CHECK(run(&b, "echo 1 > /proc/sys/kernel/panic 2>/dev/null", NULL, 0).exit_code != 0);
    CHECK(run(&b, "touch /usr/x /etc/x /x 2>/dev/null", NULL, 0).exit_code != 0);
    CHECK_INT(run(&b, "touch /tmp/x /home/daytona/x /dev/shm/x", NULL, 0).exit_code, 0);
    CHECK_INT(run(&b, "echo x > /dev/null && head -c 8 /dev/urandom >/dev/zero", NULL, 0).exit_code,
              0);
    run(&b, "ls /proc | grep -c '^[0-9]'; ls -A /sys /proc/acpi 2>/dev/null; cat /proc/keys", out,
        sizeof(out));
}

TEST(the_keeper_confines_itself)
{
    static box b;
    char path[64], text[4096] = "";

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    snprintf(path, sizeof(path), "/proc/%d/status", b.ready.keeper_pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(csn_read_all(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    CHECK(strstr(text, "CapEff:\t0000000000000000"));
    CHECK(strstr(text, "CapPrm:\t0000000000000000"));
    CHECK(strstr(text, "NoNewPrivs:\t1"));
    CHECK(strstr(text, "Seccomp:\t2"));
    snprintf(path, sizeof(path), "/proc/%d/environ", b.ready.keeper_pid);
    if (geteuid() != 0) /* nobody without privilege looks into it */
        CHECK(open(path, O_RDONLY | O_CLOEXEC) < 0);
}

static bool has_subordinate_ids(void)
{
    char line[128], want[32];
    bool found = false;
    FILE *f = fopen("/etc/subuid", "re");

    snprintf(want, sizeof(want), "%u:", (unsigned) geteuid());
    while (f && !found && fgets(line, sizeof(line), f))
        found = strncmp(line, want, strlen(want)) == 0;
    if (f)
        fclose(f);
    return found;
}

TEST(root_inside_is_root_inside)
{
    static box b;
    char out[1024];

    if (!is_machines_root() && !has_subordinate_ids())
        SKIP("user: needs a range of ids in /etc/subuid and /etc/subgid");
    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL | CSN_PLAN_ROOT_INSIDE);
    csn_spawn spawn = { .flags = CSN_SPAWN_ROOT, .fds = CSN_FD_STDOUT, .output_bytes = -1 };
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    spawn_with(
        &b,
        "id -u; touch /etc/x /usr/x && chown 5 /etc/x && stat -c %u /etc/x; grep CapBnd /proc/self/status",
        spawn, &ends[1], 1);
    close(ends[1]);
    started(&b);
    CHECK_INT(exited(&b).exit_code, 0);
    ssize_t n = csn_read_all(ends[0], out, sizeof(out) - 1);
    out[n > 0 ? n : 0] = '\0';
    CHECK_STR(out, "0\n5\nCapBnd:\t00000000000004fb\n");
    close(ends[0]);
}

/* --- layers and copies ---------------------------------------------------------------------------------------------------- */

static void run_mode(box *b, uint32_t mode, const char *target, const int *fds, size_t n_fds)
{
    static box other;
    static char bytes[CSN_FRAME_MAX];
    csn_pack p = { .data = bytes, .cap = sizeof(bytes) };

    memset(&other, 0, sizeof(other));
    other.msg = (csn_msg) CSN_MSG_INIT;
    other.plan = b->plan;
    other.plan.mode = mode;
    other.plan.target = target;
    start_keeper(&other);
    csn_plan_pack(&p, &other.plan);
    ask(&other, CSN_FRAME_PLAN, NULL, 0, bytes, p.len, fds, n_fds);
    expect(&other, CSN_FRAME_READY);
    CHECK_INT(hear(&other), 0);
    close(other.fd);
    waitpid(other.keeper, NULL, 0);
}

TEST(a_running_sandbox_can_be_copied_into_a_layer)
{
    static box b, c;
    char out[512];
    int fds[2];

    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    CHECK_INT(
        run(&b,
            "cd /home/daytona && mkdir -p a/b && echo text > a/b/f && ln a/b/f hard && ln -s a/b/f soft && "
            "truncate -s 10M holes && echo end >> holes && rm -r /var/run /run/x 2>/dev/null; chmod 700 a; "
            "touch -d @1000000 a/b/f",
            NULL, 0)
            .exit_code,
        0);
    ask(&b, CSN_FRAME_LEND, NULL, 0, NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_DONE);
    CHECK_INT(b.msg.n_fds, 2);
    fds[0] = csn_msg_take_fd(&b.msg, 0);
    fds[1] = csn_msg_take_fd(&b.msg, 1);
    run_mode(&b, CSN_PLAN_COPY, "one", fds, 2);
    close(fds[0]);
    close(fds[1]);
    ask(&b, CSN_FRAME_THAW, NULL, 0, NULL, 0, NULL, 0);
    expect(&b, CSN_FRAME_DONE);
    CHECK_INT(run(&b, "true", NULL, 0).exit_code, 0);
    stop_box(&b, -1, true);
    new_box(&c, b.state, CSN_PLAN_EPHEMERAL);
    c.plan.n_layers = 2; /* the last one is the base */
    c.plan.layers[0] = "one";
    c.plan.layers[1] = "base";
    make_dir(c.state, "layers/base");
    make_base(c.state, "layers/base/root");
    if (c.plan.id_base)
        c.plan.id_base += 65536000; /* another range: owners on disk don't depend on it */
    start_keeper(&c);
    send_plan(&c);
    expect(&c, CSN_FRAME_READY);
    run(&c, "cd /home/daytona; cat soft; stat -c %h:%Y:%u hard; stat -c %s holes; stat -c %a a",
        out, sizeof(out));
    CHECK_STR(out, "text\n2:1000000:1000\n10485764\n700\n");
    stop_box(&c, -1, true);
    run_mode(&b, CSN_PLAN_REMOVE, "layers/one", NULL, 0);
    CHECK(!state_has(b.state, "layers/one"));
}

TEST(a_frozen_sandbox_thaws_when_its_copier_goes)
{
    static box b, copier;
    csn_spawn spawn = { .flags = CSN_SPAWN_BACKGROUND, .output_bytes = -1 };
    csn_wire_error e;

    start_box(&b, make_state(), CSN_PLAN_DETACHED);
    spawn_with(&b, "i=0; while [ $i -lt 5 ]; do sleep 0.1; i=$((i+1)); done; echo done", spawn,
               NULL, 0);
    uint32_t n = started(&b);
    copier = b;
    copier.msg = (csn_msg) CSN_MSG_INIT;
    connect_box(&copier);
    ask(&copier, CSN_FRAME_LEND, NULL, 0, NULL, 0, NULL, 0);
    expect(&copier, CSN_FRAME_DONE);
    CHECK_INT(copier.msg.n_fds, 2);
    spawn_with(&b, "true", spawn, NULL, 0);
    expect(&b, CSN_FRAME_ERROR);
    csn_msg_fixed(&b.msg, &e, sizeof(e));
    CHECK_INT(e.code, CSN_E_BUSY);
    csn_msg_done(&copier.msg);
    close(copier.fd);
    csn_process_state s = exited(&b);
    CHECK_INT(s.process, n);
    CHECK_INT(s.ended, CSN_ENDED_EXIT);
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST_TIMEOUT(deep_trees_go, 180)
{
    static box b;
    char out[64];

    start_box(&b, make_state(), 0);
    run(&b,
        "python3 -c 'import os\nos.chdir(\"/home/daytona\")\nfor i in range(3000):\n os.mkdir(\"d\"); os.chdir(\"d\"); "
        "open(\"f\", \"w\")\nprint(i + 1)'",
        out, sizeof(out));
    CHECK_STR(out, "3000\n");
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST(volumes_are_shared_and_bounded_to_their_place)
{
    static box b, c;
    char out[64], path[300];

    new_box(&b, make_state(), CSN_PLAN_EPHEMERAL);
    make_dir(b.state, "volumes/v");
    make_dir(b.state, "volumes/v/data");
    snprintf(path, sizeof(path), "%s/volumes/v/data", b.state);
    if (geteuid() == 0)
        CHECK(chown(path, owner_for(1000), group_for(1000)) == 0);
    b.plan.n_mounts = 1;
    b.plan.mounts[0] = (csn_plan_mount){ "v", "/data", "sub/dir", 0 };
    start_keeper(&b);
    csn_test_defer(end_quietly, &b);
    send_plan(&b);
    expect(&b, CSN_FRAME_READY);
    CHECK_INT(run(&b, "echo shared > /data/f", NULL, 0).exit_code, 0);
    new_box(&c, b.state, CSN_PLAN_EPHEMERAL);
    c.plan.n_mounts = 1;
    c.plan.mounts[0] = (csn_plan_mount){ "v", "/mnt/data", "", 1 };
    if (c.plan.id_base)
        c.plan.id_base += 65536000;
    start_keeper(&c);
    csn_test_defer(end_quietly, &c);
    send_plan(&c);
    expect(&c, CSN_FRAME_READY);
    run(&c, "cat /mnt/data/sub/dir/f; touch /mnt/data/x 2>/dev/null || echo refused", out,
        sizeof(out));
    CHECK_STR(out, "shared\nrefused\n");
}

TEST(a_strict_disk_is_full_when_it_is_full)
{
    static box b;
    char out[64];

    new_box(&b, make_state(), 0);
    b.plan.strict = CSN_LIMIT_DISK;
    b.plan.disk_bytes = 32 << 20;
    start_keeper(&b);
    csn_test_defer(end_quietly, &b);
    send_plan(&b);
    if (!is_machines_root()) {
        csn_wire_error e;
        expect(&b, CSN_FRAME_ERROR);
        csn_msg_fixed(&b.msg, &e, sizeof(e));
        CHECK_INT(e.code, CSN_E_UNSUPPORTED);
        return;
    }
    expect(&b, CSN_FRAME_READY);
    csn_msg_fixed(&b.msg, &b.ready, sizeof(b.ready));
    CHECK_INT(b.ready.disk_rung, CSN_DISK_LOOP);
    CHECK(b.ready.limits_kernel & CSN_LIMIT_DISK);
    CHECK_INT(run(&b, "head -c 100000000 /dev/zero > /home/daytona/big", NULL, 0).ended,
              CSN_ENDED_DISK_FULL);
    CHECK_INT(run(&b, "rm /home/daytona/big; echo kept > /home/daytona/f", NULL, 0).exit_code, 0);
    /* what has no name any more still takes room */
    run(&b,
        "cd /home/daytona; for i in 3 4 5; do eval \"exec $i>f$i\"; rm f$i;"
        " head -c 15000000 /dev/zero >&$i 2>/dev/null || { echo full; break; }; done",
        out, sizeof(out));
    CHECK_STR(out, "full\n");
    stop_box(&b, -1, false);
    close(b.fd);
    start_keeper(&b);
    send_plan(&b);
    expect(&b, CSN_FRAME_READY);
    run(&b, "cat /home/daytona/f", out, sizeof(out));
    CHECK_STR(out, "kept\n");
    stop_box(&b, -1, true);
    check_gone(&b);
}

TEST(a_watched_disk_ends_what_overfills_it)
{
    static box b;

    start_box(&b, make_state(), 0);
    CHECK_INT(run(&b, "head -c 200000000 /dev/zero > /home/daytona/big; sleep 20", NULL, 0).ended,
              CSN_ENDED_DISK_FULL);
    CHECK_INT(run(&b, "rm /home/daytona/big; sleep 1", NULL, 0).ended, CSN_ENDED_EXIT);
    CHECK_INT(
        run(&b,
            "mkdir -m 700 /home/daytona/closed; cd /home/daytona/closed; for i in 1 2 3 4; do "
            "head -c 30000000 /dev/zero > $i; done; chmod 000 .; sleep 20",
            NULL, 0)
            .ended,
        CSN_ENDED_DISK_FULL);
}

TEST(an_outbound_sandbox_has_a_link_and_no_private_neighbours)
{
    static box b;
    char out[1024];

    if (access("/usr/bin/slirp4netns", X_OK) < 0)
        SKIP("slirp4netns is not installed");
    if (access("/dev/net/tun", R_OK | W_OK) < 0)
        SKIP("user: no access to /dev/net/tun");
    start_box(&b, make_state(), CSN_PLAN_EPHEMERAL | CSN_PLAN_OUTBOUND);
    run(&b, "cat /proc/net/dev /etc/resolv.conf", out, sizeof(out));
    CHECK(strstr(out, "tap0"));
    CHECK(strstr(out, "nameserver 198.18.0.3"));
    run(&b,
        "for a in 10.0.0.1 192.168.1.1 169.254.169.254 100.64.0.1; do python3 -c \"import socket,sys\n"
        "s=socket.socket()\ns.settimeout(2)\nprint(s.connect_ex((sys.argv[1],80)))\" $a; done",
        out, sizeof(out));
    csn_str rest = csn_str_of(out), line;
    while (csn_str_split(&rest, '\n', &line)) {
        int64_t e = 0;
        if (line.len == 0)
            continue;
        CHECK_INT(csn_parse_i64(line, &e), 0);
        CHECK(e == EHOSTUNREACH || e == ENETUNREACH || e == EACCES);
    }
    stop_box(&b, -1, true);
    check_gone(&b);
}
