/* Options, environments and receipts: what needs no sandbox. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "core/env.h"
#include "core/wish.h"
#include "csn_test.h"

static int read_wish(csn_sandbox_options o, csn_wish *ret)
{
    csn_error err = { 0 };

    o.size = sizeof(o);
    int r = csn_wish_read(&o, ret, &err);
    CHECK((r < 0) == (err.message[0] != '\0'));
    return r;
}

TEST(zero_is_every_default)
{
    csn_auto(wish) csn_wish w = { .id_index = -1 };
    csn_error err = { 0 };

    CHECK_INT(csn_wish_read(NULL, &w, &err), CSN_OK);
    CHECK_STR(w.image, "host");
    CHECK_STR(w.user, "daytona");
    CHECK_INT(w.memory_bytes, INT64_C(1) << 30);
    CHECK_INT(w.cpu_milli, 1000);
    CHECK_INT(w.pids, 512);
    CHECK_INT(w.timeout_ms, 600000);
    CHECK_INT(w.id_index, -1);
}

TEST(files_in_memory_leave_half_of_it_to_programs)
{
    csn_auto(wish) csn_wish w = { .id_index = -1 };

    CHECK_INT(read_wish((csn_sandbox_options){ .is_ephemeral = 1, .memory_bytes = 100 }, &w), CSN_OK);
    CHECK_INT(w.disk_bytes, 50);
}

TEST(nonsense_is_refused)
{
    const csn_mount mounts[] = {
        { .volume = "../x", .path = "/a" },           { .volume = "v", .path = "relative" },
        { .volume = "v", .path = "/a/../b" },         { .volume = "v", .path = "/a", .subpath = "/abs" },
        { .volume = "v", .path = "/a", .subpath = "a/../../b" }, { .volume = "v", .path = "/" },
        { .volume = "v", .path = "/proc" },           { .volume = "v", .path = "/proc/sys" },
        { .volume = "v", .path = "/dev/shm" },        { .volume = "v", .path = "/sys" },
    };
    const char *const no_value[] = { "KEY", NULL }, *const no_key[] = { "=value", NULL };
    const csn_sandbox_options bad[] = {
        { .name = "-x" },
        { .name = "a/b" },
        { .name = "a b" },
        { .user = "bob" },
        { .cwd = "rel" },
        { .memory_bytes = -2 },
        { .ttl_ms = -1 },
        { .network = (csn_network) 7 },
        { .env = no_value },
        { .labels = no_key },
        { .n_mounts = 33, .mounts = mounts },
    };
    csn_wish w;

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_INT(read_wish(bad[i], &w), CSN_E_INVALID);
    for (size_t i = 0; i < CSN_COUNT(mounts); i++)
        CHECK_INT(read_wish((csn_sandbox_options){ .mounts = &mounts[i], .n_mounts = 1 }, &w),
                  CSN_E_INVALID);
}

TEST(options_of_other_builds_are_understood_or_refused)
{
    struct {
        csn_sandbox_options known;
        char unknown[16];
    } newer = { .known = { .size = sizeof(newer), .pids = 3 } };
    struct {
        size_t size;
        const char *name;
    } older = { sizeof(older), "old" };
    csn_wish w;
    csn_error err = { 0 };

    CHECK_INT(csn_wish_read(&newer.known, &w, &err), CSN_OK);
    CHECK_INT(w.pids, 3);
    csn_wish_done(&w);
    newer.unknown[15] = 1;
    CHECK_INT(csn_wish_read(&newer.known, &w, &err), CSN_E_INVALID);
    CHECK_INT(csn_wish_read((const csn_sandbox_options *) (const void *) &older, &w, &err), CSN_OK);
    CHECK_STR(w.name, "old");
    CHECK_INT(w.pids, 512);
    csn_wish_done(&w);
    older.size = 0;
    CHECK_INT(csn_wish_read((const csn_sandbox_options *) (const void *) &older, &w, &err),
              CSN_E_INVALID);
}

static const char *value_of(char **env, const char *key)
{
    size_t len = strlen(key);

    for (; *env; env++)
        if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

TEST(later_parts_of_an_environment_win)
{
    char *image[] = { (char *) (uintptr_t) "PATH=/image", (char *) (uintptr_t) "I=1", NULL };
    char *box[] = { (char *) (uintptr_t) "I=2", (char *) (uintptr_t) "PATHX=1", NULL };
    const char *const own[] = { "HOME=/own", NULL };
    csn_wish w = { .image_env = image, .env = box };
    char **env = csn_env_compose(&w, own, false, true);

    CHECK_STR(value_of(env, "PATH"), "/image");
    CHECK_STR(value_of(env, "PATHX"), "1");
    CHECK_STR(value_of(env, "I"), "2");
    CHECK_STR(value_of(env, "HOME"), "/own");
    CHECK_STR(value_of(env, "USER"), "daytona");
    CHECK_STR(value_of(env, "TERM"), "xterm-256color");
    free(env);
    env = csn_env_compose(&w, NULL, true, false);
    CHECK_STR(value_of(env, "HOME"), "/root");
    CHECK(value_of(env, "TERM") == NULL);
    free(env);
}

TEST(a_receipt_is_one_line_one_object_and_one_number)
{
    csn_receipt r = { .ended = CSN_ENDED_EXIT,
                      .exit_code = 3,
                      .wall_us = 12345,
                      .peak_memory_bytes = 3 << 20,
                      .n_processes = 1,
                      .walls = CSN_WALL_SECCOMP,
                      .rung = CSN_RUNG_CGROUP1,
                      .memory_limit_bytes = CSN_UNLIMITED };
    char text[2048], small[8], where[160];
    csn_json *doc = NULL;

    csn_receipt_text(&r, text, sizeof(text));
    CHECK_STR(text, "exit 3 · 12 ms · 3.0 MiB · 1 process · all walls · cgroup v1");
    CHECK(csn_receipt_text(&r, small, sizeof(small)) == strlen(text));
    CHECK_STR(small, "exit 3 ");
    CHECK(csn_receipt_text(&r, NULL, 0) == strlen(text));
    CHECK(csn_receipt_json(&r, text, sizeof(text)) < sizeof(text));
    CHECK(csn_json_parse(text, strlen(text), &doc, where) == 0);
    CHECK_STR(csn_json_get_str(doc, "ended", ""), "exit");
    CHECK_INT(csn_json_get_int(doc, "exit_code", -1), 3);
    csn_json_free(doc);
    CHECK_INT(csn_receipt_status(&r), 3);
    r.ended = CSN_ENDED_SIGNAL;
    r.signal = 9;
    CHECK_INT(csn_receipt_status(&r), 137);
    r.ended = CSN_ENDED_TIMEOUT;
    CHECK_INT(csn_receipt_status(&r), 124);
    r.ended = CSN_ENDED_LOST;
    CHECK_INT(csn_receipt_status(&r), 125);
    r.walls_missing = CSN_WALL_LANDLOCK | CSN_WALL_KEEPER;
    csn_receipt_text(&r, text, sizeof(text));
    CHECK(strstr(text, "lost") && strstr(text, "without landlock, keeper"));
}

TEST(a_network_that_cannot_be_had_is_told_with_its_remedy)
{
    csn_error err = { 0 };

    CHECK_INT(csn_network_check(CSN_NET_NONE, &err), CSN_OK);
    CHECK_INT(csn_network_check((csn_network) 7, &err), CSN_E_INVALID);
    if (access("/usr/bin/slirp4netns", X_OK) < 0 && access("/usr/local/bin/slirp4netns", X_OK) < 0) {
        CHECK_INT(csn_network_check(CSN_NET_OUTBOUND, &err), CSN_E_UNSUPPORTED);
        CHECK(strstr(err.message, "apt install slirp4netns"));
    } else if (access("/dev/net/tun", R_OK | W_OK) < 0) {
        CHECK_INT(csn_network_check(CSN_NET_OUTBOUND, &err), CSN_E_UNSUPPORTED);
        CHECK(strstr(err.message, "/dev/net/tun (sudo "));
    } else {
        CHECK_INT(csn_network_check(CSN_NET_OUTBOUND, &err), CSN_OK);
    }
}
