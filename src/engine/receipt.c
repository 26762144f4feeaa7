#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <caisson/engine.h>
#include <caisson/receipt.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "kern/landlock.h"

static const char *const ending_names[] = {
    [CSN_ENDED_RUNNING] = "running",       [CSN_ENDED_EXIT] = "exit",
    [CSN_ENDED_SIGNAL] = "signal",         [CSN_ENDED_TIMEOUT] = "timeout",
    [CSN_ENDED_OOM] = "oom",               [CSN_ENDED_OUTPUT_LIMIT] = "output-limit",
    [CSN_ENDED_PIDS_LIMIT] = "pids-limit", [CSN_ENDED_DISK_FULL] = "disk-full",
    [CSN_ENDED_KILLED] = "killed",         [CSN_ENDED_LOST] = "lost",
};

static const char *const rung_names[] = {
    [CSN_RUNG_NONE] = "none",   [CSN_RUNG_CGROUP2] = "cgroup v2", [CSN_RUNG_CGROUP1] = "cgroup v1",
    [CSN_RUNG_WATCH] = "watch", [CSN_RUNG_REMOTE] = "remote",
};

static const char *const disk_rung_names[] = {
    [CSN_DISK_NONE] = "none",
    [CSN_DISK_TMPFS] = "tmpfs",
    [CSN_DISK_LOOP] = "loop",
    [CSN_DISK_WATCH] = "watch",
};

static const char *const cpu_rung_names[] = {
    [CSN_CPU_NONE] = "none",
    [CSN_CPU_QUOTA] = "quota",
    [CSN_CPU_PROCESSORS] = "processors",
};

static const struct {
    uint32_t bit;
    const char *name;
} walls[] = {
    { CSN_WALL_USERNS, "userns" },
    { CSN_WALL_NAMESPACES, "namespaces" },
    { CSN_WALL_NETNS, "netns" },
    { CSN_WALL_ROOT, "root" },
    { CSN_WALL_PROC, "proc" },
    { CSN_WALL_DEV, "dev" },
    { CSN_WALL_CAPS, "caps" },
    { CSN_WALL_NO_NEW_PRIVS, "no-new-privs" },
    { CSN_WALL_SECCOMP, "seccomp" },
    { CSN_WALL_LANDLOCK, "landlock" },
    { CSN_WALL_RLIMITS, "rlimits" },
    { CSN_WALL_ID_RANGE, "id-range" },
    { CSN_WALL_NO_NESTING, "no-nesting" },
    { CSN_WALL_KEEPER, "keeper" },
}, limits[] = {
    { CSN_LIMIT_MEMORY, "memory" },
    { CSN_LIMIT_CPU, "cpu" },
    { CSN_LIMIT_PIDS, "pids" },
    { CSN_LIMIT_DISK, "disk" },
};

#define NAME_OF(table, index) \
    ((size_t) (index) < CSN_COUNT(table) ? (table)[(size_t) (index)] : "unknown")

const char *csn_ending_name(csn_ending ended)
{
    return NAME_OF(ending_names, ended);
}

int csn_receipt_status(const csn_receipt *receipt)
{
    switch (receipt->ended) {
    case CSN_ENDED_EXIT:
        return receipt->exit_code;
    case CSN_ENDED_SIGNAL:
        return 128 + receipt->signal;
    case CSN_ENDED_TIMEOUT:
        return 124;
    case CSN_ENDED_OOM:
    case CSN_ENDED_OUTPUT_LIMIT:
    case CSN_ENDED_PIDS_LIMIT:
    case CSN_ENDED_DISK_FULL:
    case CSN_ENDED_KILLED:
        return 137;
    case CSN_ENDED_RUNNING:
    case CSN_ENDED_LOST:
        break;
    }
    return 125;
}

static size_t give(csn_buf *text, char *buf, size_t buf_size)
{
    size_t n = text->len;

    if (buf_size > 0) {
        size_t fits = n < buf_size ? n : buf_size - 1;
        memcpy(buf, text->data, fits);
        buf[fits] = '\0';
    }
    return n;
}

