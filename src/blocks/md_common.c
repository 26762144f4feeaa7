/* The CommonMark reader of fenced code. Lines are looked at one by one behind the marks of the containers they stand in:
 * block quotes ('>') and list items (their content's column). A container that ends closes the fence in it. */
#include <errno.h>

#include "base/buf.h"
#include "md.h"

enum { MAX_LISTS = 16 };

struct reader {
    csn_code_list *list;
    unsigned quotes;           /* depth of block quotes the present paragraph stands in */
    size_t columns[MAX_LISTS]; /* content columns of open list items, outermost first */
    unsigned n_lists;
    bool is_open; /* a fence is */
    char mark;
    size_t fence_len, indent; /* of the open fence; indent counts from its container */
    unsigned fence_quotes, fence_lists;
    csn_buf language, code;
};

static size_t count_spaces(csn_str s)
{
    size_t n = 0;

    while (n < s.len && s.data[n] == ' ')
        n++;
    return n;
}

static csn_str from(csn_str s, size_t at)
{
    at = at < s.len ? at : s.len;
    return csn_str_n(s.data + at, s.len - at);
}

/* Takes up to `max` quote marks off the line; returns how many there were. */
static unsigned take_quotes(csn_str *line, unsigned max)
{
    unsigned n = 0;

    while (n < max) {
        size_t spaces = count_spaces(*line);

        if (spaces > 3 || spaces >= line->len || line->data[spaces] != '>')
            break;
        *line = from(*line, spaces + 1);
        if (line->len && line->data[0] == ' ')
            *line = from(*line, 1);
        n++;
    }
    return n;
}

/* The width of a list marker with the spaces behind it, or 0. */
static size_t list_marker(csn_str s)
{
    size_t n = 0, spaces;

    if (s.len && (s.data[0] == '-' || s.data[0] == '+' || s.data[0] == '*')) {
        n = 1;
    } else {
        while (n < s.len && n < 9 && s.data[n] >= '0' && s.data[n] <= '9')
            n++;
        if (!n || n >= s.len || (s.data[n] != '.' && s.data[n] != ')'))
            return 0;
        n++;
    }
    spaces = count_spaces(from(s, n));
    if (!spaces)
        return 0;
    return n + (spaces > 4 ? 1 : spaces);
}

/* Takes the indentation of the first n_lists open items off the line; false: the line is not inside them. */
static bool take_lists(const struct reader *r, unsigned n_lists, csn_str *line)
{
    size_t column = n_lists ? r->columns[n_lists - 1] : 0;

    if (csn_str_trim(*line).len == 0) {
        *line = from(*line, column);
        return true;
    }
    if (count_spaces(*line) < column)
        return false;
    *line = from(*line, column);
    return true;
}

/* Keeps the items the line stands in, opens those it begins; *line is what is left. */
static void enter_lists(struct reader *r, csn_str *line)
{
    size_t spaces = count_spaces(*line), column = 0, width;

    if (csn_str_trim(*line).len == 0)
        return;
    while (r->n_lists && spaces < r->columns[r->n_lists - 1])
        r->n_lists--;
    column = r->n_lists ? r->columns[r->n_lists - 1] : 0;
    *line = from(*line, column);
    for (;;) {
        spaces = count_spaces(*line);
        width = spaces <= 3 ? list_marker(from(*line, spaces)) : 0;
        if (!width || r->n_lists == MAX_LISTS)
            return;
        column += spaces + width;
        r->columns[r->n_lists++] = column;
        *line = from(*line, spaces + width);
    }
}

static size_t run_of(csn_str s, char c)
{
    size_t n = 0;

    while (n < s.len && s.data[n] == c)
        n++;
    return n;
}

static void try_open(struct reader *r, csn_str line)
{
    size_t indent = count_spaces(line), n;
    csn_str rest = from(line, indent), info, word;
    char mark = rest.len ? rest.data[0] : 0;

    if (indent > 3 || (mark != '`' && mark != '~'))
        return;
    n = run_of(rest, mark);
    info = csn_str_trim(from(rest, n));
    if (n < 3 || (mark == '`' && csn_str_find(info, '`') >= 0))
        return;
    word = info;
    for (size_t i = 0; i < info.len; i++)
        if (info.data[i] == ' ' || info.data[i] == '\t') {
            word.len = i;
            break;
        }
    r->is_open = true;
    r->mark = mark;
    r->fence_len = n;
    r->indent = indent;
    r->fence_quotes = r->quotes;
    r->fence_lists = r->n_lists;
    csn_buf_clear(&r->code);
    csn_buf_clear(&r->language);
    csn_buf_append(&r->language, word.data, word.len);
}

static int close_fence(struct reader *r)
{
    size_t len = r->code.len;

    r->is_open = false;
    if (r->code.error < 0 || r->language.error < 0)
        return -ENOMEM;
    if (len && r->code.data[len - 1] == '\n') /* the line end before the closing fence isn't code */
        len--;
    return csn_md_add(r->list, csn_str_n(r->language.data, r->language.len),
                      csn_str_n(r->code.data, len));
}

static bool closes(const struct reader *r, csn_str line)
{
    size_t indent = count_spaces(line), n;
    csn_str rest = from(line, indent);

    if (indent > 3)
        return false;
    n = run_of(rest, r->mark);
    return n >= r->fence_len && csn_str_trim(from(rest, n)).len == 0;
}

/* A line while a fence is open. 1: it was not part of it, look at it again. */
static int take_code(struct reader *r, csn_str line)
{
    csn_str inner = line;
    size_t cut;

    if (take_quotes(&inner, r->fence_quotes) < r->fence_quotes ||
        !take_lists(r, r->fence_lists, &inner)) {
        int e = close_fence(r);

        return e < 0 ? e : 1;
    }
    if (closes(r, inner))
        return close_fence(r);
    cut = count_spaces(inner);
    inner = from(inner, cut < r->indent ? cut : r->indent);
    csn_buf_append(&r->code, inner.data, inner.len);
    return csn_buf_putc(&r->code, '\n');
}

static int take_line(struct reader *r, csn_str line)
{
    if (r->is_open) {
        int e = take_code(r, line);

        if (e <= 0)
            return e;
    }
    unsigned quotes = take_quotes(&line, 64);

    if (quotes != r->quotes)
        r->n_lists = 0;
    r->quotes = quotes;
    enter_lists(r, &line);
    try_open(r, line);
    return 0;
}

int csn_md_commonmark(csn_str text, csn_code_list *list)
{
    struct reader r = { .list = list, .language = CSN_BUF_INIT, .code = CSN_BUF_INIT };
    csn_str line;
    int e = 0;

    r.code.max = text.len + 1;
    r.language.max = text.len + 1;
    while (e >= 0 && csn_str_split(&text, '\n', &line)) {
        if (!text.data && !line.len)
            break; /* behind the last line end */
        if (line.len && line.data[line.len - 1] == '\r')
            line.len--;
        e = take_line(&r, line);
    }
    if (e >= 0 && r.is_open)
        e = close_fence(&r);
    csn_buf_free(&r.language);
    csn_buf_free(&r.code);
    return e < 0 ? e : 0;
}
