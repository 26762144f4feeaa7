/* SPDX-License-Identifier: Apache-2.0 */
/* What a service answers, and what is sent to it, without one. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answer.h"
#include "base/fd.h"
#include "call.h"
#include "csn_test.h"
#include "script.h"
#include "url.h"

/* ---- URLs ---- */

TEST(urls_are_taken_apart_as_the_http_library_would)
{
    csn_origin o;

    CHECK_INT(csn_origin_parse("https://app.example.io/api", &o), 0);
    CHECK(o.is_https && o.port == 443 && csn_str_is(o.host, "app.example.io"));
    CHECK_INT(csn_origin_parse("http://127.0.0.1:3986/api", &o), 0);
    CHECK(!o.is_https && o.port == 3986 && csn_origin_is_loopback(&o));
    CHECK_INT(csn_origin_parse("http://[::1]:80", &o), 0);
    CHECK(o.port == 80 && csn_str_is(o.host, "::1") && csn_origin_is_loopback(&o));
}

TEST(urls_that_could_mean_two_things_are_none)
{
    static const char *const bad[] = {
        "",
        "app.example.io/api",
        "ftp://x/",
        "HTTP://x",
        "https://",
        "https:///api",
        "https://user@host/",
        "https://user:secret@host/",
        "https://host:0/",
        "https://host:65536/",
        "https://host:/",
        "https://host:80:90/",
        "https://ho st/",
        "https://host/\r\nX: y",
        "https://host?x",
        "https://host/#x",
        "https://host\\@evil/",
        "https://[::1/",
        "https://[]/",
        "https://[::1]x/",
        "https://h\xc3\xb6st/",
        "https://a/b\x7f",
    };
    csn_origin o;

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        if (csn_origin_parse(bad[i], &o) == 0)
            FAIL("taken: %s", bad[i]);
}

TEST(only_this_machine_is_this_machine)
{
    static const char *const others[] = {
        "http://127.example.com/", "http://127.0.0.1.example.com/", "http://128.0.0.1/",
        "http://127.0.0/",         "http://127.0.0.256/",           "http://localhost.example.com/",
        "http://1.127.0.1/",       "http://127.0.0.0x1/",
    };
    csn_origin o;

    for (size_t i = 0; i < CSN_COUNT(others); i++)
        if (csn_origin_parse(others[i], &o) == 0 && csn_origin_is_loopback(&o))
            FAIL("loopback: %s", others[i]);
}

TEST(the_key_goes_where_nobody_listens_on_the_way)
{
    CHECK(csn_url_may_have_key("http://10.0.0.1/api", "http://10.0.0.1/toolbox"));
    CHECK(csn_url_may_have_key("https://api.x/", "https://proxy.y:8443/toolbox"));
    CHECK(csn_url_may_have_key("http://127.0.0.1:1/api", "http://localhost:2/toolbox"));
    CHECK(csn_url_may_have_key("https://API.x/", "https://api.x/toolbox"));
    CHECK(!csn_url_may_have_key("https://api.x/", "http://api.x/toolbox"));
    CHECK(!csn_url_may_have_key("https://api.x/", "http://10.0.0.1/toolbox"));
    CHECK(!csn_url_may_have_key("http://10.0.0.1/api", "https://evil/toolbox"));
    CHECK(!csn_url_may_have_key("http://10.0.0.1/api", "http://10.0.0.1:81/toolbox"));
    CHECK(!csn_url_may_have_key("http://127.0.0.1/api", "http://evil/toolbox"));
}

TEST(anything_is_one_value_of_a_query)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    CHECK_INT(csn_url_escape(&out, "/home/a b?&=#%\n\xc3\xbc~"), 0);
    CHECK_STR(out.data, "%2Fhome%2Fa%20b%3F%26%3D%23%25%0A%C3%BC~");
}

/* ---- sandboxes ---- */

#define GOOD_ID "11111111-2222-4333-8444-555555555555"

static int read_dto(const char *text, csn_dto *dto, csn_error *err)
{
    static csn_json *doc;

    doc = csn_json_free(doc);
    return csn_dto_parse(text, strlen(text), &doc, dto, err);
}

