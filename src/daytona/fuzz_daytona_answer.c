/* SPDX-License-Identifier: Apache-2.0 */
/* Every reader of what a service answers, on arbitrary bytes; the first byte chooses. What is shown to people is one line that
 * can't drive a terminal and never holds the key. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "answer_files.h"
#include "answer_named.h"
#include "answer_sessions.h"
#include "base/utf8.h"
#include "marks.h"
#include "script.h"
#include "url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEY "dtn_k"

static void must(int ok)
{
    if (!ok)
        abort();
}

static void check_words(const char *words)
{
    size_t len = strlen(words);

    must(len < CSN_WORDS_SIZE && csn_utf8_valid(words, len) && !strstr(words, KEY));
    for (size_t i = 0; i < len; i++)
        must((unsigned char) words[i] >= ' ' && words[i] != 0x7f);
}

static void check_dto(const csn_dto *dto)
{
    csn_origin origin;
    char words[CSN_WORDS_SIZE];

    must(dto->id[0] && strlen(dto->id) < CSN_ANY_ID_SIZE && !strpbrk(dto->id, "/.?#% "));
    must(dto->n_labels <= CSN_DTO_LABELS_MAX && dto->state_word[0]);
    must(dto->cpu_milli >= -1 && dto->memory_bytes >= -1 && dto->disk_bytes >= -1);
    must(dto->stop_min >= 0 && dto->ttl_ms >= 0);
    for (size_t i = 0; i < dto->n_labels; i++)
        must(dto->labels[i].key && dto->labels[i].value);
    must(!dto->toolbox[0] || csn_origin_parse(dto->toolbox, &origin) == 0);
    csn_words_of(dto->reason, strlen(dto->reason), KEY, words);
    check_words(words);
}

static void fuzz_list(const char *data, size_t len)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;
    const char *cursor;
    csn_dto dto;

    if (csn_dto_list_parse(data, len, &doc, &items, &cursor, NULL) < 0)
        return;
    for (size_t i = 0; i < csn_json_count(items); i++)
        if (csn_dto_read(csn_json_at(items, i), &dto, NULL) >= 0)
            check_dto(&dto);
}

static void fuzz_url(const char *data, size_t len)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf escaped = CSN_BUF_INIT;
    csn_origin o;

    csn_buf_append(&text, data, len);
    (void) csn_url_escape(&escaped, text.data);
    must(!strpbrk(escaped.data, "/?#&= \r\n"));
    if (csn_origin_parse(text.data, &o) == 0) {
        must(o.host.len > 0 && o.port > 0 && o.port < 65536);
        must(csn_url_may_have_key(text.data, text.data));
        must(csn_url_may_have_key("https://a", text.data) ==
             (o.is_https || csn_origin_is_loopback(&o)));
    }
}

/* A log's text is the same however it is cut, and never longer than what came. */
static void fuzz_marks(const char *data, size_t len)
{
    csn_auto(buf) csn_buf once = CSN_BUF_INIT;
    csn_auto(buf) csn_buf twice = CSN_BUF_INIT;
    csn_marks whole = { 0 }, bytes = { 0 };
    csn_stream stream;
    csn_script_word word;
    const char *text;
    size_t n;

    for (size_t at = 0; at < len;) {
        at += csn_marks_next(&whole, data + at, len - at, &stream, &text, &n);
        csn_buf_append(&once, text, n);
    }
    for (size_t at = 0; at < len;) {
        at += csn_marks_next(&bytes, data + at, 1, &stream, &text, &n);
        csn_buf_append(&twice, text, n);
    }
    must(once.len <= len && once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    must(whole.stream == bytes.stream && whole.n_held == bytes.n_held);
    if (csn_script_read(data, len, "n", &word))
        must(word.pid > 0 || (word.code < 0 && word.why));
}

static void fuzz_command(const char *data, size_t len)
{
    char id[CSN_ANY_ID_SIZE];
    bool is_ended;
    int code = -1;

    if (csn_command_answer_parse(data, len, &is_ended, &code, NULL) >= 0)
        must(code >= -1 && code <= 255);
    if (csn_started_answer_parse(data, len, id, NULL) >= 0)
        must(id[0] && !strpbrk(id, "/.?#% "));
}

static void check_file(const csn_file_info *info)
{
    must(info->path && info->owner && info->group && strlen(info->path) <= 4096);
    must(info->kind >= CSN_FILE_REGULAR && info->kind <= CSN_FILE_DEVICE && info->mode <= 07777);
    must(info->size_bytes >= -1 && (info->kind == CSN_FILE_SYMLINK || !info->target));
}

static void fuzz_files(const char *data, size_t len)
{
    csn_auto(json) csn_json *doc = NULL;
    const csn_json *items;
    csn_file_match match;
    csn_file_info info;

    if (csn_array_answer_parse(data, len, NULL, &doc, &items, NULL) < 0)
        return;
    for (size_t i = 0; i < csn_json_count(items); i++) {
        if (csn_file_answer_read(csn_json_at(items, i), &info, NULL) >= 0)
            check_file(&info);
        if (csn_match_answer_read(csn_json_at(items, i), &match, NULL) >= 0)
            must(match.path[0] && match.line > 0 && match.text_len <= 4096);
    }
}

/* Each takes its own bytes only, so it comes to an end. */
static void fuzz_records(const char *data, size_t len)
{
    csn_file_records records = { .data = data, .len = len };
    csn_file_info info;
    size_t before = 0;

    for (; csn_file_records_next(&records, &info, NULL) == 1; before = records.at) {
        check_file(&info);
        must(records.at > before && records.at <= len);
    }
}

static void check_named(const csn_named_dto *dto)
{
    size_t n = 0;

    must(dto->id[0] && strlen(dto->id) < CSN_ANY_ID_SIZE && !strpbrk(dto->id, "/.?#% "));
    must(dto->name[0] && !strpbrk(dto->name, "\n\r\x1b") && dto->size_bytes >= -1);
    while (dto->entrypoint[n])
        n++;
    must(n <= CSN_ENTRYPOINT_MAX && csn_named_state_of(dto) <= CSN_NAMED_FAILED);
}

static void fuzz_named(const char *data, size_t len)
{
    csn_auto(json) csn_json *one = NULL, *page = NULL;
    const csn_json *items;
    csn_named_dto dto;
    int64_t n_pages;

    if (csn_named_parse(data, len, &one, &dto, NULL) >= 0)
        check_named(&dto);
    if (csn_page_answer_parse(data, len, &page, &items, &n_pages, NULL) < 0)
        return;
    must(n_pages >= 0);
    for (size_t i = 0; i < csn_json_count(items); i++)
        if (csn_named_read(csn_json_at(items, i), &dto, NULL) >= 0)
            check_named(&dto);
}

static void fuzz_sessions(const char *data, size_t len)
{
    csn_auto(json) csn_json *doc = NULL;
    char name[CSN_SESSION_NAME_SIZE];
    csn_script_title title;
    csn_session_dto dto;

    if (csn_session_answer_parse(data, len, &doc, &dto, NULL) < 0)
        return;
    must(dto.number > 0 && dto.command_id[0] && !strpbrk(dto.command_id, "/.?#% "));
    must(dto.exit_code >= -1 && dto.exit_code <= 255);
    csn_session_name(dto.number, name);
    must(strcmp(name, csn_json_get_str(doc, "sessionId", "")) == 0);
    csn_script_read_title(dto.command, dto.command_len, &title);
    must(title.started_ms >= 0 && strlen(title.text) <= dto.command_len);
}

static void fuzz_terminal(const char *data, size_t len)
{
    csn_terminal_word word;

    csn_terminal_word_read(data, len, &word);
    must(word.exit_code >= -1 && word.exit_code <= 255 && word.signal >= 0 && word.signal <= 64);
    must((word.kind == CSN_TERMINAL_EXITED) == (word.exit_code >= 0));
}

static void fuzz_replaced(const char *data, size_t len)
{
    csn_auto(json) csn_json *doc = NULL;
    const char *why;
    bool is_done;

    if (csn_replace_answer_parse(data, len, &doc, &is_done, &why, NULL) >= 0)
        must(doc && why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    csn_auto(json) csn_json *doc = NULL;
    const char *text = (const char *) data + 1, *url;
    char words[CSN_WORDS_SIZE];
    csn_metrics_answer metrics;
    csn_exec_answer answer;
    csn_dto dto;

    if (size < 1)
        return 0;
    switch (data[0]) {
    case 's':
        if (csn_dto_parse(text, size - 1, &doc, &dto, NULL) >= 0)
            check_dto(&dto);
        break;
    case 'l':
        fuzz_list(text, size - 1);
        break;
    case 'e':
        if (csn_exec_answer_parse(text, size - 1, &doc, &answer, NULL) >= 0)
            must(answer.exit_code >= -1 && answer.exit_code <= 255 &&
                 answer.output[answer.output_len] == '\0');
        break;
    case 'm':
        if (csn_metrics_answer_parse(text, size - 1, &metrics, NULL) >= 0)
            must(metrics.memory_bytes >= -1 && metrics.disk_bytes >= -1);
        break;
    case 'u':
        if (csn_url_answer_parse(text, size - 1, &doc, &url, NULL) >= 0)
            must(url[0] != '\0');
        break;
    case 'c':
        fuzz_command(text, size - 1);
        break;
    case 'f':
        fuzz_files(text, size - 1);
        break;
    case 'F':
        fuzz_records(text, size - 1);
        break;
    case 'S':
        fuzz_sessions(text, size - 1);
        break;
    case 't':
        fuzz_terminal(text, size - 1);
        break;
    case 'n':
        fuzz_named(text, size - 1);
        break;
    case 'r':
        fuzz_replaced(text, size - 1);
        break;
    case 'k':
        fuzz_marks(text, size - 1);
        break;
    case 'o':
        fuzz_url(text, size - 1);
        break;
    default:
        csn_error_words(text, size - 1, KEY, words);
        check_words(words);
    }
    return 0;
}
