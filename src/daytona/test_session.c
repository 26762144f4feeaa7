/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of a session, without a service: what is sent, and what comes back, cut anywhere. */
#include <string.h>

#include "answer.h"
#include "answer_sessions.h"
#include "base/buf.h"
#include "csn_test.h"
#include "kept_log.h"
#include "marks.h"
#include "script.h"

/* Both streams of a log that comes in pieces of `step` bytes. */
static void split(const char *log, size_t len, size_t step, csn_buf out[2])
{
    csn_marks marks = { 0 };
    csn_stream stream;
    const char *text;
    size_t n;

    csn_buf_clear(&out[0]);
    csn_buf_clear(&out[1]);
    for (size_t from = 0; from < len; from += step) {
        size_t part = len - from < step ? len - from : step;

        for (size_t at = 0; at < part;) {
            at += csn_marks_next(&marks, log + from + at, part - at, &stream, &text, &n);
            csn_buf_append(&out[stream == CSN_STDERR], text, n);
        }
    }
}

TEST(marks_tell_the_streams_apart_wherever_they_are_cut)
{
    static const char log[] = "before\1\1\1out\n\2\2\2err\n\1\1\1\1\1x\2\2y\2\1\1\1z";
    csn_buf out[2] = { CSN_BUF_INIT, CSN_BUF_INIT };

    for (size_t step = 1; step < sizeof(log); step++) {
        split(log, sizeof(log) - 1, step, out);
        CHECK_STR(out[0].data, "beforeout\n\1\1x\2\2y\2z");
        CHECK_STR(out[1].data, "err\n");
    }
    csn_buf_free(&out[0]);
    csn_buf_free(&out[1]);
}

TEST(the_word_of_a_start_is_read)
{
    csn_script_word word;

    CHECK(csn_script_read("caisson-1 4711\n", 15, "caisson-1", &word) && word.pid == 4711);
    CHECK(csn_script_read("caisson-1 cwd\n", 14, "caisson-1", &word) &&
          word.code == CSN_E_NOT_FOUND);
    CHECK(csn_script_read("caisson-1 denied\r\n", 18, "caisson-1", &word) &&
          word.code == CSN_E_DENIED);
    CHECK(!csn_script_read("caisson-2 4711\n", 15, "caisson-1", &word));
    CHECK(!csn_script_read("caisson-1\n", 10, "caisson-1", &word));
    CHECK(!csn_script_read("caisson-1 0\n", 12, "caisson-1", &word));
    CHECK(!csn_script_read("caisson-1 -5\n", 13, "caisson-1", &word));
    CHECK(!csn_script_read("caisson-1 99999999999\n", 22, "caisson-1", &word));
    CHECK(!csn_script_read("", 0, "caisson-1", &word));
}

static int ended(const char *text, bool *is_ended, int *code)
{
    return csn_command_answer_parse(text, strlen(text), is_ended, code, NULL);
}

TEST(a_commands_state_is_read)
{
    bool is_ended;
    int code = 99;

    CHECK(ended("{\"id\":\"c\",\"command\":\"x\"}", &is_ended, &code) == CSN_OK && !is_ended);
    CHECK(ended("{\"exitCode\":null}", &is_ended, &code) == CSN_OK && !is_ended);
    CHECK(ended("{\"exitCode\":3}", &is_ended, &code) == CSN_OK && is_ended && code == 3);
    CHECK_INT(ended("{\"exitCode\":\"3\"}", &is_ended, &code), CSN_E_PROTOCOL);
    CHECK_INT(ended("{\"exitCode\":300}", &is_ended, &code), CSN_E_PROTOCOL);
    CHECK_INT(ended("[]", &is_ended, &code), CSN_E_PROTOCOL);
    CHECK_INT(ended("", &is_ended, &code), CSN_E_PROTOCOL);
}

TEST(a_commands_id_is_one_segment_of_a_path)
{
    char id[CSN_ANY_ID_SIZE];

    CHECK_INT(csn_started_answer_parse("{\"cmdId\":\"a-1\"}", 15, id, NULL), CSN_OK);
    CHECK_STR(id, "a-1");
    CHECK_INT(csn_started_answer_parse("{\"cmdId\":\"../x\"}", 16, id, NULL), CSN_E_PROTOCOL);
    CHECK_INT(csn_started_answer_parse("{\"cmdId\":7}", 11, id, NULL), CSN_E_PROTOCOL);
    CHECK_INT(csn_started_answer_parse("{}", 2, id, NULL), CSN_E_PROTOCOL);
}

/* ---- in the background ---- */

TEST(a_background_command_is_found_by_its_title)
{
    static const char *const argv[] = { "sh", "-c", "it's\n'' \xff", NULL };
    char *env[] = { NULL };
    csn_exec_spec spec = { .argv = argv, .env = env, .cwd = "/", .timeout_ms = 1500 };
    csn_buf script = CSN_BUF_INIT;
    csn_script_title title;

    CHECK_INT(csn_script_background(&script, &spec), 0);
    csn_script_read_title(script.data, script.len, &title);
    CHECK_STR(title.text, "sh -c it's\n'' ?");
    CHECK(title.started_ms > INT64_C(1600000000000));
    CHECK(strstr(script.data, " 'caisson-command' '' 2 '/' 'sh'"));
    for (size_t len = 0; len < script.len; len++) { /* cut anywhere it is read without harm */
        csn_script_read_title(script.data, len, &title);
        CHECK(strlen(title.text) < sizeof(title.text));
    }
    csn_script_read_title("echo hello", 10, &title);
    CHECK(!title.text[0] && title.started_ms == 0);
    csn_buf_free(&script);
}

