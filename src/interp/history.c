/* A conversation on the volume: sessions/<id>/conversation.json holds what was executed and what came of it, so that a
 * session whose sandbox is gone can still be told. Read back, it was written by anybody: it is kept as data, no more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <caisson/files.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/utf8.h"
#include "interp.h"

enum { FILE_MAX = 16 << 20, CODE_CHARS = 65536, OUTPUT_CHARS = 10000 };

static bool is_wanted(const csn_interp *i)
{
    return i->o.session_id && i->in_place.volume_name && i->box;
}

void csn_history_free(csn_interp *i)
{
    for (size_t k = 0; k < i->n_turns; k++)
        free(i->turns[k]);
    i->n_turns = 0;
}

/* The newest stay. `turn` is taken. */
static void keep_turn(csn_interp *i, char *turn)
{
    if (!turn)
        return; /* no memory: one turn is not told */
    if (i->n_turns == CSN_MAX_TURNS) {
        free(i->turns[0]);
        memmove(i->turns, i->turns + 1, (CSN_MAX_TURNS - 1) * sizeof(i->turns[0]));
        i->n_turns--;
    }
    i->turns[i->n_turns++] = turn;
}

static void put_text(csn_jw *w, const char *key, const char *text, size_t len, size_t max)
{
    csn_auto(buf) csn_buf plain = CSN_BUF_INIT;
    csn_auto(buf) csn_buf safe = CSN_BUF_INIT;
    size_t at = 0;

    for (size_t n = 0; at < len && n < max; n++) {
        unsigned c;
        int step = csn_utf8_next(text + at, len - at, &c);

        at += step > 0 ? (size_t) step : 1;
    }
    csn_utf8_lossy(NULL, text, at, &plain);
    if (at < len)
        csn_buf_puts(&plain, "… [cut]");
    csn_redact(plain.data, &safe);
    csn_jw_key(w, key);
    csn_jw_string(w, safe.data, safe.len);
}

void csn_history_note(csn_interp *i, const csn_job *job)
{
    static const char *const kinds[] = { "text", "final", "error", "failure" };
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&text, false);
    char when[CSN_ISO8601_SIZE];
    bool is_final = csn_result_kind(job->result) == CSN_EXEC_FINAL;
    size_t len;
    const char *shown;

    if (!i->o.session_id)
        return;
    shown = is_final ? csn_final_json(job->result) : csn_result_text(job->result, &len);
    if (is_final)
        len = strlen(shown);
    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "at", csn_iso8601(csn_wall_ms(), when));
    put_text(&w, "code", job->code.data, job->code.len, CODE_CHARS);
    csn_jw_kstr(&w, "kind", kinds[csn_result_kind(job->result)]);
    put_text(&w, "output", shown, len, OUTPUT_CHARS);
    csn_jw_kint(&w, "duration_ms", csn_result_duration_us(job->result) / 1000);
    csn_jw_end_object(&w);
    keep_turn(i, csn_buf_take(&text, NULL));
    i->is_history_changed = true;
}

static void put_document(csn_interp *i, csn_buf *out)
{
    csn_jw w = CSN_JW_INIT(out, true);
    char when[CSN_ISO8601_SIZE];

    csn_jw_begin_object(&w);
    csn_jw_kstr(&w, "session_id", i->o.session_id);
    csn_jw_kstr(&w, "created_at", i->history_since);
    csn_jw_kstr(&w, "updated_at", csn_iso8601(csn_wall_ms(), when));
    csn_jw_kstr(&w, "volume_name", i->in_place.volume_name);
    csn_jw_kstr(&w, "repo_url", i->in_place.repo_url);
    csn_jw_kstr(&w, "repo_ref", i->in_place.repo_ref);
    csn_jw_key(&w, "turns");
    csn_jw_begin_array(&w);
    for (size_t k = 0; k < i->n_turns; k++)
        csn_jw_raw(&w, i->turns[k], strlen(i->turns[k]));
    csn_jw_end_array(&w);
    csn_jw_end_object(&w);
}

static void put_path(const csn_interp *i, csn_buf *out)
{
    csn_buf_printf(out, CSN_MEMORY_ROOT "/sessions/%s/conversation.json", i->o.session_id);
}

