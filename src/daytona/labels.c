/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a sandbox is, as labels: the machine, its boot and the program. Who comes later can tell from them whether the program
 * that made a sandbox still lives. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/str.h"
#include "daytona.h"

static csn_str line_of(const char *path, csn_buf *out)
{
    csn_buf_clear(out);
    if (csn_read_file(AT_FDCWD, path, out, 4096) < 0)
        csn_buf_clear(out);
    return csn_str_trim(csn_str_n(out->data, out->len));
}

/* A machine's id is not for strangers: they get what can be compared, not the id. */
static void name_machine(csn_daytona *d)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf salted = CSN_BUF_INIT;
    unsigned char digest[32];
    char host[256] = "";
    csn_str id = line_of("/etc/machine-id", &text);

    if (id.len == 0) {
        (void) gethostname(host, sizeof(host) - 1); /* "": then all such machines are one */
        id = csn_str_of(host);
    }
    csn_buf_printf(&salted, "caisson machine %.*s", (int) id.len, id.data);
    csn_sha256(salted.data, salted.len, digest);
    csn_hex(d->whose.machine, digest, 16);
}

/* Field 22 of stat: a number that is used again has another beginning. "": there is no such process. */
static void name_process(int pid, char out[48])
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    char path[32];
    csn_str stat, field = { 0 };
    const char *close;

    (void) snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    stat = line_of(path, &text);
    close = stat.len > 0 ? memrchr(stat.data, ')', stat.len) : NULL;
    out[0] = '\0';
    if (!close)
        return;
    csn_str rest = csn_str_n(close + 1, (size_t) (stat.data + stat.len - close - 1));
    for (int i = 2; i <= 22 && csn_str_split(&rest, ' ', &field); i++)
        ;
    (void) snprintf(out, 48, "%d-%.*s", pid, (int) (field.len < 24 ? field.len : 24), field.data);
}

static const char *label_of(const csn_dto *dto, const char *key)
{
    for (size_t i = 0; i < dto->n_labels; i++)
        if (strcmp(dto->labels[i].key, key) == 0)
            return dto->labels[i].value;
    return "";
}

bool csn_daytona_is_left(const csn_daytona *d, const csn_dto *dto)
{
    const char *program = label_of(dto, "caisson.program");
    char now[48];
    int64_t pid;

    if (!program[0] || strcmp(label_of(dto, "caisson.machine"), d->whose.machine) != 0)
        return false;
    if (strcmp(label_of(dto, "caisson.boot"), d->whose.boot) != 0)
        return true;
    if (csn_parse_i64(csn_str_n(program, strcspn(program, "-")), &pid) < 0 || pid <= 0 ||
        pid > INT_MAX)
        return false; /* not one of ours, whatever it says */
    name_process((int) pid, now);
    return strcmp(now, program) != 0;
}

void csn_daytona_whose(csn_daytona *d)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_str boot = line_of("/proc/sys/kernel/random/boot_id", &text);

    if (csn_str_copy(d->whose.boot, sizeof(d->whose.boot), boot) < 0)
        d->whose.boot[0] = '\0';
    name_machine(d);
    name_process(getpid(), d->whose.program);
}

/* ---- read and written ---- */

static const char *const keys[] = { "caisson.machine", "caisson.boot", "caisson.program" };

bool csn_is_whose_key(const char *key)
{
    for (size_t i = 0; i < CSN_COUNT(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* What does not fit is not ours. */
static void read_one(const csn_dto *dto, const char *key, char *out, size_t size)
{
    if (csn_str_copy(out, size, csn_str_of(label_of(dto, key))) < 0)
        out[0] = '\0';
}

void csn_whose_read(const csn_dto *dto, csn_whose *ret)
{
    read_one(dto, keys[0], ret->machine, sizeof(ret->machine));
    read_one(dto, keys[1], ret->boot, sizeof(ret->boot));
    read_one(dto, keys[2], ret->program, sizeof(ret->program));
}

static void write_pairs(csn_jw *w, char *const *list, bool are_labels)
{
    for (; list && *list; list++) {
        const char *eq = strchr(*list, '=');
        char key[256];

        if (!eq || csn_str_copy(key, sizeof(key), csn_str_n(*list, (size_t) (eq - *list))) < 0)
            continue; /* csn_wish_read() has let none through */
        if (!are_labels || !csn_is_whose_key(key))
            csn_jw_kstr(w, key, eq + 1);
    }
}

void csn_write_pairs(csn_jw *w, char *const *list)
{
    write_pairs(w, list, false);
}

void csn_write_labels(csn_jw *w, char *const *labels, const csn_whose *whose)
{
    const char *values[] = { whose->machine, whose->boot, whose->program };

    csn_jw_begin_object(w);
    write_pairs(w, labels, true);
    for (size_t i = 0; i < CSN_COUNT(keys); i++)
        if (values[i][0])
            csn_jw_kstr(w, keys[i], values[i]);
    csn_jw_end_object(w);
}
