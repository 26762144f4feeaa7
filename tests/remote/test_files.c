/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs for single files, on this machine and elsewhere: the same words are said of the same files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "remote_world.h"
#include "story/story.h"

static const char *const ways[] = { "?",    "regular", "directory", "symlink",
                                    "fifo", "socket",  "device" };

static void note_file(const csn_file_info *info, void *user)
{
    csn_buf_printf(user, "  %s %s %04o %u:%u", info->path, ways[info->kind], info->mode, info->uid,
                   info->gid);
    if (info->kind == CSN_FILE_REGULAR)
        csn_buf_printf(user, " %lld", (long long) info->size_bytes);
    if (info->target)
        csn_buf_printf(user, " -> %s", info->target);
    CHECK(info->mtime_ns > INT64_C(1000000000) * 1000000000);
    csn_buf_putc(user, '\n');
}

static void note_owner(const csn_file_info *info, void *user)
{
    csn_buf_printf(user, "  %s %s:%s\n", info->path, info->owner, info->group);
}

static void note_match(const csn_file_match *match, void *user)
{
    csn_buf_printf(user, "  %s:%lld:%.*s\n", match->path, (long long) match->line,
                   (int) match->text_len, match->text);
}

#define SAY(out, what, call) \
    do { \
        csn_error err_ = { 0 }, *err = &err_; \
        csn_buf_printf(out, "%s: ", what); \
        csn_buf_printf(out, "%s\n", csn_error_name(call)); \
        if (err_.code) \
            CHECK(err_.message[0]); \
    } while (0)

static void on_count(int64_t n, int result, const csn_error *err, void *user)
{
    csn_error *to = user;

    (void) n;
    if (err)
        *to = *err;
    to->code = result < 0 ? result : 1; /* done */
}

static csn_engine *current; /* whose sandbox it is */

static int request(csn_sandbox *box, csn_file_request req, csn_buf *out, csn_error *err)
{
    req.size = sizeof(req);
    req.on_file = note_file;
    req.user_data = out;
    if (!csn_file_request_async(box, &req, on_count, err, err))
        return err->code;
    while (err->code == 0)
        CHECK(csn_engine_dispatch(current, 1000, NULL) >= 0);
    if (err->code == 1)
        err->code = CSN_OK;
    return err->code;
}

static void make_some(csn_sandbox *box)
{
    csn_process_options o = {
        .size = sizeof(o),
        .shell =
            "umask 022; mkdir -p d/sub/deep empty full secret; printf 'one\\ntwo one\\n' > d/a.txt;\n"
            "printf three > d/sub/b.txt; printf 'x\\0one' > d/binary; ln -s a.txt d/link;\n"
            "ln -s nowhere d/broken; ln -s sub d/way; mkfifo d/pipe; touch full/x;\n"
            "printf '' > \"d/odd ' name\n!\"; chmod 700 d/sub; chmod 000 secret"
    };
    csn_run_result result;

    OK(csn_run(box, &o, &result, err));
    CHECK_STR(result.err, "");
    csn_run_result_done(&result);
}

