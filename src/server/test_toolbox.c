/* The toolbox's small parts, without a sandbox: versions, words, variables, charts, ports, logs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "csn_test.h"
#include "server/artifacts.h"
#include "server/base64url.h"
#include "server/cmdlog.h"
#include "server/ending.h"
#include "server/envs.h"
#include "server/plain_words.h"
#include "server/ports.h"
#include "server/session.h"
#include "server/version.h"

TEST(versions_decide_how_logs_look)
{
    static const struct {
        const char *version, *split;
        csn_log_style style;
    } cases[] = {
        { "0.218.0", NULL, CSN_LOG_JSON },
        { "0.167.0", NULL, CSN_LOG_JSON },
        { "0.166.9", NULL, CSN_LOG_MARKED },
        { "0.27.0", NULL, CSN_LOG_MARKED },
        { "0.26.5", NULL, CSN_LOG_PLAIN },
        { "1.0.0", NULL, CSN_LOG_JSON },
        { "0.150.0a1", NULL, CSN_LOG_MARKED },
        { "v0.150.0", NULL, CSN_LOG_MARKED },
        { "unknown", NULL, CSN_LOG_JSON },
        { "0.1", NULL, CSN_LOG_JSON },
        { "0.0.0.dev1", NULL, CSN_LOG_JSON },
        { NULL, NULL, CSN_LOG_PLAIN },
        { NULL, "true", CSN_LOG_MARKED },
        { NULL, "no", CSN_LOG_PLAIN },
        { "99999999999999.1.1", NULL, CSN_LOG_JSON },
    };

    for (size_t i = 0; i < CSN_COUNT(cases); i++)
        if (csn_log_style_of(cases[i].version, cases[i].split) != cases[i].style)
            FAIL("%s", cases[i].version ? cases[i].version : "none");
}

static size_t n_words(const char *command)
{
    char text[5000], *words[CSN_PLAIN_WORDS_MAX];

    CHECK(snprintf(text, sizeof(text), "%s", command) < (int) sizeof(text));
    size_t n = csn_plain_words(text, words);
    if (n == 0)
        CHECK_STR(text, command);
    return n;
}

TEST(only_plain_words_go_without_a_shell)
{
    static const char *const shell[] = { "",      "   ",     "a;b",       "a | b",   "a $x",
                                         "a *",   "a 'b'",   "A=1 b",     "cd /tmp", "a\nb",
                                         "a > b", "a &",     "~/x",       "a {b,c}", "exit 3",
                                         "# a",   "time ls", "echo -n a", "a \\ b",  "a b\t",
                                         "! a",   "a [b]",   "source x",  "a=b" };

    CHECK_INT(n_words("ls"), 1);
    CHECK_INT(n_words("  /bin/ls   -la  /tmp "), 3);
    CHECK_INT(n_words("python3 x.py --n=3"), 3);
    CHECK_INT(n_words("echo hi"), 2);
    for (size_t i = 0; i < CSN_COUNT(shell); i++)
        if (n_words(shell[i]) != 0)
            FAIL("'%s' needs a shell", shell[i]);
    char many[2 * CSN_PLAIN_WORDS_MAX + 2]; /* "a", and a word more than there may be */
    for (size_t i = 0; i < sizeof(many) - 1; i++)
        many[i] = i % 2 == 0 ? 'a' : ' ';
    many[sizeof(many) - 1] = '\0';
    CHECK_INT(n_words(many), 0);
}

TEST(variables_are_checked_and_the_last_one_counts)
{
    static const char *const given[] = { "A=1", "B=2", NULL };
    const char *bad, *text = "{\"A\":\"x=y\",\"C\":\"\"}";
    char **env = csn_envs_copy(given);
    csn_json *doc;

    CHECK(csn_json_parse(text, strlen(text), &doc, NULL) == 0);
    CHECK_INT(csn_envs_add(&env, doc, &bad), 0);
    CHECK_STR(env[0], "A=x=y");
    CHECK_STR(env[1], "B=2");
    CHECK_STR(env[2], "C=");
    CHECK(env[3] == NULL);
    csn_json_free(doc);
    CHECK(csn_json_parse("{\"A B\":\"1\"}", 11, &doc, NULL) == 0);
    CHECK(csn_envs_add(&env, doc, &bad) < 0);
    CHECK_STR(bad, "A B");
    CHECK(!csn_envs_is_good(doc));
    csn_json_free(doc);
    csn_envs_free(env);
    CHECK(csn_envs_is_key("_a1") && !csn_envs_is_key("") && !csn_envs_is_key("1a") &&
          !csn_envs_is_key("a-b"));
}

TEST(charts_leave_the_text)
{
    csn_auto(buf) csn_buf rest = CSN_BUF_INIT, charts = CSN_BUF_INIT;
    const char *text =
        "a\n" CSN_ARTIFACT_MARKER "{\"type\":\"chart\",\"value\":{\"x\":1}}\nb" CSN_ARTIFACT_MARKER
        "{}\n" CSN_ARTIFACT_MARKER "{\"type\":\"chart\",\"value\":{\"x\":2}}\n" CSN_ARTIFACT_MARKER
        "{\"type\":\"other\"}\nend";

    csn_artifacts_split(text, strlen(text), &rest, &charts);
    CHECK_STR(charts.data, "{\"x\":1},{\"x\":2}");
    CHECK_STR(rest.data,
              "a\nb" CSN_ARTIFACT_MARKER "{}\n" CSN_ARTIFACT_MARKER "{\"type\":\"other\"}\nend");
}

