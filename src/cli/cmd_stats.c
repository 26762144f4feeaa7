#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "base/time.h"
#include "boxjson.h"
#include "commands.h"
#include "out.h"
#include "session.h"
#include "table.h"
#include "term.h"

enum {
    FIRST_MS = 200, /* between the two looks a processor share needs */
    EVERY_MS = 1000
};

struct values {
    int json, no_stream;
};

#define AT(field) offsetof(struct values, field)

static const cli_opt own_options[] = {
    { 0, "no-stream", CLI_FLAG, AT(no_stream), NULL,
      "one table and out (default when stdout is no terminal)", NULL, NULL },
    { 0, "json", CLI_FLAG, AT(json), NULL, "one JSON array and out", NULL, NULL },
    CLI_END
};

static const cli_group groups[] = { { "Options", own_options, 0 }, { NULL, NULL, 0 } };

/* One sandbox as it was looked at. */
struct look {
    char id[80], name[65];
    int64_t created_ms, memory_limit, pids_limit, disk_limit;
    csn_usage usage;
    int64_t at_ns;
    double cores; /* since the look before; below 0: unknown */
};

struct looks {
    struct look *items;
    size_t n, cap;
};

static void note_box(const csn_sandbox_info *info, void *user)
{
    struct looks *l = user;
    struct look *look;

    if (info->state != CSN_STATE_STARTED)
        return;
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 16;
        l->items = csn_realloc_array(l->items, l->cap, sizeof(*l->items));
        if (!l->items)
            cli_out_of_memory();
    }
    look = &l->items[l->n++];
    *look = (struct look){ .created_ms = info->created_ms,
                           .memory_limit = info->memory_bytes,
                           .pids_limit = info->pids,
                           .disk_limit = info->disk_bytes };
    (void) csn_str_copy(look->id, sizeof(look->id), csn_str_of(info->id));
    (void) csn_str_copy(look->name, sizeof(look->name), csn_str_of(info->name));
}

static bool is_asked_for(const cli_args *args, const struct look *look)
{
    for (int i = 0; i < args->argc; i++)
        if (csn_streq(args->argv[i], look->name) ||
            (strlen(args->argv[i]) >= 4 && csn_starts_with(look->id, args->argv[i])))
            return true;
    return args->argc == 0;
}

static double share_since(const struct looks *before, const struct look *now)
{
    for (size_t i = 0; i < before->n; i++)
        if (csn_streq(before->items[i].id, now->id) && now->at_ns > before->items[i].at_ns)
            return (double) (now->usage.cpu_us - before->items[i].usage.cpu_us) * 1000.0 /
                   (double) (now->at_ns - before->items[i].at_ns);
    return -1;
}

