/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of a session, without a service: what is sent, and what comes back, cut anywhere. */
#include <string.h>

#include "answer.h"
#include "base/buf.h"
#include "csn_test.h"
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
