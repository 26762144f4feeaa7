#include "opt.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/engine.h>

#include "base/fault.h"
#include "base/str.h"
#include "out.h"
#include "place.h"

/* The command whose subcommand runs now: for "caisson image ls: …". */
static const cli_command *parent;

const char *cli_full_name(const cli_command *cmd)
{
    static char name[64];

    if (!parent || parent == cmd)
        return cmd->name;
    (void) snprintf(name, sizeof(name), "%s %s", parent->name, cmd->name);
    return name;
}

int cli_usage(const cli_command *cmd, const char *fmt, ...)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf remedy = CSN_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    csn_buf_printf(&text, "%s: ", cli_full_name(cmd));
    csn_buf_vprintf(&text, fmt, args);
    va_end(args);
    csn_buf_printf(&remedy, "caisson help %s", cli_full_name(cmd));
    cli_complain("invalid", text.data, remedy.data);
    return cmd->usage_status ? cmd->usage_status : 2;
}

void cli_list_add(cli_list *list, const char *item)
{
    list->items = csn_realloc_array(list->items, list->n + 2, sizeof(*list->items));
    if (!list->items)
        cli_out_of_memory();
    list->items[list->n++] = item;
    list->items[list->n] = NULL;
}

static bool is_word_of(const char *words, const char *value)
{
    csn_str rest = csn_str_of(words), word;

    while (csn_str_split(&rest, ' ', &word))
        if (csn_str_is(word, value))
            return true;
    return false;
}

/* "1.5" cores are 1500. */
static int parse_cpu(const char *text, int64_t *ret)
{
    char *end;
    double cores;

    errno = 0;
    cores = strtod(text, &end);
    if (errno || end == text || *end || !(cores >= 0.001) || cores > 100000)
        return -EINVAL;
    *ret = (int64_t) (cores * 1000 + 0.5);
    return 0;
}

static int parse_number(cli_kind kind, const char *text, int64_t *ret)
{
    int r;

    if (csn_streq(text, "unlimited") || csn_streq(text, "none") || csn_streq(text, "0")) {
        *ret = CSN_UNLIMITED;
        return 0;
    }
    if (kind == CLI_CPU)
        return parse_cpu(text, ret);
    if (kind == CLI_SIZE)
        r = csn_parse_size(csn_str_of(text), ret);
    else if (kind == CLI_DURATION)
        r = csn_parse_duration(csn_str_of(text), ret);
    else
        r = csn_parse_i64(csn_str_of(text), ret);
    if (r < 0)
        return r;
    if (kind == CLI_DURATION) /* a limit of 1 us is a limit, not none */
        *ret = (*ret + 999999) / 1000000;
    return *ret < 1 ? -ERANGE : 0;
}

static const char *example_of(cli_kind kind)
{
    switch (kind) {
    case CLI_SIZE:
        return "a size such as 512m or 2g, or unlimited";
    case CLI_DURATION:
        return "a time such as 30s, 5m or 250ms, or unlimited";
    case CLI_CPU:
        return "a number of cores such as 0.5 or 2, or unlimited";
    case CLI_COUNT:
        return "a whole number, or unlimited";
    case CLI_FLAG:
    case CLI_TEXT:
    case CLI_CHOICE:
    case CLI_LIST:
        break;
    }
    return "a value";
}

/* Stores one value: -1, or an exit status. */
static int store(const cli_command *cmd, const cli_opt *opt, char *at, const char *value)
{
    switch (opt->kind) {
    case CLI_FLAG:
        *(int *) (void *) at = 1;
        return -1;
    case CLI_CHOICE:
        if (!is_word_of(opt->words, value))
            return cli_usage(cmd, "--%s '%s': not one of: %s", opt->name, value, opt->words);
        *(const char **) (void *) at = value;
        return -1;
    case CLI_TEXT:
        *(const char **) (void *) at = value;
        return -1;
    case CLI_LIST:
        cli_list_add((cli_list *) (void *) at, value);
        return -1;
    case CLI_SIZE:
    case CLI_DURATION:
    case CLI_COUNT:
    case CLI_CPU:
        if (parse_number(opt->kind, value, (int64_t *) (void *) at) < 0)
            return cli_usage(cmd, "--%s '%s': not %s", opt->name, value, example_of(opt->kind));
        return -1;
    }
    return -1;
}