static int oldest_first(const void *a, const void *b)
{
    const struct look *x = a, *y = b;

    if (x->created_ms != y->created_ms)
        return x->created_ms < y->created_ms ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* Fills *now with every started sandbox that can be asked; one that goes meanwhile is left out. */
static int look_around(csn_engine *engine, const cli_args *args, const struct looks *before,
                       struct looks *now, csn_error *err)
{
    size_t kept = 0;
    int r;

    now->n = 0;
    r = csn_sandbox_list(engine, note_box, now, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < now->n; i++) {
        csn_auto(sandbox) csn_sandbox *box = NULL;
        struct look look = now->items[i];

        if (!is_asked_for(args, &look) || csn_sandbox_open(engine, look.id, &box, NULL) < 0)
            continue;
        r = csn_sandbox_usage(box, &look.usage, err);
        if (r == CSN_E_UNSUPPORTED) /* nobody can be asked, here or later */
            return r;
        if (r < 0)
            continue;
        look.at_ns = csn_now_ns();
        look.cores = share_since(before, &look);
        now->items[kept++] = look;
    }
    now->n = kept;
    if (kept)
        qsort(now->items, kept, sizeof(*now->items), oldest_first);
    return CSN_OK;
}

static void put_limit_cell(cli_table *t, const char *used, const char *limit)
{
    char text[96];

    (void) snprintf(text, sizeof(text), "%s / %s", used, limit);
    cli_table_cell(t, text);
}

static void put_table(const struct looks *l, csn_buf *out, size_t width)
{
    static const char *const heads[] = { "ID", "NAME", "CPU", "MEMORY", "PROCESSES", "DISK" };
    csn_auto(table) cli_table t = CLI_TABLE_INIT(6, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5);
    char id[13], text[32], most[32];

    for (size_t i = 0; i < CSN_COUNT(heads); i++)
        cli_table_cell(&t, heads[i]);
    for (size_t i = 0; i < l->n; i++) {
        const struct look *look = &l->items[i];

        (void) csn_str_copy(id, sizeof(id), csn_str_n(look->id, 12));
        cli_table_cell(&t, id);
        cli_table_cell(&t, look->name);
        (void) snprintf(text, sizeof(text), "%.1f %%", look->cores * 100);
        cli_table_cell(&t, look->cores < 0 ? "" : text);
        put_limit_cell(&t, cli_size(look->usage.memory_bytes), cli_limit_size(look->memory_limit));
        (void) snprintf(text, sizeof(text), "%lld", (long long) look->usage.n_processes);
        (void) snprintf(most, sizeof(most), "%lld", (long long) look->pids_limit);
        put_limit_cell(&t, text, look->pids_limit == CSN_UNLIMITED ? "none" : most);
        put_limit_cell(&t, cli_size(look->usage.disk_bytes), cli_limit_size(look->disk_limit));
    }
    cli_table_put(&t, out, width);
}

static int print_json(const struct looks *l)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, true);

    csn_jw_begin_array(&w);
    for (size_t i = 0; i < l->n; i++) {
        const struct look *look = &l->items[i];

        csn_jw_begin_object(&w);
        csn_jw_kstr(&w, "id", look->id);
        csn_jw_kstr(&w, "name", look->name);
        csn_jw_key(&w, "cpu_cores");
        if (look->cores < 0)
            csn_jw_null(&w);
        else
            csn_jw_double(&w, look->cores);
        csn_jw_kint(&w, "cpu_us", look->usage.cpu_us);
        csn_jw_kint(&w, "memory_bytes", look->usage.memory_bytes);
        cli_jw_limit(&w, "memory_limit_bytes", look->memory_limit);
        csn_jw_kint(&w, "processes", look->usage.n_processes);
        cli_jw_limit(&w, "pids_limit", look->pids_limit);
        csn_jw_kint(&w, "disk_bytes", look->usage.disk_bytes);
        cli_jw_limit(&w, "disk_limit_bytes", look->disk_limit);
        csn_jw_kint(&w, "disk_inodes", look->usage.disk_inodes);
        csn_jw_end_object(&w);
    }
    csn_jw_end_array(&w);
    return cli_print_json(&out);
}

static volatile sig_atomic_t resized;

static void on_resize(int number)
{
    (void) number;
    resized = 1;
}

/* Draws over the last picture line by line, so that nothing flickers; lines that don't fit are not drawn. */
static int draw(const struct looks *l)
{
    csn_auto(buf) csn_buf table = CSN_BUF_INIT;
    csn_auto(buf) csn_buf screen = CSN_BUF_INIT;
    size_t columns = cli_columns(), rows = cli_rows(), row = 0;
    csn_str rest, line;

    put_table(l, &table, columns);
    rest = csn_str_n(table.data, table.len);
    csn_buf_puts(&screen, "\033[H");
    while (csn_str_split(&rest, '\n', &line) && row < rows - 2) {
        bool is_head = row++ == 0 && cli_has_color(STDOUT_FILENO);

        csn_buf_printf(&screen, "%s%.*s%s\033[K\r\n", is_head ? "\033[1m" : "", (int) line.len,
                       line.data, is_head ? "\033[0m" : "");
    }
    csn_buf_printf(&screen, "\033[J\033[%zu;1H%zu started · q to leave", rows, l->n);
    return cli_print(&screen);
}

