/* caisson-unpack: makes layers out of a directory, an archive, an OCI layout or a docker-archive.
 *
 * Theory of operation. libcaisson starts us with descriptors and no paths: 0 is the source, 1 the pipe for the result, 3 the
 * temporary directory (layers/.tmp-<id>, locked by whoever started us), 4 layers/ itself, only asked which digests are
 * there. We wall ourselves in before the first foreign byte is read, make <id>/root for every new layer in 3 and say in one
 * line of JSON what came of it. We rename nothing into place and clean nothing up: that is for the one who trusts himself.
 * When the reader of the pipe is gone we stop. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "confine.h"
#include "import.h"
#include "leash.h"

enum { SOURCE_FD = 0, RESULT_FD = 1, TARGET_FD = 3, LAYERS_FD = 4 };

#if CSN_HAS_SANITIZER
/* The search for leaks traces the process from another one, which the walls don't let in. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

static void write_layers(csn_jw *w, const csn_import *im, bool fresh_only)
{
    csn_jw_begin_array(w);
    for (size_t i = im->n_layers; i > 0; i--) /* topmost first, as records have it */
        if (!fresh_only || im->layers[i - 1].is_fresh)
            csn_jw_str(w, im->layers[i - 1].id);
    csn_jw_end_array(w);
}

static void write_list(csn_jw *w, const char *key, char *const *list)
{
    csn_jw_key(w, key);
    csn_jw_begin_array(w);
    for (size_t i = 0; list && list[i]; i++)
        csn_jw_str(w, list[i]);
    csn_jw_end_array(w);
}

static void write_success(csn_jw *w, const csn_import *im)
{
    csn_jw_kstr(w, "source", im->source);
    csn_jw_key(w, "layers");
    write_layers(w, im, false);
    csn_jw_key(w, "fresh");
    write_layers(w, im, true);
    write_list(w, "env", im->config.env);
    write_list(w, "entrypoint", im->config.entrypoint);
    write_list(w, "cmd", im->config.cmd);
    csn_jw_kstr(w, "cwd", im->config.cwd ? im->config.cwd : "");
    csn_jw_kstr(w, "user", im->config.user ? im->config.user : "");
    csn_jw_kint(w, "bytes", im->budget.bytes);
    csn_jw_kint(w, "files", im->budget.n_files);
    csn_jw_kint(w, "skipped", im->budget.n_skipped);
}

static int tell(const csn_import *im, int result, const csn_error *err)
{
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);

    csn_jw_begin_object(&w);
    csn_jw_kint(&w, "result", result);
    if (result == CSN_OK) {
        write_success(&w, im);
    } else {
        csn_jw_kstr(&w, "message", err->message);
        csn_jw_kint(&w, "errno", err->sys_errno);
    }
    csn_jw_end_object(&w);
    csn_buf_putc(&out, '\n');
    return out.error < 0 ? out.error : csn_write_all(RESULT_FD, out.data, out.len);
}

static int read_options(int argc, char **argv, csn_budget *budget)
{
    const struct {
        const char *name;
        int64_t *value;
    } options[] = {
        { "--max-bytes=", &budget->max_bytes },
        { "--max-files=", &budget->max_files },
        { "--max-ratio=", &budget->max_ratio },
        { "--max-depth=", &budget->max_depth },
    };

    for (int i = 1; i < argc; i++) {
        size_t k = 0;

        while (k < CSN_COUNT(options) && !csn_starts_with(argv[i], options[k].name))
            k++;
        if (k == CSN_COUNT(options) ||
            csn_parse_i64(csn_str_of(argv[i] + strlen(options[k].name)), options[k].value) < 0 ||
            *options[k].value <= 0)
            return -EINVAL;
    }
    return 0;
}

static int run(csn_import *im, csn_error *err)
{
    struct stat st;
    int r;

    if (fstat(TARGET_FD, &st) < 0 || !S_ISDIR(st.st_mode))
        return csn_fail(err, CSN_E_INVALID, "descriptor 3 is no directory");
    im->layers_fd = fcntl(LAYERS_FD, F_GETFD) >= 0 ? LAYERS_FD : -1;
    r = csn_digest_prepare();
    if (r < 0)
        return csn_fail_sys(err, r, "prepare SHA-256");
    csn_leash_set(RESULT_FD);
    r = csn_layer_ids_find(&im->ids, err);
    if (r < 0)
        return r;
    r = csn_confine(SOURCE_FD, TARGET_FD, err);
    return r < 0 ? r : csn_import_run(im, SOURCE_FD, err);
}

int main(int argc, char **argv)
{
    static csn_import im = { .tmp_fd = TARGET_FD, .layers_fd = -1, .budget = CSN_BUDGET_DEFAULT };
    csn_error err = { 0 };
    int r;

    if (read_options(argc, argv, &im.budget) < 0) {
        (void) fprintf(
            stderr,
            "caisson-unpack is started by caisson, not by hand\n"); /* nowhere else to say it */
        return 2;
    }
    (void) signal(SIGPIPE, SIG_IGN); /* the leash tells */
    (void) signal(SIGXFSZ, SIG_IGN); /* EFBIG tells */
    /* libarchive turns names into the locale's characters; bytes that are none stay as they are only in UTF-8. */
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        (void) setlocale(LC_CTYPE,
                         "en_US.UTF-8"); /* else: names of other scripts become '?' in messages */
    r = run(&im, &err);
    if (tell(&im, r, &err) < 0)
        r = CSN_E_LOST;
    csn_image_config_auto(&im.config);
    return r == CSN_OK ? 0 : 1;
}