TEST(a_sandbox_is_read)
{
    csn_dto d;
    csn_error err;

    CHECK_INT(
        read_dto("{\"id\":\"" GOOD_ID
                 "\",\"name\":\"n\",\"state\":\"started\",\"labels\":{\"a\":\"b\"},"
                 "\"toolboxProxyUrl\":\"http://127.0.0.1:1/toolbox\",\"snapshot\":\"py\","
                 "\"createdAt\":\"2026-01-01T00:00:00.000Z\",\"networkBlockAll\":true,\"new\":[1]}",
                 &d, &err),
        CSN_OK);
    CHECK_STR(d.id, GOOD_ID);
    CHECK_STR(d.toolbox, "http://127.0.0.1:1/toolbox");
    CHECK_STR(d.labels[0].value, "b");
    CHECK(d.state == CSN_STATE_STARTED && !d.has_failed && d.blocks_network && d.created_ms > 0);
    CHECK_INT(read_dto("{\"id\":\"x\",\"state\":\"a new word\"}", &d, &err), CSN_OK);
    CHECK(d.state == CSN_STATE_CREATING && d.toolbox[0] == '\0');
    CHECK_INT(read_dto("{\"id\":\"x\",\"state\":\"build_failed\",\"errorReason\":null}", &d, &err),
              CSN_OK);
    CHECK(d.has_failed && d.reason[0] == '\0');
}

TEST(a_sandbox_that_is_none_is_refused)
{
    static const char *const bad[] = {
        "",
        "null",
        "7",
        "[]",
        "{}",
        "{\"id\":null,\"state\":\"started\"}",
        "{\"id\":\"\",\"state\":\"started\"}",
        "{\"id\":\"a/b\",\"state\":\"started\"}",
        "{\"id\":\"..\",\"state\":\"started\"}",
        "{\"id\":\"a?b\",\"state\":\"started\"}",
        "{\"id\":[],\"state\":\"started\"}",
        "{\"id\":\"a\"}",
        "{\"id\":\"a\",\"state\":7}",
        "{\"id\":\"a\",\"state\":\"a word that is much longer than any state\"}",
        "{\"id\":\"a\",\"state\":\"started\",\"name\":7}",
        "{\"id\":\"a\",\"state\":\"started\",\"labels\":7}",
        "{\"id\":\"a\",\"state\":\"started\",\"labels\":{\"a\":null}}",
        "{\"id\":\"a\",\"state\":\"started\",\"toolboxProxyUrl\":\"x\"}",
        "{\"id\":\"a\",\"state\":\"started\",\"toolboxProxyUrl\":\"http://h/\"}",
        "{\"id\":\"a\",\"state\":\"started\"} x",
        "{\"id\":\"a\",\"state\":\"sta\\u0000rted\"}",
    };
    csn_dto d;
    csn_error err;

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        if (read_dto(bad[i], &d, &err) != CSN_E_PROTOCOL)
            FAIL("not refused: %s", bad[i]);
}

TEST(a_list_is_read_page_by_page)
{
    static const char good[] =
        "{\"items\":[{\"id\":\"a\",\"state\":\"started\"}],\"nextCursor\":\"c\"}";
    static const char *const bad[] = { "[]", "{\"items\":{}}", "{\"items\":[],\"nextCursor\":7}" };
    const csn_json *items;
    csn_json *doc;
    const char *cursor;
    csn_error err;

    CHECK_INT(csn_dto_list_parse(good, sizeof(good) - 1, &doc, &items, &cursor, &err), CSN_OK);
    CHECK_INT(csn_json_count(items), 1);
    CHECK_STR(cursor, "c");
    csn_json_free(doc);
    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_INT(csn_dto_list_parse(bad[i], strlen(bad[i]), &doc, &items, &cursor, &err),
                  CSN_E_PROTOCOL);
}

/* ---- commands ---- */

static int read_exec(const char *text, csn_exec_answer *a)
{
    static csn_json *doc;
    csn_error err;

    doc = csn_json_free(doc);
    return csn_exec_answer_parse(text, strlen(text), &doc, a, &err);
}