/* Waits for the next turn: false when the user wants to leave. */
static bool wait_for_turn(void)
{
    struct pollfd key = { .fd = STDIN_FILENO, .events = POLLIN };
    char c = 0;
    int r;

    if (cli_signal_pending())
        return false;
    r = poll(&key, 1, EVERY_MS);
    if (r > 0 && read(STDIN_FILENO, &c, 1) == 1 && (c == 'q' || c == 'Q' || c == 3 || c == 4))
        return false;
    if (r > 0 && key.revents & (POLLHUP | POLLERR | POLLNVAL))
        return false;
    return !cli_signal_pending();
}

static int show_live(csn_engine *engine, const cli_args *args, struct looks *a, struct looks *b)
{
    struct sigaction act = { .sa_handler = on_resize };
    csn_error err = { 0 };
    int r = CSN_OK;

    (void) sigemptyset(&act.sa_mask);
    (void) sigaction(SIGWINCH, &act, NULL); /* only to end the wait early */
    cli_term_screen(STDOUT_FILENO);
    (void) cli_term_raw(STDIN_FILENO); /* without it only Ctrl-C leaves */
    do {
        struct looks *swap = a;

        r = look_around(engine, args, a, b, &err);
        a = b;
        b = swap;
    } while (r == CSN_OK && draw(a) == 0 && wait_for_turn());
    cli_term_restore();
    return r < 0 && r != CSN_E_CANCELLED ? cli_fail(&err, NULL) : 0;
}

static int show_once(csn_engine *engine, const cli_args *args, const struct values *v,
                     struct looks *a, struct looks *b)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_error err = { 0 };

    if (look_around(engine, args, a, b, &err) < 0)
        return cli_fail(&err, NULL);
    if (b->n)
        (void) poll(NULL, 0, FIRST_MS); /* a share of the processor needs two looks */
    if (look_around(engine, args, b, a, &err) < 0)
        return cli_fail(&err, NULL);
    if (v->json)
        return print_json(a);
    put_table(a, &out, cli_is_terminal(STDOUT_FILENO) ? cli_columns() : 0);
    return cli_print(&out) < 0 ? CLI_ENGINE : 0;
}

/* A name nobody has would only show as a row that isn't there. */
static int check_names(csn_engine *engine, const cli_args *args)
{
    for (int i = 0; i < args->argc; i++) {
        csn_auto(sandbox) csn_sandbox *box = NULL;
        csn_error err = { 0 };

        if (csn_sandbox_open(engine, args->argv[i], &box, &err) < 0)
            return cli_fail(&err, NULL);
    }
    return -1;
}

static int run(const cli_command *cmd, int argc, char **argv)
{
    csn_auto(engine) csn_engine *engine = NULL;
    struct values v = { 0 };
    struct looks a = { 0 }, b = { 0 };
    cli_args args;
    int status = cli_parse(cmd, argc, argv, &v, &args);

    if (status >= 0)
        return status;
    cli_want_json(v.json);
    status = cli_open(0, &engine);
    if (status < 0)
        status = check_names(engine, &args);
    if (status >= 0)
        return status;
    if (v.json || v.no_stream || !cli_can_draw(STDOUT_FILENO) || !cli_is_terminal(STDIN_FILENO))
        status = show_once(engine, &args, &v, &a, &b);
    else
        status = show_live(engine, &args, &a, &b);
    free(a.items);
    free(b.items);
    return status;
}

const cli_command cli_cmd_stats = {
    .name = "stats",
    .summary = "Show what started sandboxes use: live on a terminal, once in a pipe",
    .usage = "stats [options] [BOX…]",
    .groups = groups,
    .operands = "@box",
    .reach = CLI_ANYWHERE,
    .run = run,
};
