#include "image/test_state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "csn_test.h"
#include "tar_maker.h"

csn_engine *engine;
csn_error err;

static void close_engine(void *user)
{
    (void) user;
    engine = csn_engine_free(engine);
}

void open_engine(void)
{
    csn_engine_options o = { .size = sizeof(o),
                             .state_dir = csn_test_path("state"),
                             .libexec_dir = getenv("CSN_BUILD") };

    if (csn_engine_open(&o, &engine, &err) < 0)
        FAIL("%s", err.message);
    csn_test_defer(close_engine, NULL);
}

int count_in(const char *name, bool hidden)
{
    DIR *dir = opendir(csn_test_path("state/%s", name));
    int n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        bool is_dots = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;

        if (hidden ? strncmp(e->d_name, ".tmp-", 5) == 0 || strncmp(e->d_name, ".gone-", 6) == 0
                   : e->d_name[0] != '.' && strncmp(e->d_name, "host-", 5) != 0)
            n += !is_dots;
    }
    if (dir)
        closedir(dir);
    return n;
}

void check_state(int n_images, int n_layers)
{
    CHECK_INT(count_in("images", false), n_images);
    CHECK_INT(count_in("layers", false), n_layers);
    CHECK_INT(count_in("images", true), 0);
    CHECK_INT(count_in("layers", true), 0);
    CHECK_INT(count_in("volumes", true), 0);
}

csn_sandbox *a_sandbox(csn_sandbox_options o)
{
    csn_sandbox *box = NULL;

    o.size = sizeof(o);
    if (csn_sandbox_create(engine, &o, &box, &err) < 0)
        FAIL("create: %s", err.message);
    return box;
}

csn_sandbox *gone(csn_sandbox *box)
{
    OK(csn_sandbox_delete(box, &err));
    return csn_sandbox_free(box);
}

const char *says(csn_sandbox *box, const char *shell)
{
    static char text[4096];
    csn_process_options o = { .size = sizeof(o), .shell = shell, .merge_stderr = 1 };
    csn_run_result result = { 0 };

    if (csn_run(box, &o, &result, &err) < 0)
        FAIL("%s: %s", shell, err.message);
    (void) snprintf(text, sizeof(text), "%s", result.out);
    csn_run_result_done(&result);
    return text;
}

void need_busybox(void)
{
    if (access(BUSYBOX, X_OK) < 0)
        SKIP("'%s' is missing (Debian: busybox-static)", BUSYBOX);
}

const char *make_tree(void)
{
    static const char *const names[] = { "sh", "ls", "cat", "id", "true", "echo" };
    static const char *const dirs[] = { "tree",      "tree/bin",  "tree/proc",
                                        "tree/dev",  "tree/tmp",  "tree/etc",
                                        "tree/root", "tree/home", "tree/home/daytona" };

    need_busybox();
    for (size_t i = 0; i < CSN_COUNT(dirs); i++)
        CHECK(mkdir(csn_test_path("%s", dirs[i]), 0755) == 0);
    RUN("cp", BUSYBOX, csn_test_path("tree/bin/busybox"));
    for (size_t i = 0; i < CSN_COUNT(names); i++)
        CHECK(symlink("busybox", csn_test_path("tree/bin/%s", names[i])) == 0);
    RUN("sh", "-c",
        "echo this is an image > \"$0\"/etc/motto; cp \"$0\"/etc/motto \"$0\"/home/daytona",
        csn_test_path("tree"));
    return csn_test_path("tree");
}