static void put_ending(csn_buf *out, const csn_receipt *r)
{
    csn_buf_puts(out, csn_ending_name(r->ended));
    if (r->ended == CSN_ENDED_EXIT)
        csn_buf_printf(out, " %d", r->exit_code);
    if (r->ended == CSN_ENDED_SIGNAL)
        csn_buf_printf(out, " %d", r->signal);
    if (r->ended == CSN_ENDED_OOM && r->outer_limit > 0)
        csn_buf_printf(out, " (the job's limit of %.4g MiB)", (double) r->outer_limit / (1 << 20));
    if (r->ended == CSN_ENDED_PIDS_LIMIT && r->outer_limit > 0)
        csn_buf_printf(out, " (the job's limit of %" PRId64 ")", r->outer_limit);
}

static void put_time(csn_buf *out, int64_t us)
{
    if (us < 10000)
        csn_buf_printf(out, " · %.1f ms", (double) us / 1e3);
    else if (us < 10000000)
        csn_buf_printf(out, " · %" PRId64 " ms", us / 1000);
    else
        csn_buf_printf(out, " · %.1f s", (double) us / 1e6);
}

static void put_wall_names(csn_buf *out, const char *before, uint32_t bits)
{
    const char *sep = before;

    for (size_t i = 0; i < CSN_COUNT(walls); i++) {
        if (!(bits & walls[i].bit))
            continue;
        csn_buf_printf(out, "%s%s", sep, walls[i].name);
        sep = ", ";
    }
}

size_t csn_wall_names(uint32_t wall_bits, char *buf, size_t buf_size)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    put_wall_names(&out, "", wall_bits);
    return give(&out, buf, buf_size);
}

/* Before Linux 6.12 Landlock has no scopes. Namespaces are the wall there; it is the second one that isn't. */
static bool lacks_scopes(const csn_receipt *r)
{
    int abi = r->walls & CSN_WALL_LANDLOCK ? csn_landlock_abi() : CSN_LANDLOCK_SCOPES;

    return abi > 0 && abi < CSN_LANDLOCK_SCOPES;
}

static void put_walls(csn_buf *out, const csn_receipt *r)
{
    if (!r->walls_missing)
        csn_buf_puts(out, " · all walls");
    put_wall_names(out, " · without ", r->walls_missing);
    if (lacks_scopes(r))
        csn_buf_puts(out, " (landlock without scopes)");
}

size_t csn_receipt_text(const csn_receipt *receipt, char *buf, size_t buf_size)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;

    put_ending(&out, receipt);
    put_time(&out, receipt->wall_us);
    if (receipt->peak_memory_bytes > 0)
        csn_buf_printf(&out, " · %.1f MiB", (double) receipt->peak_memory_bytes / (1 << 20));
    if (receipt->n_processes > 0)
        csn_buf_printf(&out, " · %" PRId64 " process%s", receipt->n_processes,
                       receipt->n_processes == 1 ? "" : "es");
    if (receipt->is_output_cut)
        csn_buf_puts(&out, " · output cut");
    if (receipt->cpu_asked_milli > 0)
        csn_buf_printf(&out, " · %.4g of %.4g cores (the job's limit)",
                       (double) receipt->cpu_limit_milli / 1e3,
                       (double) receipt->cpu_asked_milli / 1e3);
    if (receipt->rung != CSN_RUNG_REMOTE)
        put_walls(&out, receipt);
    if (receipt->rung != CSN_RUNG_NONE)
        csn_buf_printf(&out, " · %s", NAME_OF(rung_names, receipt->rung));
    return give(&out, buf, buf_size);
}

static void put_names(csn_jw *w, const char *key, uint32_t bits, bool is_walls)
{
    csn_jw_key(w, key);
    csn_jw_begin_array(w);
    for (size_t i = 0; i < (is_walls ? CSN_COUNT(walls) : CSN_COUNT(limits)); i++)
        if (bits & (is_walls ? walls[i].bit : limits[i].bit))
            csn_jw_str(w, is_walls ? walls[i].name : limits[i].name);
    csn_jw_end_array(w);
}

