/* Files: every verb, odd names, exact bytes, and what must be refused. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "story.h"

static const char *const odd_names[] = {
    "plain",          " leading and trailing ", "new\nline", "quo'te\"s", "star*",
    "-rf",            "ünï©ode",                "tab\there", "\001\033[31m", "bad\xff\xfeutf8",
    "semi;colon&&ls", "back\\slash",            "..dots..",  "$(touch x)",   "%s%n",
};

TEST(what_is_put_is_got_byte_for_byte_under_any_name)
{
    csn_sandbox *box = an_ephemeral();
    char path[128], data[300], *got = NULL;
    size_t len = 0;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char) (i * 7);
    for (size_t i = 0; i < sizeof(odd_names) / sizeof(odd_names[0]); i++) {
        (void) snprintf(path, sizeof(path), "odd/%s", odd_names[i]);
        OK(csn_file_put(box, path, data, sizeof(data), 0, err));
        OK(csn_file_get(box, path, 0, &got, &len, err));
        CHECK_MEM(got, len, data, sizeof(data));
        free(got);
    }
    CHECK_STR(sh(box, "ls -A odd | wc -l; ls -A ~")->out, "16\n.bashrc\n.profile\nodd\n");
}

typedef struct seen {
    char names[64][64];
    csn_file_info last;
    int n;
} seen;

static void note(const csn_file_info *info, void *user)
{
    seen *s = user;

    if (s->n < 64)
        (void) snprintf(s->names[s->n], 64, "%s", info->path);
    s->last = *info;
    s->n++;
}

TEST(a_list_is_sorted_and_complete)
{
    csn_sandbox *box = an_ephemeral();
    seen s = { 0 };

    OK(csn_file_mkdir(box, "d", 0755, err));
    for (size_t i = 0; i < sizeof(odd_names) / sizeof(odd_names[0]); i++) {
        char path[128];
        (void) snprintf(path, sizeof(path), "d/%s", odd_names[i]);
        OK(csn_file_put(box, path, "", 0, 0, err));
    }
    OK(csn_file_list(box, "d", 0, note, &s, err));
    CHECK_INT(s.n, 15);
    for (int i = 1; i < s.n; i++)
        CHECK(strcmp(s.names[i - 1], s.names[i]) < 0);
    s.n = 0;
    FAILS(csn_file_list(box, "d", 5, note, &s, err), CSN_E_TOO_LARGE);
    CHECK_INT(s.n, 5);
    FAILS(csn_file_list(box, "nowhere", 0, note, &s, err), CSN_E_NOT_FOUND);
}

TEST(stat_tells_kind_mode_owner_size_and_target)
{
    csn_sandbox *box = an_ephemeral();
    seen s = { 0 };

    OK(csn_file_put(box, "f", "12345", 5, 0640, err));
    CHECK_STR(ending(sh(box, "ln -s f l; mkfifo p; mkdir e; chmod 640 f")), "exit 0");
    OK(csn_file_stat(box, "f", 0, note, &s, err));
    CHECK_INT(s.last.kind, CSN_FILE_REGULAR);
    CHECK_INT(s.last.mode, 0640);
    CHECK_INT(s.last.uid, 1000);
    CHECK_INT(s.last.size_bytes, 5);
    CHECK(s.last.mtime_ns > INT64_C(1600000000000000000));
    OK(csn_file_stat(box, "l", 0, note, &s, err));
    CHECK_INT(s.last.kind, CSN_FILE_SYMLINK);
    OK(csn_file_stat(box, "l", 1, note, &s, err));
    CHECK_INT(s.last.kind, CSN_FILE_REGULAR);
    OK(csn_file_stat(box, "p", 0, note, &s, err));
    CHECK_INT(s.last.kind, CSN_FILE_FIFO);
    OK(csn_file_stat(box, "/home/daytona/e", 0, note, &s, err));
    CHECK_INT(s.last.kind, CSN_FILE_DIRECTORY);
    FAILS(csn_file_stat(box, "none", 0, note, &s, err), CSN_E_NOT_FOUND);
}

TEST(only_regular_files_have_content)
{
    csn_sandbox *box = an_ephemeral();
    char *got;
    size_t len;

    CHECK_STR(ending(sh(box, "mkfifo p; mkdir d; ln -s /dev/zero z; ln -s p q")), "exit 0");
    FAILS(csn_file_get(box, "p", 0, &got, &len, err), CSN_E_NOT_REGULAR);
    FAILS(csn_file_get(box, "q", 0, &got, &len, err), CSN_E_NOT_REGULAR);
    FAILS(csn_file_get(box, "d", 0, &got, &len, err), CSN_E_NOT_REGULAR);
    FAILS(csn_file_get(box, "z", 0, &got, &len, err), CSN_E_NOT_REGULAR);
    FAILS(csn_file_put(box, "d", "x", 1, 0, err), CSN_E_NOT_REGULAR);
    FAILS(csn_file_get(box, "", 0, &got, &len, err), CSN_E_INVALID);
    FAILS(csn_file_get(box, "/etc/shadow-not", 0, &got, &len, err), CSN_E_NOT_FOUND);
}

TEST(a_get_is_bounded)
{
    csn_sandbox *box = an_ephemeral();
    char *got;
    size_t len;

    CHECK_STR(ending(sh(box, "head -c 100001 /dev/zero > big")), "exit 0");
    FAILS(csn_file_get(box, "big", 100000, &got, &len, err), CSN_E_TOO_LARGE);
    OK(csn_file_get(box, "big", 100001, &got, &len, err));
    CHECK_INT(len, 100001);
    free(got);
}

TEST(large_files_stream_both_ways)
{
    csn_sandbox *box = an_ephemeral(.memory_bytes = INT64_C(1) << 30);
    int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC), pipe_fd[2];
    const int64_t size = 50 << 20;
    int64_t n = 0;
    char a[4096], b[4096];

    CHECK(ftruncate(in, size) == 0);
    for (int64_t at = 0; at < size; at += 1 << 20)
        CHECK(pwrite(in, &at, sizeof(at), at) == sizeof(at));
    OK(csn_file_put_fd(box, "big", in, 0600, &n, err));
    CHECK_INT(n, size);
    OK(csn_file_get_fd(box, "big", out, &n, err));
    CHECK_INT(n, size);
    for (int64_t at = 0; at < size; at += 1 << 20) {
        CHECK(pread(in, a, sizeof(a), at) == sizeof(a) && pread(out, b, sizeof(b), at) == sizeof(b));
        CHECK(memcmp(a, b, sizeof(a)) == 0);
    }
    CHECK(pipe(pipe_fd) == 0 && write(pipe_fd[1], "through a pipe", 14) == 14);
    close(pipe_fd[1]);
    OK(csn_file_put_fd(box, "piped", pipe_fd[0], 0, &n, err));
    CHECK_STR(sh(box, "cat piped")->out, "through a pipe");
    close(pipe_fd[0]);
    close(in);
    close(out);
}

TEST(a_put_replaces_whole_files_and_makes_parents)
{
    csn_sandbox *box = an_ephemeral();

    OK(csn_file_put(box, "a/b/c", "one", 3, 0755, err));
    CHECK_STR(sh(box, "stat -c %a a/b/c; cat a/b/c")->out, "755\none");
    CHECK_STR(ending(sh(box, "tail -f a/b/c > held & sleep 0.1; exit 0")), "exit 0");
    OK(csn_file_put(box, "a/b/c", "twelve", 6, 0, err));
    CHECK_STR(sh(box, "stat -c %a a/b/c; cat a/b/c; ls -A a/b")->out, "755\ntwelvec\n");
}

TEST(directories_are_made_moved_and_deleted)
{
    csn_sandbox *box = an_ephemeral();

    OK(csn_file_mkdir(box, "x/y/z", 0700, err));
    OK(csn_file_mkdir(box, "x/y/z", 0700, err));
    OK(csn_file_put(box, "x/y/z/f", "1", 1, 0, err));
    OK(csn_file_move(box, "x/y", "moved", err));
    CHECK_STR(sh(box, "cat moved/z/f")->out, "1");
    FAILS(csn_file_move(box, "none", "to", err), CSN_E_NOT_FOUND);
    FAILS(csn_file_delete(box, "moved", 0, err), CSN_E_EXISTS);
    OK(csn_file_delete(box, "moved", 1, err));
    FAILS(csn_file_delete(box, "moved", 1, err), CSN_E_NOT_FOUND);
    CHECK_STR(sh(box, "ls")->out, "x\n");
    CHECK_STR(ending(sh(box, "ln -s /etc link")), "exit 0");
    OK(csn_file_delete(box, "link", 1, err)); /* the link, not what it points to */
    CHECK_STR(ending(sh(box, "test -e /etc/passwd")), "exit 0");
}