struct found {
    const cli_opt *opt;
    const cli_group *group;
};

static const cli_group *next_group(const cli_command *cmd, const cli_group *g)
{
    if (g == &cli_place_group)
        return NULL;
    g = g ? g + 1 : cmd->groups;
    if (g && g->opts)
        return g;
    return cmd->reach ? &cli_place_group : NULL;
}

static bool find_option(const cli_command *cmd, csn_str name, char letter, struct found *ret)
{
    for (const cli_group *g = next_group(cmd, NULL); g; g = next_group(cmd, g))
        for (const cli_opt *o = g->opts; o->name; o++)
            if (letter ? o->letter == letter : csn_str_is(name, o->name)) {
                *ret = (struct found){ o, g };
                return true;
            }
    return false;
}

static bool is_first(const cli_command *cmd, const cli_opt *o, char letter)
{
    struct found f;

    return find_option(cmd, csn_str_of(o->name), letter, &f) && f.opt == o;
}

bool cli_walk_next(cli_walk *w)
{
    do {
        w->opt = w->opt ? w->opt + 1 : NULL;
        while (!w->opt || !w->opt->name) {
            w->group = next_group(w->cmd, w->group);
            if (!w->group)
                return false;
            w->opt = w->group->opts;
        }
    } while (!is_first(w->cmd, w->opt, 0));
    w->letter = w->opt->letter && is_first(w->cmd, w->opt, w->opt->letter) ? w->opt->letter : 0;
    return true;
}

/* Takes one value for an option: -1, or an exit status. */
static int take(const cli_command *cmd, const struct found *f, const char *value, void *values)
{
    char *into = f->group == &cli_place_group ? cli_place_values() : values;

    cli_place_note(f->opt);
    return store(cmd, f->opt, into + f->group->base + f->opt->at, value);
}

static int show_help(const cli_command *cmd)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    cli_help(cmd, &text);
    return cli_print(&text) < 0 ? CLI_ENGINE : 0;
}

/* The value of a long or short option that needs one: what is glued to it, else the next argument. */
static int take_value(const cli_command *cmd, const struct found *f, const char *glued, int *i,
                      int argc, char **argv, void *values)
{
    const char *value = glued;

    if (!value && f->opt->bare && (*i + 1 >= argc || csn_streq(argv[*i + 1], "--")))
        value = f->opt->bare;
    else if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value)
        return cli_usage(cmd, "option '--%s' needs a value: %s", f->opt->name, f->opt->arg);
    return take(cmd, f, value, values);
}

static int parse_long(const cli_command *cmd, int *i, int argc, char **argv, void *values)
{
    const char *text = argv[*i] + 2, *eq = strchr(text, '=');
    csn_str name = csn_str_n(text, eq ? (size_t) (eq - text) : strlen(text));
    struct found f;

    if (csn_str_is(name, "help"))
        return show_help(cmd);
    if (!find_option(cmd, name, 0, &f))
        return cli_usage(cmd, "unknown option '--%.*s'", (int) name.len, name.data);
    if (f.opt->kind != CLI_FLAG)
        return take_value(cmd, &f, eq ? eq + 1 : NULL, i, argc, argv, values);
    if (eq)
        return cli_usage(cmd, "option '--%s' takes no value", f.opt->name);
    return take(cmd, &f, NULL, values);
}

/* "-it", "-eA=B", "-e A=B". */
static int parse_short(const cli_command *cmd, int *i, int argc, char **argv, void *values)
{
    for (const char *c = argv[*i] + 1; *c; c++) {
        struct found f;
        int r;

        if (*c == 'h' && !find_option(cmd, csn_str_of(""), 'h', &f))
            return show_help(cmd);
        if (!find_option(cmd, csn_str_of(""), *c, &f))
            return cli_usage(cmd, "unknown option '-%c'", *c);
        if (f.opt->kind != CLI_FLAG)
            return take_value(cmd, &f, c[1] ? c + 1 : NULL, i, argc, argv, values);
        r = take(cmd, &f, NULL, values);
        if (r >= 0)
            return r;
    }
    return -1;
}