static bool is_session(const char *text, csn_session_dto *dto)
{
    static csn_json *doc;

    doc = csn_json_free(doc);
    return csn_session_answer_parse(text, strlen(text), &doc, dto, NULL) == CSN_OK;
}

TEST(sessions_of_background_commands_are_told_from_others)
{
    csn_session_dto dto;

    CHECK(is_session("{\"sessionId\":\"caisson-command-4294967295\",\"commands\":[{\"id\":\"a\"}]}",
                     &dto) &&
          dto.number == UINT32_MAX && !dto.is_ended);
    CHECK(is_session(
              "{\"sessionId\":\"caisson-command-2\",\"commands\":[{\"id\":\"a\",\"exitCode\":9}]}",
              &dto) &&
          dto.is_ended && dto.exit_code == 9);
    CHECK(!is_session("{\"sessionId\":\"caisson-command-0\",\"commands\":[{\"id\":\"a\"}]}", &dto));
    CHECK(!is_session(
        "{\"sessionId\":\"caisson-command-4294967296\",\"commands\":[{\"id\":\"a\"}]}", &dto));
    CHECK(
        !is_session("{\"sessionId\":\"caisson-command-02\",\"commands\":[{\"id\":\"a\"}]}", &dto));
    CHECK(!is_session("{\"sessionId\":\"mine\",\"commands\":[{\"id\":\"a\"}]}", &dto));
    CHECK(!is_session("{\"sessionId\":\"caisson-command-2\",\"commands\":[]}", &dto));
    CHECK(!is_session("{\"sessionId\":\"caisson-command-2\",\"commands\":[{\"id\":\"../x\"}]}",
                      &dto));
}

static csn_log_piece read_at(const csn_kept_log *log, int64_t offset, char *data, size_t size)
{
    csn_log_piece piece;

    memset(data, 0, size);
    csn_kept_log_read(log, offset, data, size - 1, &piece);
    return piece;
}

TEST(a_kept_log_tells_streams_and_offsets)
{
    csn_kept_log log;
    csn_log_piece piece;
    char data[8];

    csn_kept_log_init(&log);
    piece = read_at(&log, 0, data, sizeof(data));
    CHECK(piece.len == 0 && !piece.is_end);
    CHECK_INT(csn_kept_log_put(&log, CSN_STDOUT, "one ", 4), 0);
    CHECK_INT(csn_kept_log_put(&log, CSN_STDOUT, "two", 3), 0);
    CHECK_INT(csn_kept_log_put(&log, CSN_STDERR, "err", 3), 0);
    piece = read_at(&log, 2, data, sizeof(data));
    CHECK_STR(data, "e two");
    CHECK(piece.stream == CSN_STDOUT && piece.offset == 2 && piece.len == 5);
    piece = read_at(&log, 7, data, sizeof(data));
    CHECK(piece.stream == CSN_STDERR && strcmp(data, "err") == 0);
    piece = read_at(&log, 100, data, sizeof(data));
    CHECK(piece.len == 0 && !piece.is_end);
    log.is_end = true;
    CHECK(read_at(&log, 10, data, sizeof(data)).is_end);
    CHECK(!read_at(&log, 9, data, sizeof(data)).is_end);
    csn_kept_log_done(&log);
}

TEST(a_kept_log_drops_its_head_and_says_so)
{
    static char block[64 * 1024];
    csn_kept_log log;
    csn_log_piece piece;
    int64_t total = 0;
    char data[8];

    csn_kept_log_init(&log);
    for (int i = 0; total < 3 * (int64_t) CSN_KEPT_LOG_MAX; i++, total += sizeof(block)) {
        memset(block, 'a' + i % 26, sizeof(block));
        CHECK_INT(csn_kept_log_put(&log, i % 2 ? CSN_STDERR : CSN_STDOUT, block, sizeof(block)), 0);
    }
    CHECK(log.text.len <= CSN_KEPT_LOG_MAX + CSN_KEPT_LOG_MAX / 4);
    piece = read_at(&log, 0, data, sizeof(data));
    CHECK(piece.offset == log.base && piece.len == 7);
    CHECK(data[0] == 'a' + piece.offset / (int64_t) sizeof(block) % 26);
    CHECK(piece.stream == (piece.offset / (int64_t) sizeof(block) % 2 ? CSN_STDERR : CSN_STDOUT));
    for (int i = 0; i < 4 << 20; i++) /* a stream that changes with every byte stays bounded, too */
        CHECK_INT(csn_kept_log_put(&log, i % 2 ? CSN_STDERR : CSN_STDOUT, "x", 1), 0);
    CHECK(log.runs.len <= CSN_KEPT_LOG_MAX + sizeof(block));
    csn_kept_log_done(&log);
}
