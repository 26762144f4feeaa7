#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <caisson/arena.h>

#include "base/fd.h"
#include "csn_test.h"

static char path[4200];

static int loaded(const char *text, csn_arena_file **ret, csn_error *err)
{
    const char *dir = csn_test_dir();
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK_INT(csn_write_file_atomic(fd, "c.json", text, strlen(text), 0644, false), 0);
    (void) close(fd);
    (void) snprintf(path, sizeof(path), "%s/c.json", dir);
    return csn_arena_file_load(path, ret, err);
}

/* The message behind the file's name. */
static const char *mistake(const char *text)
{
    static csn_error err;
    csn_arena_file *f = NULL;

    if (loaded(text, &f, &err) == CSN_OK)
        FAIL("taken: %s", text);
    CHECK_INT(err.code, CSN_E_INVALID);
    CHECK(strncmp(err.message, path, strlen(path)) == 0);
    return err.message + strlen(path) + 2;
}

TEST(a_full_file_is_read)
{
    csn_arena_file *f = NULL;
    csn_error err = { 0 };
    const csn_arena_options *o;
    const csn_candidate *c;
    size_t n;

    if (loaded(
            "{\"objective\":\"do it\",\"timeout\":2.5,\"upload_timeout\":3,\"artifact_timeout\":4,"
            "\"weights\":[0.1,0.8,0.1],\"artifact_name\":\"post.md\",\"pip\":[\"a\",\"b\"],\"net\":\"outbound\","
            "\"trials\":3,\"seed\":7,\"jobs\":2,\"limits\":{\"memory\":\"256m\",\"pids\":64},"
            "\"env\":{\"K\":\"v\"},\"checks\":[\"contains:x\",{\"type\":\"min-count\",\"text\":\"- \",\"count\":3,"
            "\"points\":10}],\"candidates\":[{\"id\":\"a\",\"script\":\"a.py\",\"name\":\"Al\"},"
            "{\"id\":\"b\",\"script\":\"/x/b.js\",\"timeout\":9,\"pip\":[\"q\"],\"setup\":\"true\"}]}",
            &f, &err) < 0)
        FAIL("%s", err.message);
    o = csn_arena_file_options(f);
    c = csn_arena_file_candidates(f, &n);
    CHECK_INT(n, 2);
    CHECK_STR(o->run->objective, "do it");
    CHECK_INT(o->run->timeout_ms, 2500);
    CHECK_INT(o->run->upload_timeout_ms, 3000);
    CHECK_INT(o->run->artifact_timeout_ms, 4000);
    CHECK(o->weight_quality == 0.8 && o->weight_speed == 0.1);
    CHECK_INT(o->run->network, CSN_NET_OUTBOUND);
    CHECK_INT(o->n_trials, 3);
    CHECK_INT(o->run->memory_bytes, 256 << 20);
    CHECK_STR(o->run->pip[1], "b");
    CHECK(o->run->pip[2] == NULL);
    CHECK_STR(o->run->env[0], "K=v");
    CHECK_INT(o->n_checks, 2);
    CHECK_STR(o->checks[0].text, "x");
    CHECK(o->checks[1].count == 3 && o->checks[1].points == 10);
    CHECK_STR(c[0].name, "Al");
    CHECK(strstr(c[0].script, "/a.py"));
    CHECK_STR(c[1].script, "/x/b.js");
    CHECK_INT(c[1].timeout_ms, 9000);
    csn_arena_file_free(f);
}

TEST(a_bare_list_is_taken_too)
{
    csn_arena_file *f = NULL;
    size_t n;

    CHECK_INT(loaded("[{\"id\":\"a\",\"script\":\"a.py\"}]", &f, NULL), CSN_OK);
    (void) csn_arena_file_candidates(f, &n);
    CHECK_INT(n, 1);
    csn_arena_file_free(f);
}

TEST(every_mistake_names_the_key)
{
    CHECK(strstr(mistake("{\"candidate\":[]}"),
                 "candidate: unknown key; known are objective, candidates"));
    CHECK(
        strstr(mistake("[{\"id\":\"a\",\"scirpt\":\"x\"}]"), "candidates[0].scirpt: unknown key"));
    CHECK(strstr(mistake("[{\"id\":\"a\"}]"), "candidates[0].script: the key is missing"));
    CHECK(strstr(mistake("[{\"id\":\"a\",\"script\":\"x\"},{\"script\":\"x\"}]"),
                 "candidates[1].id: the key is missing"));
    CHECK(strstr(mistake("[{\"id\":\"../x\",\"script\":\"x\"}]"),
                 "candidates[0].id: letters, digits"));
    CHECK(strstr(mistake("{\"timeout\":\"fast\"}"), "timeout: a number of seconds"));
    CHECK(strstr(mistake("{\"limits\":{\"ram\":1}}"), "limits.ram: unknown key"));
    CHECK(strstr(mistake("{\"checks\":[{\"type\":\"regexp\",\"text\":\"x\"}]}"),
                 "checks[0].type: contains, regex, json-keys or min-count is expected"));
    CHECK(strstr(mistake("{\"checks\":[{\"type\":\"min-count\",\"text\":\"x\"}]}"),
                 "checks[0].count: the key is missing"));
    CHECK(strstr(mistake("{\"checks\":[\"contains\"]}"), "checks[0]: check 'contains': expected"));
    CHECK(strstr(mistake("{\"weights\":[1]}"), "weights: three numbers"));
    CHECK(strstr(mistake("{\"net\":\"all\"}"), "net: \"none\" or \"outbound\""));
    CHECK(strstr(mistake("{\"env\":{\"A\":1}}"), "env: a name without '='"));
    CHECK(strstr(mistake("{\"trials\":0}"), "trials: a whole number from 1"));
    CHECK(strstr(mistake("{"), "line 1"));
    CHECK(strstr(mistake("{\"seed\":1,\"seed\":2}"), "duplicate"));
}

TEST(a_missing_file_is_not_found)
{
    csn_arena_file *f = NULL;
    csn_error err = { 0 };

    CHECK_INT(csn_arena_file_load("/nonexistent/c.json", &f, &err), CSN_E_NOT_FOUND);
    CHECK(strstr(err.message, "/nonexistent/c.json"));
}