void csn_history_save(csn_interp *i)
{
    csn_auto(buf) csn_buf text = CSN_BUF_INIT_MAX(FILE_MAX);
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;

    if (!is_wanted(i) || !i->is_history_changed)
        return;
    put_document(i, &text);
    put_path(i, &path);
    if (text.error == 0 && path.error == 0 &&
        csn_file_put(i->box, path.data, text.data, text.len, 0644, NULL) == CSN_OK)
        i->is_history_changed = false; /* else: tried again after the next execute */
}

/* ---- back again ------------------------------------------------------------------------------------------------- */

static void take_turns(csn_interp *i, const csn_json *doc)
{
    static const char *const keys[] = { "turns", "history",
                                        "messages" }; /* the older layout's names */
    const char *since = csn_json_get_str(doc, "created_at", "");
    const csn_json *list = NULL;

    if (*since && strlen(since) < sizeof(i->history_since) &&
        strspn(since, "0123456789-:.TZ") == strlen(since)) /* as we write it; else it begins anew */
        memcpy(i->history_since, since, strlen(since) + 1);
    for (size_t k = 0; k < CSN_COUNT(keys) && !list; k++)
        list = csn_json_get(doc, keys[k]);
    csn_history_free(i);
    for (size_t k = 0; csn_json_type_of(list) == CSN_JSON_ARRAY && k < csn_json_count(list); k++) {
        csn_auto(buf) csn_buf one = CSN_BUF_INIT;

        if (csn_json_dump(csn_json_at(list, k), false, &one) == 0)
            keep_turn(i, csn_buf_take(&one, NULL));
    }
}

static void take_path(const csn_file_info *info, void *user)
{
    csn_buf *path = user;

    if (!path->len && info->kind == CSN_FILE_REGULAR)
        csn_buf_puts(path, info->path);
}

/* Where sessions were before there was sessions/. */
static int find_legacy(csn_interp *i, csn_buf *path)
{
    csn_auto(buf) csn_buf name = CSN_BUF_INIT;

    csn_buf_printf(&name, "react-session-%s.json", i->o.session_id);
    csn_buf_clear(path);
    (void) csn_file_find(i->box, CSN_MEMORY_ROOT "/meta/workspaces", name.data, 1, take_path, path,
                         NULL); /* there need not be one */
    return path->len ? CSN_OK : CSN_E_NOT_FOUND;
}

/* What can't be read is put aside, since ours will take its place. */
static void put_aside(csn_interp *i, const csn_buf *path)
{
    csn_auto(buf) csn_buf to = CSN_BUF_INIT;

    csn_buf_printf(&to, "%s.unreadable", path->data);
    (void) csn_file_move(i->box, path->data, to.data, NULL); /* the failure is noted either way */
    csn_note_failure(i, "sandbox_resume_error", "session_restore");
    i->is_degraded = true;
}

void csn_history_load(csn_interp *i)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    csn_auto(mem) char *text = NULL;
    size_t len = 0;
    int r;

    if (!is_wanted(i) || i->has_history)
        return;
    i->has_history = true;
    (void) csn_iso8601(csn_wall_ms(), i->history_since);
    put_path(i, &path);
    r = csn_file_get(i->box, path.data, FILE_MAX, &text, &len, NULL);
    if (r == CSN_E_NOT_FOUND && find_legacy(i, &path) == CSN_OK)
        r = csn_file_get(i->box, path.data, FILE_MAX, &text, &len, NULL);
    if (r == CSN_E_NOT_FOUND)
        return;
    if (r < 0 || csn_json_parse(text, len, &doc, NULL) < 0 ||
        csn_json_type_of(doc) != CSN_JSON_OBJECT)
        put_aside(i, &path);
    else
        take_turns(i, doc);
}

int csn_interp_history(csn_interp *i, char **ret_json, csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT_MAX(FILE_MAX);

    if (!i->o.session_id)
        return csn_fail(err, CSN_E_STATE, "the interpreter has no session_id");
    put_document(i, &out);
    *ret_json = csn_buf_take(&out, NULL);
    return *ret_json ? CSN_OK : csn_fail_sys(err, -ENOMEM, "write the conversation");
}
