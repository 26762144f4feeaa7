/* Background commands and terminals: logs that can be read later, from anywhere, by anybody. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "story.h"

/* Everything from `offset` on, waiting for the end. */
static char *read_all(csn_process *p, int64_t offset, char *out, size_t size)
{
    csn_log_chunk chunk;
    size_t n = 0;

    for (;;) {
        OK(csn_process_read_log(p, offset, 10000, &chunk, err));
        CHECK(chunk.len > 0 || chunk.is_end);
        if (n + chunk.len < size) {
            memcpy(out + n, chunk.data, chunk.len);
            n += chunk.len;
        }
        offset = chunk.next_offset;
        if (chunk.is_end)
            break;
    }
    out[n] = '\0';
    return out;
}

static csn_process *start(csn_sandbox *box, csn_process_options o)
{
    csn_process *p = NULL;

    o.size = sizeof(o);
    OK(csn_process_start(box, &o, &p, err));
    return p;
}

TEST(a_background_command_writes_a_log_that_is_read_by_offset)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .shell = "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three",
                                                       .is_background = 1 });
    char text[256];
    csn_log_chunk chunk;
    csn_receipt receipt;

    CHECK_STR(read_all(p, 0, text, sizeof(text)), "one\ntwo\nthree\n");
    CHECK_STR(read_all(p, 5, text, sizeof(text)), "wo\nthree\n");
    OK(csn_process_read_log(p, 4, 0, &chunk, err));
    CHECK_INT(chunk.stream, CSN_STDERR);
    CHECK_MEM(chunk.data, chunk.len, "two\n", 4);
    OK(csn_process_read_log(p, 0, 0, &chunk, err));
    CHECK_INT(chunk.stream, CSN_STDOUT);
    CHECK_MEM(chunk.data, chunk.len, "one\n", 4);
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK_INT(receipt.ended, CSN_ENDED_EXIT);
    CHECK_INT(receipt.stdout_bytes, 10);
    CHECK_INT(receipt.stderr_bytes, 4);
    csn_process_free(p);
}

TEST(a_background_command_outlives_its_handle_and_is_opened_by_number)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .shell = "echo begin; while ! test -e go; do sleep 0.02; done; echo end",
                                                       .is_background = 1 });
    uint32_t id = csn_process_id(p);
    char text[64];
    csn_receipt receipt;

    csn_process_free(p);
    OK(csn_process_open(box, id, &p, err));
    FAILS(csn_process_wait(p, 50, NULL, err), CSN_E_TIMEOUT);
    OK(csn_file_put(box, "go", "", 0, 0, err));
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK_INT(receipt.exit_code, 0);
    CHECK_STR(read_all(p, 0, text, sizeof(text)), "begin\nend\n");
    csn_process_free(p);
    OK(csn_process_open(box, id, &p, err));
    CHECK_STR(read_all(p, 0, text, sizeof(text)), "begin\nend\n");
    csn_process_free(p);
    FAILS(csn_process_open(box, 12345, &p, err), CSN_E_NOT_FOUND);
}

TEST(a_background_command_takes_stdin_through_a_pipe)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .argv = ARGV("cat"),
                                                       .is_background = 1,
                                                       .stdin_kind = CSN_STDIN_PIPE });
    char text[64];
    size_t n;

    OK(csn_process_write(p, "in and out", 10, &n, err));
    CHECK_INT(n, 10);
    OK(csn_process_close_stdin(p, err));
    CHECK_STR(read_all(p, 0, text, sizeof(text)), "in and out");
    csn_process_free(p);
}

TEST(a_background_log_is_bounded)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .shell = "head -c 1000000 /dev/zero",
                                                       .is_background = 1,
                                                       .output_bytes = 5000 });
    csn_receipt receipt;
    char *text = malloc(100000);

    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK_INT(receipt.stdout_bytes, 1000000);
    CHECK(receipt.is_output_cut);
    int64_t n = 0;
    csn_log_chunk chunk = { 0 };
    while (!chunk.is_end) {
        OK(csn_process_read_log(p, n, 1000, &chunk, err));
        n = chunk.next_offset;
    }
    CHECK_INT(n, 5000);
    free(text);
    csn_process_free(p);
}