TEST(listening_ports_are_found)
{
    const char *text =
        "  sl  local_address rem_address   st\n"
        "   0: 0100007F:0BB8 00000000:0000 0A 0\n"
        "   1: 0100007F:0BB9 00000000:0000 01 0\n"
        "   2: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0\n";
    csn_ports ports;

    csn_ports_read(text, strlen(text), &ports);
    CHECK(csn_ports_has(&ports, 3000) && csn_ports_has(&ports, 8080) &&
          !csn_ports_has(&ports, 3001));
    CHECK(!csn_ports_has(&ports, 70000));
}

TEST(base64url_is_read_with_and_without_padding)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    CHECK_INT(csn_base64url_decode(CSN_STR("eyJhIjoiPz8_In0="), &out), 0);
    CHECK_STR(out.data, "{\"a\":\"???\"}");
    csn_buf_clear(&out);
    CHECK_INT(csn_base64url_decode(CSN_STR("eyJhIjoiPz8_In0"), &out), 0);
    CHECK_STR(out.data, "{\"a\":\"???\"}");
    CHECK(csn_base64url_decode(CSN_STR("a"), &out) < 0 &&
          csn_base64url_decode(CSN_STR("ab+/"), &out) < 0);
}

static void read_all(const csn_cmdlog *log, int which, bool is_marked, int64_t limit, csn_buf *out)
{
    csn_cmdlog_cursor cursor = { .limit = limit };

    csn_buf_clear(out);
    while (csn_cmdlog_read(log, &cursor, which, is_marked, out))
        ;
    CHECK_INT(out->error, 0);
    csn_cmdlog_cursor_done(&cursor);
}

TEST(all_logs_together_are_bounded)
{
    int dir = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static char block[1 << 16];
    csn_cmdlog a, b;

    csn_cmdlog_total_max = 5 * (int64_t) sizeof(block);
    csn_cmdlog_init(&a, dir);
    csn_cmdlog_init(&b, dir);
    for (int i = 0; i < 4; i++)
        csn_cmdlog_append(&a, CSN_STDOUT, block, sizeof(block));
    CHECK_INT(a.n_dropped, 0);
    csn_cmdlog_append(&b, CSN_STDOUT, block, sizeof(block));
    CHECK_INT(b.n_dropped, sizeof(block));
    csn_cmdlog_done(&a);
    csn_cmdlog_done(&b);
    csn_cmdlog_init(&b, dir);
    csn_cmdlog_append(&b, CSN_STDOUT, block, sizeof(block)); /* what went made room */
    CHECK_INT(b.n_dropped, 0);
    csn_cmdlog_done(&b);
    close(dir);
}

TEST(a_log_is_read_as_it_was_written_from_memory_and_file)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT, wanted = CSN_BUF_INIT, errors = CSN_BUF_INIT;
    int dir = open(csn_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    csn_cmdlog_cursor follower = { 0 };
    csn_auto(buf) csn_buf followed = CSN_BUF_INIT;
    char line[64];
    csn_cmdlog log;

    csn_cmdlog_init(&log, dir);
    read_all(&log, 0, true, 0, &out);
    CHECK_INT(out.len, 0);
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(line, sizeof(line), "line %d\n", i);
        csn_stream stream = i % 3 ? CSN_STDOUT : CSN_STDERR;
        csn_cmdlog_append(&log, stream, line, (size_t) n);
        (void) csn_buf_append(&wanted, line, (size_t) n);
        if (stream == CSN_STDERR)
            (void) csn_buf_append(&errors, line, (size_t) n);
        if (i % 7 == 0) {
            csn_cmdlog_close(&log); /* it is opened again */
            (void) csn_cmdlog_read(&log, &follower, 0, false, &followed);
        }
    }
    CHECK(log.head.len <= CSN_CMDLOG_MEMORY && log.name[0]);
    read_all(&log, 0, false, 0, &out);
    CHECK_MEM(out.data, out.len, wanted.data, wanted.len);
    read_all(&log, CSN_STDERR, false, 0, &out);
    CHECK_MEM(out.data, out.len, errors.data, errors.len);
    while (csn_cmdlog_read(&log, &follower, 0, false, &followed))
        ;
    CHECK_MEM(followed.data, followed.len, wanted.data, wanted.len);
    csn_cmdlog_cursor_done(&follower);
    read_all(&log, 0, true, 4 + 7, &out);
    CHECK_STR(out.data, "\2\2\2line 0\n");
    csn_cmdlog_done(&log);
    CHECK(close(dir) == 0);
}

TEST(a_report_is_a_nonce_and_a_status)
{
    char nonce[33];
    int code;

    CHECK_INT(csn_session_parse_report("0123456789abcdef0123456789abcdef 255", 36, nonce, &code),
              0);
    CHECK_INT(code, 255);
    CHECK(csn_session_parse_report("0123456789abcdef0123456789abcdef 256", 36, nonce, &code) < 0);
    CHECK(csn_session_parse_report("0123456789abcdef0123456789abcde 1", 33, nonce, &code) < 0);
    CHECK(csn_session_parse_report("", 0, nonce, &code) < 0);
}

TEST(deaths_have_words)
{
    csn_receipt r = { .ended = CSN_ENDED_OOM, .memory_limit_bytes = 512 << 20 };
    char text[200];

    csn_ending_text(&r, "the command", text, sizeof(text));
    CHECK_STR(text, "the command was killed: out of memory (limit 512 MiB)");
    CHECK(csn_ending_is_limit(&r));
    r = (csn_receipt){ .ended = CSN_ENDED_EXIT, .exit_code = 2 };
    csn_ending_text(&r, "x", text, sizeof(text));
    CHECK_STR(text, "x ended with exit code 2");
    CHECK(!csn_ending_is_limit(&r));
}