static void look(csn_sandbox *box, csn_buf *out)
{
    SAY(out, "stat", csn_file_stat(box, "d/a.txt", 0, note_file, out, err));
    SAY(out, "stat an absolute path",
        csn_file_stat(box, "/home/daytona/d/a.txt", 1, note_file, out, err));
    SAY(out, "stat a link", csn_file_stat(box, "d/link", 0, note_file, out, err));
    SAY(out, "stat through it", csn_file_stat(box, "d/link", 1, note_file, out, err));
    SAY(out, "stat a broken link", csn_file_stat(box, "d/broken", 0, note_file, out, err));
    SAY(out, "… through it", csn_file_stat(box, "d/broken", 1, note_file, out, err));
    SAY(out, "stat a directory", csn_file_stat(box, "d/sub", 1, note_file, out, err));
    SAY(out, "stat nothing", csn_file_stat(box, "none", 0, note_file, out, err));
    SAY(out, "stat nothing", csn_file_stat(box, "none", 1, note_file, out, err));
    SAY(out, "list", csn_file_list(box, "d", 0, note_file, out, err));
    SAY(out, "list owners", csn_file_list(box, "d", 0, note_owner, out, err));
    SAY(out, "list an empty one", csn_file_list(box, "empty", 0, note_file, out, err));
    SAY(out, "list three", csn_file_list(box, "d", 3, NULL, out, err));
    SAY(out, "list a file", csn_file_list(box, "d/a.txt", 0, note_file, out, err));
    SAY(out, "list nothing", csn_file_list(box, "none", 0, note_file, out, err));
    SAY(out, "list what may not be read", csn_file_list(box, "secret", 0, note_file, out, err));
    SAY(out, "list two levels",
        request(box, (csn_file_request){ .verb = CSN_FILE_LIST, .path = "d", .mode = 2 }, out,
                err));
    SAY(out, "list through links",
        request(box,
                (csn_file_request){ .verb = CSN_FILE_LIST, .path = "d", .flag = CSN_LIST_FOLLOW },
                out, err));
    SAY(out, "find", csn_file_find(box, "d/sub", "*", 0, note_file, out, err));
    SAY(out, "find by a pattern", csn_file_find(box, "d", "?.tx[t]", 0, NULL, out, err));
    SAY(out, "find in nothing", csn_file_find(box, "none", "*", 0, note_file, out, err));
    SAY(out, "search", csn_file_search(box, "d", "two", 0, note_match, out, err));
    SAY(out, "search one file",
        csn_file_search(box, "d/sub/b.txt", "thr", 0, note_match, out, err));
    SAY(out, "search in nothing", csn_file_search(box, "none", "x", 0, note_match, out, err));
}

static void change(csn_sandbox *box, csn_buf *out)
{
    char *data = NULL;
    size_t len;

    SAY(out, "mkdir", csn_file_mkdir(box, "new/a/b", 0750, err));
    SAY(out, "stat it", csn_file_stat(box, "new/a/b", 0, note_file, out, err));
    SAY(out, "mkdir below a file", csn_file_mkdir(box, "d/a.txt/x", 0755, err));
    SAY(out, "chmod", csn_file_chmod(box, "d/a.txt", 0640, NULL, NULL, err));
    SAY(out, "stat it", csn_file_stat(box, "d/a.txt", 0, note_file, out, err));
    SAY(out, "chmod nothing", csn_file_chmod(box, "none", 0640, NULL, NULL, err));
    SAY(out, "move", csn_file_move(box, "d/a.txt", "moved.txt", err));
    SAY(out, "move what is gone", csn_file_move(box, "d/a.txt", "again.txt", err));
    SAY(out, "move over a file", csn_file_move(box, "moved.txt", "d/sub/b.txt", err));
    SAY(out, "move over nothing only",
        request(box,
                (csn_file_request){ .verb = CSN_FILE_MOVE,
                                    .path = "d/binary",
                                    .arg = "d/sub/b.txt",
                                    .flag = CSN_MOVE_NO_REPLACE },
                out, err));
    SAY(out, "replace", csn_file_replace(box, "d/sub/b.txt", "one", "1!", NULL, err));
    OK(csn_file_get(box, "d/sub/b.txt", 0, &data, &len, err));
    csn_buf_printf(out, "%s", data);
    free(data);
    SAY(out, "replace in nothing", csn_file_replace(box, "none", "a", "b", NULL, err));
    SAY(out, "delete", csn_file_delete(box, "d/binary", 0, err));
    SAY(out, "delete it again", csn_file_delete(box, "d/binary", 0, err));
    SAY(out, "delete a link", csn_file_delete(box, "d/way", 0, err));
    SAY(out, "delete an empty directory", csn_file_delete(box, "empty", 0, err));
    SAY(out, "delete a full one", csn_file_delete(box, "full", 0, err));
    SAY(out, "delete no directory",
        request(box,
                (csn_file_request){
                    .verb = CSN_FILE_DELETE, .path = "full", .flag = CSN_DELETE_NO_DIRECTORY },
                out, err));
    SAY(out, "delete all of it", csn_file_delete(box, "full", 1, err));
    SAY(out, "what is left", csn_file_find(box, "d", "*", 0, NULL, out, err));
    SAY(out, "list", csn_file_list(box, "d", 0, note_file, out, err));
}

