#include <stdio.h>
#include <stdlib.h>

#include <caisson/blocks.h>

#include "base/auto.h"
#include "base/buf.h"
#include "csn_test.h"

static char shown[4096];

/* "lang:code|lang:code" with line feeds as '/' and CR as '^'. */
static const char *blocks_in_mode(const char *text, int mode)
{
    csn_code_list list = { 0 };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    CHECK_INT(csn_md_extract(text, strlen(text), mode, &list, NULL), CSN_OK);
    for (size_t i = 0; i < list.n; i++)
        csn_buf_printf(&out, "%s%s:%s", i ? "|" : "", list.blocks[i].language, list.blocks[i].code);
    csn_code_list_done(&list);
    for (size_t i = 0; i < out.len; i++)
        out.data[i] = out.data[i] == '\n' ? '/' : out.data[i] == '\r' ? '^' : out.data[i];
    (void) snprintf(shown, sizeof(shown), "%s", out.data);
    return shown;
}

static const char *blocks(const char *text)
{
    return blocks_in_mode(text, CSN_MD_COMPATIBLE);
}

static const char *common(const char *text)
{
    return blocks_in_mode(text, CSN_MD_COMMONMARK);
}

TEST(c7_52_blocks_in_order_with_their_languages)
{
    CHECK_STR(blocks("a\n```python\nx = 1\ny\n```\nb\n```bash\nls\n```\n"),
              "python:x = 1/y|bash:ls");
    CHECK_STR(blocks("```\nx\n```"), ":x");
    CHECK_STR(blocks("no code"), "");
    CHECK_STR(blocks(""), "");
}

TEST(c7_52_indented_fence_and_blanks_before_language_with_crlf)
{
    CHECK_STR(blocks("  ```python\n  x\n  ```\n"), "python:  x");
    CHECK_STR(blocks("``` python\r\nx\r\n```\r\n"), "python:x");
    CHECK_STR(blocks("```  Py \t\r\na\r\nb\r\n  ```"), "Py:a^/b");
}

TEST(c5_what_does_not_open_a_block)
{
    CHECK_STR(blocks("```c++\nx\n```"), "");
    CHECK_STR(blocks("```python title=\"x\"\nx\n```"), "");
    CHECK_STR(blocks("~~~python\nx\n~~~"), "");
    CHECK_STR(blocks("```python\nx\n"), "");
}

TEST(c5_empty_pair_shifts_the_pairing)
{
    CHECK_STR(blocks("```\n```\n\ntext\n```\n"), ":```//text");
    CHECK_STR(blocks("```py\n\n```"), "py:");
}

TEST(c5_four_backticks_work_like_three)
{
    CHECK_STR(blocks("````python\nx\n````"), "python:x");
    CHECK_STR(blocks("````md\n```\nx\n```\n````"), "md:```/x");
}

TEST(c5_text_around_and_inside_the_body)
{
    CHECK_STR(blocks("see ```py\nx\n``` and ```sh\ny\n```z"), "py:x|sh:y");
    CHECK_STR(blocks("```py\n``` first\nx = '```'\n\ty  \n```"), "py:``` first/x = '```'/\ty  ");
    CHECK_STR(blocks("> ```py\n> x\n> ```\n"), "");
}

TEST(c5_word_characters_are_those_of_python)
{
    CHECK_STR(blocks("```größe\nx\n```"), "größe:x");
    CHECK_STR(blocks("```a\xe2\x80\x94\nx\n```"), "");
}

TEST(commonmark_fences_match_in_length_and_kind)
{
    CHECK_STR(common("````python title=\"x\"\n```\nx\n````\n"), "python:```/x");
    CHECK_STR(common("~~~ c++ `x`\na\n```\n~~~~\n"), "c++:a/```");
    CHECK_STR(common("```a`b\nx\n```\n"), ":");
    CHECK_STR(common("    ```py\n    x\n    ```\n"), "");
    CHECK_STR(common("```py\nx"), "py:x");
    CHECK_STR(common("```\n```\n```sh\nls\n```"), ":|sh:ls");
}