TEST(the_end_of_a_command_is_read)
{
    static const char *const bad[] = {
        "{}",
        "{\"exitCode\":0}",
        "{\"result\":\"\"}",
        "{\"exitCode\":\"0\",\"result\":\"\"}",
        "{\"exitCode\":0.0,\"result\":\"\"}",
        "{\"exitCode\":256,\"result\":\"\"}",
        "{\"exitCode\":-2,\"result\":\"\"}",
        "{\"exitCode\":0,\"result\":null}",
        "{\"exitCode\":0,\"result\":[\"a\"]}",
    };
    csn_exec_answer a;

    CHECK_INT(read_exec("{\"exitCode\":3,\"result\":\"a\\u0000b\\n\",\"artifacts\":{}}", &a),
              CSN_OK);
    CHECK_INT(a.exit_code, 3);
    CHECK_MEM(a.output, a.output_len, "a\0b\n", 4);
    CHECK_INT(read_exec("{\"exitCode\":-1,\"result\":\"\"}", &a), CSN_OK);
    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        if (read_exec(bad[i], &a) != CSN_E_PROTOCOL)
            FAIL("not refused: %s", bad[i]);
}

/* What `shell` makes of the command line for argv, run as a service runs it: on the shell's stdin. */
static void through_shell(const char *shell, const char *const *argv, csn_buf *out)
{
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;
    csn_auto(fd) int in = memfd_create("line", MFD_CLOEXEC);
    int ends[2], status = 0;
    pid_t pid;

    CHECK_INT(csn_shell_command(&line, argv), 0);
    CHECK(csn_write_all(in, line.data, line.len) == 0 && lseek(in, 0, SEEK_SET) == 0);
    CHECK(pipe(ends) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void) dup2(in, 0);
        (void) dup2(ends[1], 1);
        (void) dup2(ends[1], 2);
        (void) close(ends[0]);
        (void) close(ends[1]);
        (void) execlp(shell, shell, (char *) NULL);
        _exit(127);
    }
    (void) close(ends[1]);
    csn_buf_clear(out);
    CHECK_INT(csn_read_to_buf(ends[0], out, 1 << 20), 0);
    (void) close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    csn_buf_printf(out, "status %d\n", WEXITSTATUS(status));
}

TEST(a_shell_takes_a_command_apart_into_the_same_words)
{
    static const char *const argv[] = {
        "printf",       "[%s]", "",      "it's", "$HOME `id` $(id) \\ \\n !! * ~ # ;&|<>",
        "two\nlines\n", "-x",   "\"q\"", "ünï",  NULL
    };
    static const char want[] =
        "[][it's][$HOME `id` $(id) \\ \\n !! * ~ # ;&|<>][two\nlines\n][-x][\"q\"][ünï]status 0\n";
    static const char *const shells[] = { "sh", "bash" };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    for (size_t i = 0; i < CSN_COUNT(shells); i++) {
        through_shell(shells[i], argv, &out);
        CHECK_STR(out.data, want);
    }
}

TEST(bytes_that_are_no_text_reach_the_command_too)
{
    static const char *const argv[] = { "printf", "%s", "a\xff'\\\x01z", NULL };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_auto(buf) csn_buf line = CSN_BUF_INIT;

    through_shell("bash", argv, &out);
    CHECK_STR(out.data, "a\xff'\\\x01zstatus 0\n");
    CHECK_INT(csn_shell_command(&line, argv), 0);
    for (size_t i = 0; i < line.len; i++)
        CHECK((unsigned char) line.data[i] < 0x80); /* so it can be said in JSON */
}

TEST(a_command_has_no_stdin_and_the_shell_says_nothing_of_its_own)
{
    static const char *const reads[] = { "cat", NULL };
    static const char *const dies[] = { "sh", "-c", "echo out; echo err >&2; kill -9 $$", NULL };
    static const char *const absent[] = { "/no/such/program", NULL };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    through_shell("bash", reads, &out);
    CHECK_STR(out.data, "status 0\n");
    through_shell("bash", dies, &out);
    CHECK_STR(out.data, "out\nerr\nstatus 137\n");
    through_shell("bash", absent, &out);
    CHECK(strstr(out.data, "/no/such/program") && strstr(out.data, "status 127\n"));
}

/* ---- words ---- */

static const char *words_of(const char *body, const char *secret)
{
    static char out[CSN_WORDS_SIZE];

    csn_error_words(body, strlen(body), secret, out);
    return out;
}