static void note_done(int64_t n, int result, const csn_error *err, void *user)
{
    (void) n;
    (void) err;
    *(int *) user = result == CSN_OK ? 1 : result;
}

static void count_paths(const csn_file_info *info, void *user)
{
    char *all = user;

    (void) strncat(strncat(all, info->path, 64), " ", 64);
}

static int ask_for(csn_sandbox *box, csn_file_request req, char *said, csn_error *err)
{
    int done = 0;

    said[0] = '\0';
    req.size = sizeof(req);
    req.on_file = count_paths;
    req.user_data = said;
    int r = csn_file_request_async(box, &req, note_done, &done, err) ? CSN_OK : err->code;
    while (r >= 0 && done == 0)
        r = csn_engine_dispatch(the_engine(), -1, err);
    return r < 0 ? r : done == 1 ? CSN_OK : done;
}

TEST(requests_go_deep_follow_links_and_spare_what_is_there)
{
    csn_sandbox *box = an_ephemeral();
    char said[512];

    CHECK_STR(ending(sh(box, "mkdir -p t/a/b; echo 1 > t/a/b/f; echo 2 > g; ln -s a t/l; ln -s no t/x")),
              "exit 0");
    CHECK_INT(ask_for(box, (csn_file_request){ .verb = CSN_FILE_LIST, .path = "t", .mode = 9 }, said,
                      NULL),
              CSN_OK);
    CHECK_STR(said, "a a/b a/b/f l x ");
    CHECK_INT(ask_for(box, (csn_file_request){ .verb = CSN_FILE_LIST, .path = "t", .mode = 2,
                                               .flag = CSN_LIST_FOLLOW },
                      said, NULL),
              CSN_OK);
    CHECK_STR(said, "a a/b l ");
    CHECK_INT(ask_for(box, (csn_file_request){ .verb = CSN_FILE_MOVE, .path = "g", .arg = "t/a/b/f",
                                               .flag = CSN_MOVE_NO_REPLACE },
                      said, NULL),
              CSN_E_EXISTS);
    CHECK_INT(ask_for(box, (csn_file_request){ .verb = CSN_FILE_DELETE, .path = "t/a",
                                               .flag = CSN_DELETE_NO_DIRECTORY },
                      said, NULL),
              CSN_E_NOT_REGULAR);
}