TEST(commonmark_lists_and_quotes_are_dedented)
{
    CHECK_STR(common("1. Do:\n\n   ```sh\n   ls\n     deep\n   ```\n"), "sh:ls/  deep");
    CHECK_STR(common("- ```py\n  x\n  ```\n"), "py:x");
    CHECK_STR(common("- a\n  - b\n\n    ```py\n    x\n    ```\n"), "py:x");
    CHECK_STR(common("> ```py\n> x\n> ```\n"), "py:x");
    CHECK_STR(common("> ```py\n> x\nout\n```sh\ny\n```"), "py:x|sh:y");
    CHECK_STR(common("  ```py\n  x\n y\n  ```\n"), "py:x/y");
}

static const char *text_of(const char *json)
{
    csn_error err = { 0 };
    char *text = NULL;
    size_t len;

    if (csn_message_text(json, strlen(json), &text, &len, &err) < 0)
        return "refused";
    (void) snprintf(shown, sizeof(shown), "%s", text);
    free(text);
    return shown;
}

TEST(c5_messages_of_several_parts)
{
    CHECK_STR(text_of("null"), "");
    CHECK_STR(text_of("\"a\\nb\""), "a\nb");
    CHECK_STR(
        text_of(
            "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\"},{\"type\":\"input_text\",\"text\":\"b\"}]"),
        "a\n<image>\nb");
    CHECK_STR(text_of("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"), "<function: f>");
    CHECK_STR(text_of("[\"a\"]"), "refused");
    CHECK_STR(text_of("[{\"type\":\"sound\"}]"), "refused");
    CHECK_STR(text_of("{}"), "refused");
}

static const char *picked(const char *json, int last_n)
{
    csn_code_list list = { 0 };
    csn_error err = { 0 };

    if (csn_messages_extract(json, strlen(json), last_n, CSN_MD_COMPATIBLE, &list, &err) < 0)
        return "refused";
    (void) snprintf(shown, sizeof(shown), "%s", list.n ? list.blocks[0].code : "none");
    csn_code_list_done(&list);
    return shown;
}

TEST(c6_the_newest_message_with_blocks_counts)
{
#define SAYS(role, text) "{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define CODE(x)          "```py\\n" x "\\n```"
    static const char talk[] = "[" SAYS("user", CODE("old")) "," SAYS(
        "assistant", CODE("said")) "," SAYS("user", CODE("mine")) "," SAYS("user", "prose") "]";

    CHECK_STR(picked(talk, 0), "mine");
    CHECK_STR(picked(talk, 1), "none");
    CHECK_STR(picked(talk, 2), "mine");
    CHECK_STR(picked("[" SAYS("user", CODE("old")) "," SAYS("assistant", CODE("said")) "]", 0),
              "none");
    CHECK_STR(picked("[" SAYS("user", CODE("old")) "," SAYS("assistant", CODE("said")) "]", 9),
              "said");
    CHECK_STR(picked("[" SAYS("user", CODE("old")) ",{\"role\":\"user\",\"content\":null}]", 0),
              "old");
    CHECK_STR(picked("[]", 0), "none");
    CHECK_STR(picked("{}", 0), "refused");
    CHECK_STR(picked("nonsense", 0), "refused");
}

static const char *normal(const char *language)
{
    csn_blocks_normalize(language, shown, 64);
    return shown;
}

TEST(c7_14_to_19_languages)
{
    CHECK_STR(normal("Python"), "python");
    CHECK_STR(normal(" py "), "python");
    CHECK_STR(normal("PYTHON"), "python");
    CHECK_STR(normal("js"), "javascript");
    CHECK_STR(normal("JavaScript"), "javascript");
    CHECK_STR(normal("ts"), "typescript");
    CHECK_STR(normal("shell"), "bash");
    CHECK_STR(normal("sh"), "sh");
    CHECK_STR(normal("Java"), "java");
    CHECK_STR(normal("rust"), "rust");
    CHECK_STR(normal("python3"), "python3");
    CHECK_STR(normal(NULL), "");

    const char *const want[] = { "python", "bash", "sh", "javascript", "typescript" };
    const char *const *names = csn_blocks_languages();

    for (size_t i = 0; i < CSN_COUNT(want); i++)
        CHECK_STR(names[i], want[i]);
    CHECK(!names[5]);
}