TEST(a_services_words_are_one_harmless_line_without_the_key)
{
    char longer[600] = "{\"message\":\"";

    CHECK_STR(words_of("{\"message\":\"no room\",\"error\":\"x\"}", NULL), "no room");
    CHECK_STR(words_of("{\"error\":\"x\"}", NULL), "x");
    CHECK_STR(words_of("{\"message\":[\"first\",\"second\"]}", NULL), "first");
    CHECK_STR(words_of("{\"message\":{}}", NULL), "");
    CHECK_STR(words_of("<html>", NULL), "");
    CHECK_STR(words_of("{\"message\":\"a\\u001b[2Jb\\r\\nc\\u009bd\"}", NULL), "a [2Jb  c d");
    CHECK_STR(words_of("{\"message\":\"Bearer dtn_secret is dtn_secret\"}", "dtn_secret"),
              "Bearer [REDACTED] is [REDACTED]");
    memset(longer + strlen(longer), 'x', 500);
    memcpy(longer + 512, "\"}", 3);
    CHECK_INT(strlen(words_of(longer, "dtn_secret")), CSN_WORDS_SIZE - 1);
}

TEST(statuses_have_their_classes)
{
    CHECK_INT(csn_code_of_status(401), CSN_E_DENIED);
    CHECK_INT(csn_code_of_status(403), CSN_E_DENIED);
    CHECK_INT(csn_code_of_status(404), CSN_E_NOT_FOUND);
    CHECK_INT(csn_code_of_status(408), CSN_E_TIMEOUT);
    CHECK_INT(csn_code_of_status(504), CSN_E_TIMEOUT);
    CHECK_INT(csn_code_of_status(429), CSN_E_BUSY);
    CHECK_INT(csn_code_of_status(400), CSN_E_INVALID);
    CHECK_INT(csn_code_of_status(500), CSN_E_SYSTEM);
    CHECK_INT(csn_code_of_status(302), CSN_E_PROTOCOL);
}

/* ---- what a sandbox has and uses ---- */

#define A_BOX(more) "{\"id\":\"" GOOD_ID "\",\"state\":\"started\"" more "}"

TEST(limits_and_timers_are_read_and_what_is_not_said_is_not_known)
{
    csn_dto d;
    csn_error err;

    CHECK_INT(read_dto(A_BOX(",\"cpu\":1.5,\"memory\":2,\"disk\":3,\"autoStopInterval\":15,"
                             "\"autoDeleteInterval\":0,\"createdAt\":\"2026-01-01T00:00:00.000Z\","
                             "\"autoDestroyAt\":\"2026-01-01T01:00:00.000Z\""),
                       &d, &err),
              CSN_OK);
    CHECK(d.cpu_milli == 1500 && d.memory_bytes == INT64_C(2) << 30);
    CHECK(d.disk_bytes == INT64_C(3) << 30 && d.stop_min == 15 && d.delete_min == 0);
    CHECK_INT(d.ttl_ms, 3600 * 1000);
    CHECK_INT(read_dto(A_BOX(",\"cpu\":null"), &d, &err), CSN_OK);
    CHECK(d.cpu_milli == -1 && d.memory_bytes == -1 && d.disk_bytes == -1);
    CHECK(d.stop_min == 0 && d.delete_min == -1 && d.ttl_ms == 0);
}

TEST(limits_that_are_none_are_refused)
{
    static const char *const bad[] = {
        A_BOX(",\"cpu\":\"1\""),           A_BOX(",\"memory\":-1"),
        A_BOX(",\"disk\":1e30"),           A_BOX(",\"memory\":[]"),
        A_BOX(",\"autoStopInterval\":-1"), A_BOX(",\"autoDeleteInterval\":99999999999")
    };
    csn_dto d;
    csn_error err;

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        if (read_dto(bad[i], &d, &err) != CSN_E_PROTOCOL)
            FAIL("taken: %s", bad[i]);
}

TEST(metrics_are_read)
{
    static const char *const bad[] = { "[]", "{\"memUsed\":true}", "{\"diskUsed\":-5}", "x" };
    static const char text[] = "{\"memUsed\":4096,\"cpuUsedPct\":1.5}";
    csn_metrics_answer m;
    csn_error err;

    CHECK_INT(csn_metrics_answer_parse(text, sizeof(text) - 1, &m, &err), CSN_OK);
    CHECK(m.memory_bytes == 4096 && m.disk_bytes == -1);
    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_INT(csn_metrics_answer_parse(bad[i], strlen(bad[i]), &m, &err), CSN_E_PROTOCOL);
}