TEST(modes_change_and_owners_need_root_inside)
{
    csn_sandbox *box = an_ephemeral();

    OK(csn_file_put(box, "f", "", 0, 0644, err));
    OK(csn_file_chmod(box, "f", 0711, NULL, NULL, err));
    CHECK_STR(sh(box, "stat -c %a f")->out, "711\n");
    FAILS(csn_file_chmod(box, "f", -1, "root", NULL, err), CSN_E_DENIED);
    FAILS(csn_file_put(box, "/usr/bin/mine", "", 0, 0, err), CSN_E_DENIED);
}

typedef struct hits {
    char text[16][128];
    int64_t lines[16];
    int n;
} hits;

static void note_match(const csn_file_match *m, void *user)
{
    hits *h = user;

    if (h->n < 16) {
        (void) snprintf(h->text[h->n], 128, "%s: %.*s", m->path, (int) m->text_len, m->text);
        h->lines[h->n] = m->line;
    }
    h->n++;
}

TEST(names_and_contents_are_found_and_replaced)
{
    csn_sandbox *box = an_ephemeral();
    seen s = { 0 };
    hits h = { 0 };
    int64_t n = 0;

    CHECK_STR(ending(sh(box, "mkdir -p s/t; printf 'a\\nneedle b\\nc needle' > s/t/one.txt; echo none > "
                             "s/two.txt; printf 'needle\\000' > s/binary; touch s/t/three.c")),
              "exit 0");
    OK(csn_file_find(box, "s", "*.txt", 0, note, &s, err));
    CHECK_INT(s.n, 2);
    OK(csn_file_search(box, "s", "needle", 0, note_match, &h, err));
    CHECK_INT(h.n, 2);
    CHECK_INT(h.lines[0], 2);
    CHECK(strstr(h.text[0], "one.txt: needle b") != NULL);
    OK(csn_file_replace(box, "s/t/one.txt", "needle", "pin", &n, err));
    CHECK_INT(n, 2);
    CHECK_STR(sh(box, "cat s/t/one.txt")->out, "a\npin b\nc pin");
    FAILS(csn_file_search(box, "s", "", 0, note_match, &h, err), CSN_E_INVALID);
}