/* "none" and "not known" are null: JSON has a word for it. */
static void put_number(csn_jw *w, const char *key, int64_t value)
{
    csn_jw_key(w, key);
    if (value < 0)
        csn_jw_null(w);
    else
        csn_jw_int(w, value);
}

static void put_limits(csn_jw *w, const csn_receipt *r)
{
    csn_jw_key(w, "limits");
    csn_jw_begin_object(w);
    put_number(w, "memory_bytes", r->memory_limit_bytes);
    put_number(w, "cpu_milli", r->cpu_limit_milli);
    if (r->cpu_asked_milli > 0)
        csn_jw_kint(w, "cpu_asked_milli", r->cpu_asked_milli);
    put_number(w, "pids", r->pids_limit);
    put_number(w, "disk_bytes", r->disk_limit_bytes);
    put_number(w, "timeout_ms", r->timeout_ms);
    put_number(w, "output_bytes", r->output_limit_bytes);
    csn_jw_kstr(w, "rung", NAME_OF(rung_names, r->rung));
    csn_jw_kstr(w, "cpu_rung", NAME_OF(cpu_rung_names, r->cpu_rung));
    csn_jw_kstr(w, "disk_rung", NAME_OF(disk_rung_names, r->disk_rung));
    put_names(w, "by_kernel", r->limits_kernel, false);
    if (r->outer_limit > 0)
        csn_jw_kint(w, r->ended == CSN_ENDED_OOM ? "job_memory_bytes" : "job_pids", r->outer_limit);
    csn_jw_end_object(w);
}

/* Nothing that keeps a sandbox from starting. */
static void put_second_walls(csn_jw *w, const csn_receipt *r)
{
    csn_jw_key(w, "second_walls_missing");
    csn_jw_begin_array(w);
    if (lacks_scopes(r))
        csn_jw_str(w, "landlock-scopes");
    csn_jw_end_array(w);
}

size_t csn_receipt_json(const csn_receipt *receipt, char *buf, size_t buf_size)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "ended", csn_ending_name(receipt->ended));
    csn_jw_key(&w, "exit_code");
    if (receipt->ended == CSN_ENDED_EXIT)
        csn_jw_int(&w, receipt->exit_code);
    else
        csn_jw_null(&w);
    csn_jw_key(&w, "signal");
    if (receipt->ended == CSN_ENDED_SIGNAL)
        csn_jw_int(&w, receipt->signal);
    else
        csn_jw_null(&w);
    csn_jw_kint(&w, "wall_us", receipt->wall_us);
    put_number(&w, "user_us", receipt->user_us);
    put_number(&w, "sys_us", receipt->sys_us);
    put_number(&w, "peak_memory_bytes", receipt->peak_memory_bytes);
    put_number(&w, "bytes_written", receipt->bytes_written);
    put_number(&w, "n_processes", receipt->n_processes);
    csn_jw_kint(&w, "stdout_bytes", receipt->stdout_bytes);
    csn_jw_kint(&w, "stderr_bytes", receipt->stderr_bytes);
    csn_jw_kbool(&w, "is_output_cut", receipt->is_output_cut);
    if (receipt->rung == CSN_RUNG_REMOTE) {
        csn_jw_kstr(&w, "walls", NULL);
        csn_jw_kstr(&w, "walls_missing", NULL);
        csn_jw_kstr(&w, "second_walls_missing", NULL);
    } else {
        put_names(&w, "walls", receipt->walls, true);
        put_names(&w, "walls_missing", receipt->walls_missing, true);
        put_second_walls(&w, receipt);
    }
    put_limits(&w, receipt);
    csn_jw_kbool(&w, "shares_host_uid", receipt->shares_host_uid);
    csn_jw_end_object(&w);
    return give(&out, buf, buf_size);
}