/* A mistake in front of --json is told as --json has it, too. What stands behind operands may be another program's:
 * then somebody who made a mistake gets a document he didn't ask for. */
static bool mentions_json(const cli_command *cmd, int argc, char **argv)
{
    for (int i = 1; i < argc && !csn_streq(argv[i], "--"); i++)
        if (csn_streq(argv[i], "--json")) {
            struct found found;

            return find_option(cmd, csn_str_of("json"), 0, &found) && found.opt->kind == CLI_FLAG;
        }
    return false;
}

int cli_parse(const cli_command *cmd, int argc, char **argv, void *values, cli_args *ret_args)
{
    char **operands = csn_xalloc((size_t) argc + 1, sizeof(*operands));
    cli_args args = { operands, 0, false };
    bool verbatim = false;
    int r;

    cli_want_json(mentions_json(cmd, argc, argv));
    for (int i = 1; i < argc; i++) {
        char *arg = argv[i];

        if (verbatim || arg[0] != '-' || !arg[1]) {
            operands[args.argc++] = arg;
            verbatim =
                verbatim || (cmd->verbatim_after && (unsigned) args.argc >= cmd->verbatim_after);
            continue;
        }
        if (csn_streq(arg, "--")) {
            args.has_dashes = verbatim = true;
            continue;
        }
        r = arg[1] == '-' ? parse_long(cmd, &i, argc, argv, values)
                          : parse_short(cmd, &i, argc, argv, values);
        if (r >= 0) {
            free(operands);
            return r;
        }
    }
    r = cmd->reach ? cli_place_settle(cmd) : -1;
    if (r >= 0) {
        free(operands);
        return r;
    }
    cli_want_json(false); /* the command itself says so from here on */
    *ret_args = args; /* operands live as long as the program: one command per run */
    return -1;
}

int cli_want(const cli_command *cmd, const cli_args *args, int min, int max)
{
    if (args->argc < min)
        return cli_usage(cmd, "an argument is missing; usage: caisson %.*s",
                         (int) strcspn(cmd->usage, "\n"), cmd->usage);
    if (max >= 0 && args->argc > max)
        return cli_usage(cmd, "unexpected argument '%s'", args->argv[max]);
    return -1;
}

const cli_command *cli_find(const cli_command *const *cmds, const char *name)
{
    for (; *cmds; cmds++)
        if (csn_streq((*cmds)->name, name) || csn_streq((*cmds)->alias, name))
            return *cmds;
    return NULL;
}

/* Damerau–Levenshtein distance over short words; words longer than the table count as far apart. */
static unsigned distance(const char *a, const char *b)
{
    enum { MAX = 24 };
    unsigned d[MAX + 1][MAX + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > MAX || nb > MAX)
        return MAX;
    for (size_t i = 0; i <= na; i++)
        for (size_t j = 0; j <= nb; j++) {
            unsigned best;

            if (!i || !j) {
                d[i][j] = (unsigned) (i + j);
                continue;
            }
            best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[na][nb];
}

const char *cli_guess(const cli_command *const *cmds, const char *name)
{
    const char *best = NULL;
    unsigned best_distance = 3;

    for (; *cmds; cmds++) {
        unsigned now = distance(name, (*cmds)->name);

        if (now < best_distance && now < strlen(name)) {
            best = (*cmds)->name;
            best_distance = now;
        }
    }
    return best;
}

int cli_run_sub(const cli_command *cmd, int argc, char **argv)
{
    const cli_command *sub;
    const char *guess;

    parent = cmd;
    if (argc < 2)
        return cli_usage(cmd, "a subcommand is missing");
    if (csn_streq(argv[1], "--help") || csn_streq(argv[1], "-h"))
        return show_help(cmd);
    sub = cli_find(cmd->subs, argv[1]);
    if (sub)
        return sub->run(sub, argc - 1, argv + 1);
    guess = cli_guess(cmd->subs, argv[1]);
    return cli_usage(cmd, "no subcommand '%s'%s%s%s", argv[1], guess ? "; did you mean '" : "",
                     guess ? guess : "", guess ? "'?" : "");
}