TEST(a_descriptor_from_inside_can_be_kept)
{
    csn_sandbox *box = an_ephemeral();
    int fd = -1;

    FAILS(csn_file_open(box, "f", CSN_OPEN_READ, 0, &fd, err), CSN_E_NOT_FOUND);
    FAILS(csn_file_open(box, "f", 0, 0, &fd, err), CSN_E_INVALID);
    OK(csn_file_open(box, "f", CSN_OPEN_WRITE | CSN_OPEN_CREATE, 0644, &fd, err));
    CHECK(write(fd, "kept", 4) == 4);
    close(fd);
    CHECK_STR(sh(box, "cat f")->out, "kept");
    FAILS(csn_file_open(box, "f", CSN_OPEN_WRITE | CSN_OPEN_CREATE | CSN_OPEN_EXCLUSIVE, 0644, &fd,
                        err),
          CSN_E_EXISTS);
}

TEST(a_full_disk_is_a_limit)
{
    csn_sandbox *box = an_ephemeral(.disk_bytes = 4 << 20);
    int in = memfd_create("in", MFD_CLOEXEC);
    int64_t n;

    for (int64_t at = 0; at < 16 << 20; at += 4096) /* no holes, or it would fit */
        CHECK(pwrite(in, &at, sizeof(at), at) == sizeof(at));
    FAILS(csn_file_put_fd(box, "big", in, 0, &n, err), CSN_E_LIMIT);
    CHECK_STR(sh(box, "ls")->out, "");
    close(in);
}

TEST(a_request_can_be_cancelled)
{
    csn_sandbox *box = an_ephemeral();
    csn_file_request req = { .size = sizeof(req), .verb = CSN_FILE_SEARCH, .path = "/usr", .arg = "no such words anywhere" };
    int done = 0, other = 0;

    csn_op *search = BEGUN(csn_file_request_async(box, &req, note_done, &done, err));
    req = (csn_file_request){ .size = sizeof(req), .verb = CSN_FILE_MKDIR, .path = "later" };
    (void) BEGUN(csn_file_request_async(box, &req, note_done, &other, err));
    csn_op_cancel(search);
    CHECK_INT(done, 0); /* never from inside the call */
    while (!done || !other)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    CHECK_INT(done, CSN_E_CANCELLED);
    CHECK_INT(other, 1);
}

