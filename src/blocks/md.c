#include "md.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/utf8.h"

void csn_code_list_done(csn_code_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free((char *) list->blocks[i].code);
        free((char *) list->blocks[i].language);
    }
    free(list->blocks);
    *list = (csn_code_list){ 0 };
}

csn_str csn_md_without_mark(csn_str text)
{
    const csn_str mark = CSN_STR("\xef\xbb\xbf");

    return csn_str_starts_with(text, mark) ? csn_str_n(text.data + mark.len, text.len - mark.len)
                                           : text;
}

int csn_md_add(csn_code_list *list, csn_str language, csn_str code)
{
    csn_code_block *grown = csn_realloc_array(list->blocks, list->n + 1, sizeof(*grown));
    char *code_copy, *language_copy;

    if (!grown)
        return -ENOMEM;
    list->blocks = grown;
    code_copy = csn_strndup(code.len ? code.data : "", code.len);
    language_copy = csn_strndup(language.len ? language.data : "", language.len);
    if (!code_copy || !language_copy) {
        free(code_copy);
        free(language_copy);
        return -ENOMEM;
    }
    grown[list->n++] = (csn_code_block){ code_copy, code.len, language_copy };
    return 0;
}

/* ---- the compatible reader: what the pattern ```[ \t]*(\w+)?[ \t]*\r?\n(.*?)\r?\n[ \t]*``` finds ------------------ */

static bool has_fence(csn_str s, size_t at)
{
    return s.len - at >= 3 && s.data[at] == '`' && s.data[at + 1] == '`' && s.data[at + 2] == '`';
}

static size_t skip_blanks(csn_str s, size_t at)
{
    while (at < s.len && (s.data[at] == ' ' || s.data[at] == '\t'))
        at++;
    return at;
}

/* Length of a line end at `at`, or 0. */
static size_t line_end(csn_str s, size_t at)
{
    if (at < s.len && s.data[at] == '\n')
        return 1;
    return s.len - at >= 2 && s.data[at] == '\r' && s.data[at + 1] == '\n' ? 2 : 0;
}

static bool is_word(unsigned c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               c == '_';
    if (c < 0xC0)
        return c == 0xAA || c == 0xB2 || c == 0xB3 || c == 0xB5 ||
               (c >= 0xB9 && c <= 0xBE && c != 0xBB);
    if (c == 0xD7 || c == 0xF7)
        return false;
    return (c < 0x2000 || c > 0x206F) && (c < 0x2190 || c > 0x2BFF) && (c < 0x3000 || c > 0x3004) &&
           (c < 0x3008 || c > 0x3020) && (c < 0xE000 || c > 0xF8FF) && (c < 0x1F000 || c > 0x1FAFF);
}

static size_t skip_word(csn_str s, size_t at)
{
    unsigned c;
    int n;

    while (at < s.len && (n = csn_utf8_next(s.data + at, s.len - at, &c)) > 0 && is_word(c))
        at += (size_t) n;
    return at;
}

/* Does a block open at the backticks at `at`? Then *ret_body is where its body begins. */
static bool opens(csn_str s, size_t at, csn_str *ret_language, size_t *ret_body)
{
    size_t from = skip_blanks(s, at + 3);
    size_t to = skip_word(s, from);
    size_t end = skip_blanks(s, to);
    size_t n = line_end(s, end);

    if (!n)
        return false;
    *ret_language = csn_str_n(s.data + from, to - from);
    *ret_body = end + n;
    return true;
}

/* The first line end at or behind `at` that blanks and three backticks follow. */
static bool find_close(csn_str s, size_t at, size_t *ret_end, size_t *ret_after)
{
    while (at < s.len) {
        size_t n = line_end(s, at);
        size_t fence = n ? skip_blanks(s, at + n) : 0;

        if (n && has_fence(s, fence)) {
            *ret_end = at;
            *ret_after = fence + 3;
            return true;
        }
        at++;
    }
    return false;
}

int csn_md_compatible(csn_str text, csn_code_list *list)
{
    size_t at = 0;

    while (at < text.len) {
        csn_str language;
        size_t body, end, after;
        int r;

        if (!has_fence(text, at) || !opens(text, at, &language, &body)) {
            at++;
            continue;
        }
        if (!find_close(text, body, &end, &after))
            return 0; /* what closes nothing here closes nothing further on either */
        r = csn_md_add(list, language, csn_str_n(text.data + body, end - body));
        if (r < 0)
            return r;
        at = after;
    }
    return 0;
}

int csn_md_extract(const char *text, size_t len, int mode, csn_code_list *ret_list, csn_error *err)
{
    csn_code_list list = { 0 };
    csn_str all = csn_md_without_mark(csn_str_n(text ? text : "", text ? len : 0));
    int r;

    if (mode != CSN_MD_COMPATIBLE && mode != CSN_MD_COMMONMARK)
        return csn_fail(err, CSN_E_INVALID, "no such mode of extraction: %d", mode);
    r = mode == CSN_MD_COMMONMARK ? csn_md_commonmark(all, &list) : csn_md_compatible(all, &list);
    if (r < 0) {
        csn_code_list_done(&list);
        return csn_fail_sys(err, r, "extract code blocks");
    }
    *ret_list = list;
    return CSN_OK;
}