/* The first line that differs says more than two long texts. */
static void check_lines(char *is, char *wanted)
{
    char *a, *b, *rest_a = is, *rest_b = wanted;

    do {
        a = strsep(&rest_a, "\n");
        b = strsep(&rest_b, "\n");
        CHECK_STR(a ? a : "(end)", b ? b : "(end)");
    } while (a && b);
}

TEST(files_are_told_and_changed_alike_in_both_backends)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *boxes[] = { a_sandbox(.name = NULL), a_box(engine) };
    csn_auto(buf) csn_buf here = CSN_BUF_INIT, there = CSN_BUF_INIT;
    csn_buf *said[] = { &here, &there };

    csn_test_defer(free_engine, engine);
    for (int i = 0; i < 2; i++) {
        current = i ? engine : the_engine();
        make_some(boxes[i]);
        look(boxes[i], said[i]);
        change(boxes[i], said[i]);
        CHECK_INT(said[i]->error, 0);
        OK(csn_sandbox_delete(boxes[i], err));
    }
    check_lines(there.data, here.data);
    csn_sandbox_free(boxes[1]);
}

static void count(const csn_file_info *info, void *user)
{
    (void) info;
    ++*(int *) user;
}

TEST(a_directory_with_many_files_is_listed_whole)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine);
    csn_process_options o = { .size = sizeof(o),
                              .shell =
                                  "mkdir many && cd many && seq -f file-with-a-long-name-%06.0f "
                                  "20000 | xargs touch" };
    csn_run_result result;
    int n = 0;

    csn_test_defer(free_engine, engine);
    OK(csn_run(box, &o, &result, err));
    CHECK_INT(csn_receipt_status(&result.receipt), 0);
    csn_run_result_done(&result);
    OK(csn_file_list(box, "many", 0, count, &n, err)); /* its answer is larger than a frame's */
    CHECK_INT(n, 20000);
    n = 0;
    FAILS(csn_file_list(box, "many", 15000, count, &n, err), CSN_E_TOO_LARGE);
    CHECK_INT(n, 15000);
    csn_sandbox_free(box);
}

TEST(what_a_service_can_not_do_with_files_is_said_by_name)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine);
    csn_error err = { 0 };
    int fd = -1;

    csn_test_defer(free_engine, engine);
    CHECK_INT(csn_file_open(box, "x", CSN_OPEN_READ, 0, &fd, &err), CSN_E_UNSUPPORTED);
    CHECK(strstr(err.message, "hand out a descriptor of a file"));
    CHECK_INT(csn_port_connect(box, 80, &fd, &err), CSN_E_UNSUPPORTED);
    CHECK(strstr(err.message, "connect to a port"));
    CHECK_INT(csn_file_delete(box, "\xff", 0, &err), CSN_E_UNSUPPORTED);
    CHECK(strstr(err.message, "no UTF-8"));
    csn_sandbox_free(box);
}

/* Who is told may drop what tells. */
static void drop_it(const csn_file_info *info, void *user)
{
    csn_op **op = user;

    (void) info;
    csn_op_drop(*op);
    *op = NULL;
}

static void never(int64_t n, int result, const csn_error *err, void *user)
{
    (void) n, (void) result, (void) err, (void) user;
    FAIL("a dropped operation was answered");
}

TEST(a_look_can_be_dropped_by_whom_it_tells)
{
    csn_engine *engine = remote_engine();
    csn_sandbox *box = a_box(engine);
    csn_op *op = NULL;
    csn_file_request req = { .size = sizeof(req),
                             .verb = CSN_FILE_FIND,
                             .path = "/etc",
                             .arg = "*",
                             .on_file = drop_it,
                             .user_data = &op };

    csn_test_defer(free_engine, engine);
    op = BEGUN(csn_file_request_async(box, &req, never, NULL, err));
    while (op)
        CHECK(csn_engine_dispatch(engine, 1000, NULL) >= 0);
    CHECK_INT(count_boxes(engine), 1);
    csn_sandbox_free(box);
}