TEST(verbs_can_be_started_and_answer_later)
{
    csn_sandbox *box = an_ephemeral();
    csn_file_request req = { .size = sizeof(req), .verb = CSN_FILE_MKDIR, .path = "later", .mode = 0755 };
    int done[10] = { 0 };

    for (int i = 0; i < 10; i++)
        (void) BEGUN(csn_file_request_async(box, &req, note_done, &done[i], err));
    for (int i = 0; i < 10; i++)
        CHECK_INT(done[i], 0); /* never from inside the call */
    for (int i = 0; i < 10; i++)
        while (!done[i])
            OK(csn_engine_dispatch(the_engine(), 10000, err));
    for (int i = 0; i < 10; i++)
        CHECK_INT(done[i], 1);
}

/* ---- contents without blocking ---- */

typedef struct moved {
    int n_done, result;
    int64_t n;
    char *data;
} moved;

static void note_moved(char *data, int64_t n, int result, const csn_error *err, void *user)
{
    moved *m = user;

    CHECK((result < 0) == (err != NULL));
    m->n_done++;
    m->result = result;
    m->n = n;
    m->data = data;
}

static void await(const moved *m)
{
    while (!m->n_done)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    CHECK_INT(m->n_done, 1);
}

TEST(others_get_their_turn_while_contents_move)
{
    csn_sandbox *box = an_ephemeral(.memory_bytes = INT64_C(1) << 30);
    csn_file_source from = { .size = sizeof(from), .is_fd = 1 };
    csn_file_request req = { .size = sizeof(req), .verb = CSN_FILE_MKDIR, .path = "d", .mode = 0755 };
    int in = memfd_create("in", MFD_CLOEXEC), other = 0, n_between = 0;
    moved put = { 0 };

    CHECK(ftruncate(in, 100 << 20) == 0);
    from.fd = in;
    (void) BEGUN(csn_file_put_async(box, "big", &from, 0, note_moved, &put, err));
    CHECK_INT(put.n_done, 0); /* never from inside the call */
    while (!put.n_done) {
        if (!other && csn_file_request_async(box, &req, note_done, &other, NULL))
            other = -1; /* under way */
        OK(csn_engine_dispatch(the_engine(), 10000, err));
        if (other == 1 && !put.n_done) {
            n_between++;
            other = 0;
        }
    }
    CHECK_INT(put.n, 100 << 20);
    CHECK(n_between > 0);
    while (other == -1)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    close(in);
}

TEST(contents_wait_for_a_slow_pipe_in_the_loop)
{
    csn_sandbox *box = an_ephemeral();
    csn_file_source from = { .size = sizeof(from), .is_fd = 1 };
    csn_file_sink to = { .size = sizeof(to), .is_fd = 1 };
    int in[2], out[2];
    moved put = { 0 }, got = { 0 };
    char text[32];

    CHECK(pipe(in) == 0 && pipe(out) == 0);
    from.fd = in[0];
    (void) BEGUN(csn_file_put_async(box, "slow", &from, 0640, note_moved, &put, err));
    for (int i = 0; i < 3; i++) {
        CHECK(write(in[1], "piece ", 6) == 6);
        while (csn_engine_dispatch(the_engine(), 50, NULL) > 0)
            ;
        CHECK_INT(put.n_done, 0);
    }
    close(in[1]);
    await(&put);
    CHECK_INT(put.result, CSN_OK);
    CHECK_INT(put.n, 18);
    CHECK_STR(sh(box, "stat -c %a slow; cat slow; ls -A")->out,
              "640\npiece piece piece .bashrc\n.profile\nslow\n");
    to.fd = out[1];
    (void) BEGUN(csn_file_get_async(box, "slow", &to, note_moved, &got, err));
    await(&got);
    CHECK_INT(got.n, 18);
    CHECK(!got.data && read(out[0], text, sizeof(text)) == 18);
    close(in[0]);
    close(out[0]);
    close(out[1]);
}