static void count_one(const csn_process_info *info, void *user)
{
    int *counts = user;

    counts[0]++;
    counts[1] += info->is_running;
    CHECK(info->command && info->command[0]);
}

TEST(commands_are_listed)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .shell = "sleep 300", .is_background = 1 });
    csn_process *q = start(box, (csn_process_options){ .shell = "true", .is_background = 1 });
    int counts[2] = { 0 };
    csn_receipt receipt;

    OK(csn_process_wait(q, 10000, NULL, err));
    OK(csn_process_list(box, count_one, counts, err));
    CHECK_INT(counts[0], 2);
    CHECK_INT(counts[1], 1);
    OK(csn_process_signal(p, SIGKILL, 1, err));
    OK(csn_process_wait(p, 10000, &receipt, err));
    CHECK(receipt.ended == CSN_ENDED_KILLED || receipt.ended == CSN_ENDED_SIGNAL);
    csn_process_free(p);
    csn_process_free(q);
}

TEST(a_terminal_is_a_terminal)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .shell = "test -t 0 && test -t 1 && echo tty; stty size; read x; echo got:$x; "
                                                                "stty size",
                                                       .is_pty = 1,
                                                       .rows = 30,
                                                       .cols = 100 });
    char text[1024];
    csn_log_chunk chunk = { 0 };
    int64_t offset = 0;
    size_t n = 0;

    while (n < 8 || !strstr(text, "30 100")) {
        OK(csn_process_read_log(p, offset, 10000, &chunk, err));
        CHECK(!chunk.is_end);
        memcpy(text + n, chunk.data, chunk.len);
        n += chunk.len;
        text[n] = '\0';
        offset = chunk.next_offset;
    }
    OK(csn_process_resize(p, 50, 132, err));
    OK(csn_process_write(p, "hello\n", 6, &n, err));
    read_all(p, offset, text, sizeof(text));
    CHECK(strstr(text, "got:hello") != NULL);
    CHECK(strstr(text, "50 132") != NULL);
    csn_process_free(p);
}

TEST(two_readers_see_the_same_terminal)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .shell = "echo hello; read x", .is_pty = 1 });
    csn_process *q = NULL;
    csn_log_chunk a, b;
    size_t n;

    OK(csn_process_open(box, csn_process_id(p), &q, err));
    OK(csn_process_read_log(p, 0, 10000, &a, err));
    OK(csn_process_read_log(q, 0, 10000, &b, err));
    CHECK_MEM(b.data, b.len, a.data, a.len);
    OK(csn_process_write(q, "\n", 1, &n, err));
    OK(csn_process_wait(p, 10000, NULL, err));
    OK(csn_process_wait(q, 10000, NULL, err));
    csn_process_free(p);
    csn_process_free(q);
}

static void set_flag(int result, const csn_error *err, void *user)
{
    (void) err;
    *(int *) user = result == CSN_OK ? 1 : result;
}

TEST(growth_of_a_log_is_told_by_the_loop)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p = start(box, (csn_process_options){ .shell = "sleep 0.2; echo now; sleep 300", .is_background = 1 });
    int told = 0;
    csn_log_chunk chunk;

    (void) BEGUN(csn_process_wait_log_async(p, 0, set_flag, &told, err));
    CHECK_INT(told, 0);
    while (!told)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    CHECK_INT(told, 1);
    OK(csn_process_read_log(p, 0, 0, &chunk, err));
    CHECK_MEM(chunk.data, chunk.len, "now\n", 4);
    csn_process_free(p);
}

