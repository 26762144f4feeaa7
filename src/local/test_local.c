/* Records, claims and sweeps on a state directory of the test's own; no keeper is started. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "csn_test.h"
#include "local/local.h"
#include "local/open.h"

static csn_loop *loop;
static csn_backend *backend;

static void close_all(void *user)
{
    (void) user;
    if (backend)
        backend = backend->ops->free(backend);
    loop = csn_loop_free(loop);
}

/* A directory with a file named like the keeper is all that opening asks for. */
static csn_local *a_local(void)
{
    const char *dir = csn_test_dir();
    csn_error err = { 0 };
    char keeper[512];

    (void) snprintf(keeper, sizeof(keeper), "%s/caisson-keeper", dir);
    int fd = open(keeper, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    CHECK(fd >= 0);
    close(fd);
    (void) snprintf(keeper, sizeof(keeper), "%s/state", dir);
    CHECK(csn_loop_new(&loop) == 0);
    csn_engine_options o = { .size = sizeof(o), .state_dir = keeper, .libexec_dir = dir };
    if (csn_local_open(loop, &o, &backend, &err) < 0)
        FAIL("%s", err.message);
    csn_test_defer(close_all, NULL);
    return csn_container_of(backend, csn_local, base);
}

TEST(a_keeper_out_of_reach_is_not_called_missing)
{
    const char *dir = csn_test_dir();
    csn_error err = { 0 };
    char keeper[512], *found = NULL;

    CHECK_INT(csn_state_find_libexec(dir, &found, &err), CSN_E_UNSUPPORTED);
    CHECK(strstr(err.message, "no caisson-keeper in") && strstr(err.message, "install it"));
    (void) snprintf(keeper, sizeof(keeper), "%s/caisson-keeper", dir);
    /* root, too, needs one who may execute it */
    int fd = open(keeper, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK_INT(csn_state_find_libexec(dir, &found, &err), CSN_E_UNSUPPORTED);
    CHECK(strstr(err.message, "Permission denied") && !strstr(err.message, "no caisson-keeper"));
}

/* An empty box; its id in `id`, its directory locked. */
static int a_box(csn_local *local, char id[CSN_ID_SIZE])
{
    csn_wish wish = { .id_index = -1 };
    csn_error err = { 0 };
    int fd = -1;

    if (csn_claim_box(local, &wish, &fd, &err) < 0)
        FAIL("%s", err.message);
    memcpy(id, wish.id, CSN_ID_SIZE);
    return fd;
}

static const char *const env[] = { "A=1", "B=\"quoted\"\nline", "C=", NULL };
static const char *const labels[] = { "k=v", NULL };
static const csn_mount mounts[] = { { .volume = "v", .path = "/data", .subpath = "a/b", .is_read_only = 1 } };

static csn_wish a_wish(void)
{
    csn_sandbox_options o = { .size = sizeof(o),
                              .name = "n",
                              .env = env,
                              .labels = labels,
                              .mounts = mounts,
                              .n_mounts = 1,
                              .is_detached = 1,
                              .memory_bytes = CSN_UNLIMITED,
                              .pids = 7,
                              .ttl_ms = 99 };
    csn_wish wish;
    csn_error err = { 0 };

    if (csn_wish_read(&o, &wish, &err) < 0)
        FAIL("%s", err.message);
    return wish;
}

TEST(a_record_is_read_as_it_was_written)
{
    csn_local *local = a_local();
    csn_auto(wish) csn_wish wish = a_wish();
    csn_auto(wish) csn_wish again = { .id_index = -1 };
    csn_auto(fd) int fd = -1;
    csn_error err = { 0 };

    wish.phase = CSN_PHASE_KEPT;
    wish.layers = csn_list_copy((const char *const[]){ "aa", "bb", NULL });
    wish.id_index = 12;
    wish.created_ms = 1700000000123;
    CHECK_INT(csn_claim_box(local, &wish, &fd, &err), CSN_OK);
    CHECK_INT(csn_record_write(fd, &wish, true, &err), CSN_OK);
    CHECK_INT(csn_record_read(fd, &again, &err), CSN_OK);
    CHECK_STR(again.id, wish.id);
    CHECK_STR(again.name, "n");
    CHECK_STR(again.env[1], env[1]);
    CHECK_STR(again.env[2], "C=");
    CHECK(again.env[3] == NULL);
    CHECK_STR(again.labels[0], "k=v");
    CHECK_STR(again.layers[1], "bb");
    CHECK_STR(again.mounts[0].subpath, "a/b");
    CHECK_INT(again.mounts[0].is_read_only, 1);
    CHECK_INT(again.memory_bytes, -1);
    CHECK_INT(again.pids, 7);
    CHECK_INT(again.disk_bytes, INT64_C(3) << 30);
    CHECK_INT(again.ttl_ms, 99);
    CHECK_INT(again.id_index, 12);
    CHECK_INT(again.created_ms, wish.created_ms);
    CHECK_INT(again.phase, CSN_PHASE_KEPT);
    CHECK(again.is_detached && !again.is_ephemeral);
}

TEST(a_record_that_makes_no_sense_is_refused)
{
    static const char *const bad[] = { "", "{", "[]", "{\"version\":2}", "{\"version\":1,\"id\":\"xx\"}" };
    csn_local *local = a_local();
    csn_auto(wish) csn_wish wish = { .id_index = -1 };
    csn_error err = { 0 };

    (void) local;
    int fd = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(csn_record_read(fd, &wish, &err), CSN_E_NOT_FOUND);
    for (size_t i = 0; i < CSN_COUNT(bad); i++) {
        CHECK(csn_write_file_atomic(fd, "record", bad[i], strlen(bad[i]), 0600, false) == 0);
        CHECK(csn_record_read(fd, &wish, &err) < 0);
    }
    close(fd);
}

TEST(a_name_is_claimed_once_and_a_stale_claim_is_taken_over)
{
    csn_local *local = a_local();
    csn_auto(fd) int fd = -1;
    char id[CSN_ID_SIZE], found[CSN_ID_SIZE];
    csn_error err = { 0 };
    static const char other[] = "0123456789abcdef0123456789abcdef";

    fd = a_box(local, id);
    CHECK(fd >= 0);
    CHECK_INT(csn_claim_name(local, "taken", id, &err), CSN_OK);
    CHECK_INT(csn_claim_name(local, "taken", other, &err), CSN_E_EXISTS);
    CHECK(symlinkat(other, local->names_fd, "stale") == 0);
    CHECK_INT(csn_claim_name(local, "stale", id, &err), CSN_OK);
    CHECK_INT(csn_claim_find(local, "stale", found, &err), CSN_OK);
    CHECK_STR(found, id);
    id[5] = '\0';
    CHECK_INT(csn_claim_find(local, id, found, &err), CSN_OK);
    id[3] = '\0';
    CHECK_INT(csn_claim_find(local, id, found, &err), CSN_E_NOT_FOUND);
    CHECK_INT(csn_claim_find(local, "../etc", found, &err), CSN_E_NOT_FOUND);
}

static int n_boxes(csn_local *local)
{
    uint32_t n = 0;
    csn_error err = { 0 };

    if (csn_local_sweep(local, false, &n, &err) < 0)
        FAIL("%s", err.message);
    return (int) n;
}

/* A box without a keeper, its directory unlocked. */
static void leave(csn_local *local, csn_phase phase, bool is_ephemeral, int64_t ttl_ms)
{
    csn_auto(wish) csn_wish wish = a_wish();
    csn_auto(fd) int fd = -1;
    csn_error err = { 0 };

    wish.phase = phase;
    wish.is_ephemeral = is_ephemeral;
    wish.ttl_ms = ttl_ms;
    wish.created_ms = csn_wall_ms() - 1000;
    wish.name[0] = '\0';
    CHECK_INT(csn_claim_box(local, &wish, &fd, &err), CSN_OK);
    CHECK_INT(csn_record_write(fd, &wish, false, &err), CSN_OK);
}

TEST(a_sweep_takes_what_is_nobodys_and_leaves_the_rest)
{
    csn_local *local = a_local();
    csn_auto(fd) int creating = -1;
    char id[CSN_ID_SIZE];

    CHECK_INT(n_boxes(local), 0);
    leave(local, CSN_PHASE_KEPT, true, 0);
    leave(local, CSN_PHASE_CREATING, false, 0);
    leave(local, CSN_PHASE_DELETING, false, 0);
    leave(local, CSN_PHASE_KEPT, false, 500); /* past its time */
    leave(local, CSN_PHASE_KEPT, false, 0);   /* stopped */
    leave(local, CSN_PHASE_KEPT, false, 1000000);
    creating = a_box(local, id); /* locked by its creator */
    CHECK_INT(n_boxes(local), 4);
    CHECK_INT(n_boxes(local), 0);
    csn_close(&creating); /* it died before it wrote a record */
    CHECK_INT(n_boxes(local), 1);
}

TEST(a_box_with_a_living_keeper_is_not_swept)
{
    csn_local *local = a_local();
    csn_auto(fd) int fd = -1;
    csn_auto(fd) int lock = -1;
    char id[CSN_ID_SIZE];

    fd = a_box(local, id);
    lock = openat(fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0);
    csn_box_unlock(fd);
    CHECK(csn_box_has_keeper(fd));
    CHECK_INT(csn_box_keeper_pid(fd), getpid());
    CHECK_INT(n_boxes(local), 0);
    csn_close(&lock);
    CHECK(!csn_box_has_keeper(fd));
    CHECK_INT(n_boxes(local), 1);
    CHECK_INT(csn_box_lock(fd), -ENOENT); /* who had it open sees that it is gone */
}

TEST(an_unreadable_record_is_left_alone)
{
    csn_local *local = a_local();
    csn_auto(fd) int fd = -1;
    char id[CSN_ID_SIZE];
    csn_error err = { 0 };

    fd = a_box(local, id);
    CHECK(csn_write_file_atomic(fd, "record", "{ not json", 10, 0600, false) == 0);
    csn_close(&fd);
    CHECK_INT(n_boxes(local), 0);
    CHECK_INT(csn_claim_find(local, id, id, &err), CSN_OK);
}