TEST(a_cancelled_put_leaves_no_file_and_a_cancelled_get_ends)
{
    csn_sandbox *box = an_ephemeral();
    csn_file_source from = { .size = sizeof(from), .is_fd = 1 };
    csn_file_sink to = { .size = sizeof(to), .is_fd = 1 };
    int pipe_fd[2], before;
    moved put = { 0 }, got = { 0 };

    CHECK_STR(ending(sh(box, "head -c 1000000 /dev/zero > zeros")), "exit 0");
    before = csn_test_count_fds();
    CHECK(pipe(pipe_fd) == 0 && write(pipe_fd[1], "half", 4) == 4);
    from.fd = pipe_fd[0];
    csn_op *op = BEGUN(csn_file_put_async(box, "never", &from, 0, note_moved, &put, err));
    while (csn_engine_dispatch(the_engine(), 200, NULL) > 0)
        ;
    csn_op_cancel(op);
    CHECK_INT(put.n_done, 0); /* not from inside the call */
    await(&put);
    CHECK_INT(put.result, CSN_E_CANCELLED);
    CHECK_STR(sh(box, "ls -A")->out, ".bashrc\n.profile\nzeros\n");
    to.fd = pipe_fd[1]; /* nobody reads: it fills */
    op = BEGUN(csn_file_get_async(box, "zeros", &to, note_moved, &got, err));
    while (csn_engine_dispatch(the_engine(), 200, NULL) > 0)
        ;
    CHECK_INT(got.n_done, 0);
    csn_op_cancel(op);
    await(&got);
    CHECK_INT(got.result, CSN_E_CANCELLED);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
    CHECK_INT(csn_test_count_fds(), before);
}

TEST(a_closed_engine_answers_what_was_under_way)
{
    csn_sandbox *box = an_ephemeral();
    csn_file_source from = { .size = sizeof(from), .is_fd = 1 };
    moved put = { 0 };
    int pipe_fd[2];

    CHECK(pipe(pipe_fd) == 0);
    from.fd = pipe_fd[0];
    (void) BEGUN(csn_file_put_async(box, "never", &from, 0, note_moved, &put, err));
    while (csn_engine_dispatch(the_engine(), 200, NULL) > 0)
        ;
    close_the_engine();
    CHECK_INT(put.n_done, 1);
    CHECK_INT(put.result, CSN_E_CANCELLED);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

TEST(contents_in_place_and_in_memory)
{
    csn_sandbox *box = an_ephemeral();
    csn_file_source from = { .size = sizeof(from), .data = "longer text", .len = 11, .in_place = 1 };
    csn_file_sink to = { .size = sizeof(to), .max_bytes = 5 };
    moved put = { 0 }, again = { 0 }, got = { 0 }, large = { 0 };

    (void) BEGUN(csn_file_put_async(box, "a/b", &from, 0600, note_moved, &put, err));
    await(&put);
    CHECK_STR(ending(sh(box, "ln a/b same")), "exit 0");
    from = (csn_file_source){ .size = sizeof(from), .data = "short", .len = 5, .in_place = 1 };
    (void) BEGUN(csn_file_put_async(box, "a/b", &from, 0600, note_moved, &again, err));
    await(&again);
    CHECK_STR(sh(box, "cat same; stat -c ' %a' same")->out, "short 600\n");
    (void) BEGUN(csn_file_get_async(box, "same", &to, note_moved, &got, err));
    await(&got);
    CHECK_MEM(got.data, (size_t) got.n, "short", 5);
    free(got.data);
    to.max_bytes = 4;
    (void) BEGUN(csn_file_get_async(box, "same", &to, note_moved, &large, err));
    await(&large);
    CHECK(large.result == CSN_E_TOO_LARGE && large.n == 5 && !large.data);
    NOT_BEGUN(csn_file_get_async(box, "", &to, note_moved, &large, err), CSN_E_INVALID);
    from = (csn_file_source){ .size = sizeof(from), .is_fd = 1, .fd = -1 };
    NOT_BEGUN(csn_file_put_async(box, "x", &from, 0, note_moved, &large, err), CSN_E_INVALID);
}