TEST(a_log_goes_on_after_its_command_while_others_have_its_streams)
{
    csn_sandbox *box = an_ephemeral();
    csn_process *p =
        start(box, (csn_process_options){ .shell = "echo $$; kill -STOP $$", .is_background = 1 });
    csn_log_chunk chunk;
    char text[160];
    int told = 0;

    OK(csn_process_read_log(p, 0, 10000, &chunk, err));
    (void) snprintf(text, sizeof(text),
                    "exec 3>/proc/%.*s/fd/1; echo open; read x; echo late >&3; read x",
                    (int) chunk.len - 1, chunk.data);
    csn_process *q = start(
        box,
        (csn_process_options){ .shell = text, .is_background = 1, .stdin_kind = CSN_STDIN_PIPE });
    const int64_t end = chunk.next_offset;
    size_t n;

    OK(csn_process_read_log(q, 0, 10000, &chunk, err));
    OK(csn_process_signal(p, SIGKILL, 1, err));
    OK(csn_process_wait(p, 10000, NULL, err));
    (void) BEGUN(csn_process_wait_closed_async(p, end, set_flag, &told, err));
    OK(csn_engine_dispatch(the_engine(), 50, err));
    CHECK_INT(told, 0); /* it has ended, but its log has not */
    OK(csn_process_write(q, "\n", 1, &n, err));
    while (!told)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    OK(csn_process_read_log(p, end, 0, &chunk, err));
    CHECK_MEM(chunk.data, chunk.len, "late\n", 5);
    told = 0;
    (void) BEGUN(csn_process_wait_closed_async(p, chunk.next_offset, set_flag, &told, err));
    OK(csn_process_write(q, "\n", 1, &n, err));
    while (!told)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    OK(csn_process_read_log(p, chunk.next_offset, 0, &chunk, err));
    CHECK(chunk.len == 0 && chunk.is_end);
    csn_process_free(p);
    csn_process_free(q);
}

typedef struct heard {
    char text[256];
    size_t n;
    int n_ends, n_pauses;
    csn_receipt receipt;
} heard;

static int hear(csn_process *p, csn_stream stream, const void *data, size_t len, void *user)
{
    heard *h = user;

    (void) p;
    (void) stream;
    CHECK_INT(h->n_ends, 0);
    CHECK(h->n + len < sizeof(h->text));
    memcpy(h->text + h->n, data, len);
    h->n += len;
    if (h->n_pauses > 0)
        h->n_pauses--;
    return h->n_pauses > 0;
}

static void hear_end(csn_process *p, const csn_receipt *receipt, void *user)
{
    heard *h = user;

    (void) p;
    h->n_ends++;
    h->receipt = *receipt;
}

TEST(the_log_comes_to_a_callback_as_it_grows)
{
    csn_sandbox *box = an_ephemeral();
    heard h = { 0 };
    csn_process *p = start(box, (csn_process_options){ .shell = "echo one; sleep 0.1; echo two >&2; exit 4",
                                                       .is_background = 1,
                                                       .on_output = hear,
                                                       .on_exit = hear_end,
                                                       .user_data = &h });

    OK(csn_process_wait(p, 10000, NULL, err));
    CHECK_STR(h.text, "one\ntwo\n");
    CHECK_INT(h.n_ends, 1);
    CHECK_INT(h.receipt.exit_code, 4);
    csn_process_free(p);
}

TEST(a_paused_callback_is_not_called_until_resumed)
{
    csn_sandbox *box = an_ephemeral();
    heard h = { .n_pauses = 2 };
    csn_process *p = start(box, (csn_process_options){ .shell = "echo one; sleep 0.1; echo two; read x; echo $x",
                                                       .is_pty = 1,
                                                       .on_output = hear,
                                                       .on_exit = hear_end,
                                                       .user_data = &h });
    size_t n;

    while (h.n == 0)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    FAILS(csn_process_wait(p, 300, NULL, err), CSN_E_TIMEOUT);
    CHECK(strncmp("one\r\n", h.text, strlen(h.text)) ==
          0); /* a terminal may give it in two pieces */
    CHECK_INT(csn_process_resume(p), CSN_OK);
    OK(csn_process_write(p, "x\n", 2, &n, err));
    OK(csn_process_wait(p, 10000, NULL, err));
    CHECK(strstr(h.text, "two\r\n") && strstr(h.text, "x\r\nx\r\n"));
    CHECK_INT(h.n_ends, 1);
    csn_process_free(p);
}

TEST(a_followed_command_may_be_let_go_at_any_time)
{
    csn_sandbox *box = an_ephemeral();
    heard h = { 0 };
    csn_process *p = start(box, (csn_process_options){ .shell = "echo one; sleep 300",
                                                       .is_background = 1,
                                                       .on_output = hear,
                                                       .on_exit = hear_end,
                                                       .user_data = &h });

    while (h.n == 0)
        OK(csn_engine_dispatch(the_engine(), 10000, err));
    csn_process_free(p);
    CHECK_STR(ending(sh(box, "true")), "exit 0");
    CHECK_INT(h.n_ends, 0);
}
