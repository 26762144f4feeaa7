/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "csn_test.h"
#include "shape/create.h"
#include "shape/filter.h"
#include "shape/volume.h"

/* ---- create ---- */

static csn_error why;

static int read_create(const char *text, csn_shape_create *c)
{
    csn_auto(json) csn_json *doc = NULL;

    why = (csn_error){ 0 };
    CHECK_INT(csn_json_parse(text, strlen(text), &doc, NULL), 0);
    return csn_shape_create_read(doc, c, &why);
}

static int result_of(const char *text)
{
    csn_auto(shape_create) csn_shape_create c;

    return read_create(text, &c);
}

TEST(an_empty_body_is_all_defaults)
{
    csn_auto(shape_create) csn_shape_create c;

    CHECK_INT(read_create("{}", &c), CSN_OK);
    CHECK(!c.name && !c.snapshot && !c.dockerfile && !c.has_auto_stop && c.n_mounts == 0);
}

TEST(what_the_sdks_send_is_read)
{
    csn_auto(shape_create) csn_shape_create c;

    CHECK_INT(read_create("{\"name\":\"ag2-1\",\"snapshot\":\" \",\"env\":{\"A\":\"1\"},"
                          "\"labels\":{\"code-toolbox-language\":\"python\"},\"public\":true,"
                          "\"target\":\"us\",\"autoStopInterval\":0,\"autoDeleteInterval\":-1,"
                          "\"ttlMinutes\":5,\"user\":null,\"unknown\":[1],\"volumes\":["
                          "{\"volumeId\":\"v\",\"mountPath\":\"/home/daytona/memory/\","
                          "\"subpath\":\"a/b\"}]}",
                          &c),
              CSN_OK);
    CHECK_STR(c.name, "ag2-1");
    CHECK(!c.snapshot && !c.user);
    CHECK_STR(csn_map_get(&c.env, "A"), "1");
    CHECK_STR(csn_map_get(&c.labels, "code-toolbox-language"), "python");
    CHECK(c.is_public && c.has_auto_stop && c.auto_stop_min == 0);
    CHECK_INT(c.auto_delete_min, -1);
    CHECK_INT(c.ttl_min, 5);
    CHECK_INT(c.n_mounts, 1);
    CHECK_STR(c.mounts[0].path, "/home/daytona/memory");
    CHECK_STR(c.mounts[0].subpath, "a/b");
}

TEST(resources_go_with_an_image_and_not_with_a_snapshot)
{
    csn_auto(shape_create) csn_shape_create c;

    CHECK_INT(result_of("{\"cpu\":2}"), CSN_E_INVALID);
    CHECK_STR(why.message, "Cannot specify Sandbox resources when using a snapshot");
    CHECK_INT(result_of("{\"snapshot\":\"s\",\"buildInfo\":{\"dockerfileContent\":\"FROM x\"}}"),
              CSN_E_INVALID);
    CHECK_INT(read_create("{\"buildInfo\":{\"dockerfileContent\":\"FROM x\"},\"cpu\":0.5,"
                          "\"memory\":2,\"disk\":3}",
                          &c),
              CSN_OK);
    CHECK_INT(c.cpu_milli, 500);
    CHECK_INT(c.memory_bytes, 2 * CSN_GIB);
    CHECK_INT(result_of("{\"buildInfo\":{\"dockerfileContent\":\"FROM x\"},\"gpu\":1}"),
              CSN_E_INVALID);
}

TEST(bad_values_are_named_in_the_error)
{
    static const struct {
        const char *body;
        int result;
    } cases[] = {
        { "[]", CSN_E_INVALID },
        { "{\"name\":1}", CSN_E_INVALID },
        { "{\"name\":\"a/b\"}", CSN_E_INVALID },
        { "{\"name\":\"a\\u0007\"}", CSN_E_INVALID },
        { "{\"env\":{\"A\":1}}", CSN_E_INVALID },
        { "{\"env\":{\"A B\":\"1\"}}", CSN_E_INVALID },
        { "{\"labels\":[]}", CSN_E_INVALID },
        { "{\"public\":\"true\"}", CSN_E_INVALID },
        { "{\"user\":\"nobody\"}", CSN_E_INVALID },
        { "{\"autoStopInterval\":-1}", CSN_E_INVALID },
        { "{\"autoStopInterval\":1.5}", CSN_E_INVALID },
        { "{\"autoStopInterval\":\"1\"}", CSN_E_INVALID },
        { "{\"autoArchiveInterval\":-1}", CSN_E_INVALID },
        { "{\"autoStopInterval\":9223372036854775807}", CSN_E_INVALID },
        { "{\"autoStopInterval\":1,\"autoPauseInterval\":1}", CSN_E_INVALID },
        { "{\"autoPauseInterval\":1}", CSN_E_UNSUPPORTED },
        { "{\"volumes\":{}}", CSN_E_INVALID },
        { "{\"volumes\":[{\"volumeId\":\"\",\"mountPath\":\"/a\"}]}", CSN_E_INVALID },
        { "{\"volumes\":[{\"volumeId\":\"v\",\"mountPath\":\"/a\"},"
          "{\"volumeId\":\"w\",\"mountPath\":\"/a\"}]}",
          CSN_E_INVALID },
        { "{\"volumes\":[{\"volumeId\":\"v\",\"mountPath\":\"/a\"},"
          "{\"volumeId\":\"w\",\"mountPath\":\"/a/\"}]}",
          CSN_E_INVALID },
        { "{\"buildInfo\":{}}", CSN_E_INVALID },
        { "{\"buildInfo\":{\"dockerfileContent\":\"FROM x\",\"contextHashes\":[\"h\"]}}",
          CSN_E_UNSUPPORTED },
        { "{\"networkAllowList\":\"10.0.0.0/8\"}", CSN_E_UNSUPPORTED },
        { "{\"networkAllowList\":\"10.0.0.0\"}", CSN_E_INVALID },
        { "{\"domainAllowList\":\"a..b\"}", CSN_E_INVALID },
        { "{\"linkedSandbox\":\"x\"}", CSN_E_UNSUPPORTED },
        { "{\"secrets\":[{\"A\":\"b\"}]}", CSN_E_UNSUPPORTED },
        { "{\"networkAllowList\":\"10.0.0.0/8\",\"networkBlockAll\":true}", CSN_OK },
        { "{\"networkAllowList\":\"\",\"secrets\":[],\"linkedSandbox\":null}", CSN_OK },
    };

    for (size_t i = 0; i < CSN_COUNT(cases); i++) {
        int r = result_of(cases[i].body);
        if (r != cases[i].result || (r < 0 && !why.message[0]))
            FAIL("%s: %d, wanted %d (%s)", cases[i].body, r, cases[i].result, why.message);
    }
}

TEST(mount_paths_stay_out_of_the_system)
{
    static const char *const bad[] = { "",        "a",     "/",     "//a",    "/a//b",
                                       "/a/../b", "/a/.",  "/etc",  "/etc/x", "/proc/1",
                                       "/lib64",  "/dev/", "/a\nb", "/bin/sh" };
    static const char *const good[] = { "/a", "/home/daytona/memory", "/etcetera", "/a/b/",
                                        "/libx" };

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        if (csn_shape_check_mount(bad[i], NULL, NULL) == CSN_OK)
            FAIL("'%s' was taken", bad[i]);
    for (size_t i = 0; i < CSN_COUNT(good); i++)
        if (csn_shape_check_mount(good[i], "", NULL) < 0)
            FAIL("'%s' was refused", good[i]);
    CHECK(csn_shape_check_mount("/a", "../x", NULL) < 0);
    CHECK(csn_shape_check_mount("/a", "/x", NULL) < 0);
    CHECK(csn_shape_check_mount("/a", "x//y", NULL) < 0);
    char path[300] = "/a/";
    memset(path + 3, 'x', 255);
    CHECK_INT(csn_shape_check_mount(path, path + 3, NULL), CSN_OK);
    path[3 + 255] = 'x';
    CHECK(csn_shape_check_mount(path, "", NULL) < 0);
    CHECK(csn_shape_check_mount("/a", path + 3, NULL) < 0);
}

TEST(lists_of_networks_and_names_are_checked)
{
    CHECK_INT(csn_shape_check_cidrs("192.168.1.0/16, 8.8.8.8/32", NULL), CSN_OK);
    CHECK(csn_shape_check_cidrs("192.168.1/16", NULL) < 0);
    CHECK(csn_shape_check_cidrs("256.0.0.0/8", NULL) < 0);
    CHECK(csn_shape_check_cidrs("1.2.3.4/33", NULL) < 0);
    CHECK(csn_shape_check_cidrs("1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,"
                                "1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8",
                                NULL) < 0);
    CHECK_INT(csn_shape_check_domains("*.example.org,pypi.org", NULL), CSN_OK);
    CHECK(csn_shape_check_domains("-a.org", NULL) < 0);
    CHECK(csn_shape_check_domains("a_b.org", NULL) < 0);
}

TEST(mounts_survive_the_store)
{
    csn_shape_mount in[2] = { { "v1", "/a", "s" }, { "v2", "/b", "" } }, out[16];
    size_t n = 0;
    csn_auto(mem) char *text = csn_shape_mounts_text(in, 2);

    CHECK_STR(text, "[{\"volumeId\":\"v1\",\"mountPath\":\"/a\",\"subpath\":\"s\"},"
                    "{\"volumeId\":\"v2\",\"mountPath\":\"/b\"}]");
    CHECK_INT(csn_shape_mounts_parse(text, out, &n), 0);
    CHECK_INT(n, 2);
    CHECK_STR(out[0].subpath, "s");
    CHECK_STR(out[1].path, "/b");
}

/* ---- maps ---- */

TEST(maps_change_and_compare)
{
    csn_auto(map) csn_map map = { 0 }, part = { 0 };

    for (char key[2] = "a"; key[0] < 'k'; key[0]++)
        CHECK_INT(csn_map_set(&map, key, "1"), 0);
    csn_map_unset(&map, "c");
    csn_map_unset(&map, "zz");
    CHECK_INT(map.n, 9);
    CHECK_INT(csn_map_set(&map, "d", "2"), 0);
    CHECK_INT(map.n, 9);
    CHECK(csn_map_contains(&map, &part));
    CHECK_INT(csn_map_parse("{\"d\":\"2\"}", &part), 0);
    CHECK(csn_map_contains(&map, &part));
    CHECK_INT(csn_map_set(&part, "c", "1"), 0);
    CHECK(!csn_map_contains(&map, &part));
    csn_auto(mem) char *text = csn_map_text(&part);
    CHECK_STR(text, "{\"d\":\"2\",\"c\":\"1\"}");
}

/* ---- Dockerfiles and names of images ---- */

TEST(a_dockerfile_that_needs_no_build_is_an_image_and_variables)
{
    csn_auto(map) csn_map env = { 0 };
    char *image = NULL;

    CHECK_INT(csn_map_set(&env, "KEPT", "mine"), 0);
    CHECK_INT(csn_shape_dockerfile_read("# hello\nFROM --platform=linux/amd64 a/b:c\r\n"
                                        "ENV X='a b' Y=\"c\\\"d\" Z=e KEPT=no\nLABEL a=b\n\n"
                                        "ENV Z=f D='$HOME' E=\\$x\n",
                                        &image, &env, &why),
              CSN_OK);
    CHECK_STR(image, "a/b:c");
    free(image);
    CHECK_STR(csn_map_get(&env, "X"), "a b");
    CHECK_STR(csn_map_get(&env, "Y"), "c\"d");
    CHECK_STR(csn_map_get(&env, "KEPT"), "mine");
    CHECK_STR(csn_map_get(&env, "Z"), "f"); /* the last line wins */
    CHECK_STR(csn_map_get(&env, "D"), "$HOME");
    CHECK_STR(csn_map_get(&env, "E"), "$x");
}

TEST(other_dockerfiles_are_refused_with_the_instruction)
{
    char *image = NULL;

    CHECK_INT(csn_shape_dockerfile_read("FROM a\nRUN x\n", &image, NULL, &why), CSN_E_UNSUPPORTED);
    CHECK(strstr(why.message, "RUN") != NULL);
    CHECK_INT(csn_shape_dockerfile_read("FROM a\nFROM b\n", &image, NULL, &why), CSN_E_UNSUPPORTED);
    CHECK_INT(csn_shape_dockerfile_read("", &image, NULL, &why), CSN_E_INVALID);
    CHECK_INT(csn_shape_dockerfile_read("FROM\n", &image, NULL, &why), CSN_E_INVALID);
    CHECK_INT(csn_shape_dockerfile_read("FROM a\nENV X\n", &image, NULL, &why), CSN_E_INVALID);
    CHECK_INT(csn_shape_dockerfile_read("FROM a\nENV X='a\n", &image, NULL, &why), CSN_E_INVALID);
    CHECK_INT(csn_shape_dockerfile_read("FROM a\nENV PATH=/x:$PATH\n", &image, NULL, &why),
              CSN_E_UNSUPPORTED);
    CHECK(strstr(why.message, "ENV PATH") != NULL);
}

TEST(references_become_names_the_engine_takes)
{
    char name[65];

    CHECK_INT(csn_shape_image_name("python:3.12-slim", name), 0);
    CHECK_STR(name, "python-3.12-slim");
    CHECK_INT(csn_shape_image_name("../etc", name), -EINVAL);
    CHECK_INT(csn_shape_image_name("a b", name), -EINVAL);
    CHECK_INT(csn_shape_image_name("", name), -EINVAL);
}

/* ---- lists ---- */

typedef struct pair {
    const char *key, *value;
} pair;

static const char *from_pairs(const char *key, size_t i, void *user)
{
    for (const pair *p = user; p->key; p++)
        if (csn_streq(p->key, key) && i-- == 0)
            return p->value;
    return NULL;
}

static int read_filter(pair *pairs, bool is_paginated, csn_filter *f)
{
    why = (csn_error){ 0 };
    return csn_filter_read(from_pairs, pairs, is_paginated, f, &why);
}

static csn_shape_sandbox a_sandbox(const char *id, const char *name, int64_t active_ms)
{
    return (csn_shape_sandbox){ .id = id,
                                .org_id = "o",
                                .name = name,
                                .user = "daytona",
                                .target = "local",
                                .toolbox_url = "u",
                                .env = "{}",
                                .labels = "{}",
                                .mounts = "[]",
                                .state = "started",
                                .desired_state = "started",
                                .cpu_milli = 1000,
                                .memory_bytes = CSN_GIB,
                                .disk_bytes = CSN_GIB,
                                .created_ms = 1000,
                                .updated_ms = 1000,
                                .active_ms = active_ms };
}

#define ID_1 "00000000-0000-4000-8000-000000000001"
#define ID_2 "00000000-0000-4000-8000-000000000002"
#define ID_3 "00000000-0000-4000-8000-000000000003"

TEST(a_list_without_wishes_has_the_defaults)
{
    pair none[] = { { NULL, NULL } };
    csn_auto(filter) csn_filter f;

    CHECK_INT(read_filter(none, false, &f), CSN_OK);
    CHECK_INT(f.limit, 100);
    CHECK_INT(f.sort, CSN_SORT_ACTIVE);
    CHECK(!f.is_ascending);
}

TEST(labels_of_null_are_no_filter)
{
    pair q[] = { { "labels", "null" }, { NULL, NULL } };
    pair bad[] = { { "labels", "{" }, { NULL, NULL } };
    csn_auto(filter) csn_filter f, g;

    CHECK_INT(read_filter(q, true, &f), CSN_OK);
    CHECK_INT(f.labels.n, 0);
    CHECK_INT(f.sort, CSN_SORT_CREATED);
    CHECK_INT(read_filter(bad, true, &g), CSN_E_INVALID);
}

TEST(each_filter_keeps_what_fits)
{
    static const struct {
        const char *key, *value;
        bool fits;
    } cases[] = {
        { "id", "00000000", true },
        { "id", "1", false },
        { "name", "BOX", true },
        { "name", "ox", false },
        { "states", "started", true },
        { "states", "stopped", false },
        { "snapshots", "x", false },
        { "regionIds", "local", true },
        { "sandboxClasses", "container", true },
        { "sandboxClasses", "windows", false },
        { "minCpu", "1", true },
        { "minCpu", "1.5", false },
        { "maxMemoryGiB", "0.5", false },
        { "maxDiskGiB", "1", true },
        { "isPublic", "false", true },
        { "isPublic", "true", false },
        { "labels", "{\"a\":\"b\"}", true },
        { "labels", "{\"a\":\"c\"}", false },
        { "createdAtAfter", "1970-01-01T00:00:00.000Z", true },
        { "createdAtAfter", "2020-01-01T00:00:00.000000+0000", false },
        { "createdAtBefore", "2020-01-01T00:00:00.000000 0000", true },
        { "createdAtBefore", "1970-01-01T00:00:00.500Z", false },
        { "autoDestroyAtBefore", "2020-01-01T00:00:00.000Z", false },
    };
    csn_auto(map) csn_map labels = { 0 };
    csn_shape_sandbox s = a_sandbox(ID_1, "box", 5);

    CHECK_INT(csn_map_parse("{\"a\":\"b\",\"c\":\"d\"}", &labels), 0);
    for (size_t i = 0; i < CSN_COUNT(cases); i++) {
        pair q[] = { { cases[i].key, cases[i].value }, { NULL, NULL } };
        csn_auto(filter) csn_filter f;
        if (read_filter(q, false, &f) < 0)
            FAIL("%s=%s: %s", cases[i].key, cases[i].value, why.message);
        if (csn_filter_fits(&f, &s, &labels) != cases[i].fits)
            FAIL("%s=%s", cases[i].key, cases[i].value);
    }
}

TEST(bad_queries_are_refused)
{
    static const pair cases[] = {
        { "limit", "0" },          { "limit", "201" },
        { "limit", "x" },          { "minCpu", "nan" },
        { "isPublic", "1" },       { "sort", "colour" },
        { "order", "up" },         { "labels", "[]" },
        { "labels", "{\"a\":1}" }, { "createdAtAfter", "yesterday" },
        { "createdAtAfter", "1" },
    };

    for (size_t i = 0; i < CSN_COUNT(cases); i++) {
        pair q[] = { cases[i], { NULL, NULL } };
        csn_auto(filter) csn_filter f;
        if (read_filter(q, false, &f) != CSN_E_INVALID || !why.message[0])
            FAIL("%s=%s was taken", cases[i].key, cases[i].value);
    }
}

/* Two boxes with the same time, one behind the cursor that is gone by now. */
TEST(a_cursor_goes_on_where_the_last_page_ended)
{
    csn_shape_sandbox a = a_sandbox(ID_1, "a", 9), b = a_sandbox(ID_2, "b", 5),
                      c = a_sandbox(ID_3, "c", 5);
    csn_auto(buf) csn_buf cursor = CSN_BUF_INIT;
    pair none[] = { { NULL, NULL } };
    csn_auto(filter) csn_filter f;
    int error = 0;

    CHECK_INT(read_filter(none, false, &f), CSN_OK);
    CHECK(csn_filter_compare(&f, &a, &b) < 0);
    CHECK(csn_filter_compare(&f, &c, &b) < 0); /* the same moment: by id, downwards too */
    CHECK_INT(csn_filter_cursor(&f, &c, &cursor), 0);
    f.cursor = cursor.data;
    CHECK(!csn_filter_is_after(&f, &a, &error));
    CHECK(!csn_filter_is_after(&f, &c, &error));
    CHECK(csn_filter_is_after(&f, &b, &error));
    CHECK_INT(error, 0);
    f.is_ascending = true;
    CHECK(!csn_filter_is_after(&f, &b, &error));
    CHECK_INT(error, -EINVAL); /* of another order */
    f.cursor = "zz";
    CHECK(!csn_filter_is_after(&f, &b, &error));
    CHECK_INT(error, -EINVAL);
}

TEST(a_cursor_of_names_works_too)
{
    csn_shape_sandbox a = a_sandbox(ID_2, "a b", 9), b = a_sandbox(ID_1, "b", 5);
    csn_auto(buf) csn_buf cursor = CSN_BUF_INIT;
    pair q[] = { { "sort", "name" }, { "order", "asc" }, { NULL, NULL } };
    csn_auto(filter) csn_filter f;
    int error = 0;

    CHECK_INT(read_filter(q, false, &f), CSN_OK);
    CHECK(csn_filter_compare(&f, &a, &b) < 0);
    CHECK_INT(csn_filter_cursor(&f, &a, &cursor), 0);
    f.cursor = cursor.data;
    CHECK(!csn_filter_is_after(&f, &a, &error));
    CHECK(csn_filter_is_after(&f, &b, &error));
    CHECK_INT(error, 0);
}

/* ---- what goes out ---- */

TEST(the_sandbox_object_has_every_required_member)
{
    static const char *const required[] = {
        "id",     "organizationId",  "name",   "user", "env", "labels",
        "public", "networkBlockAll", "target", "cpu",  "gpu", "memory",
        "disk",   "toolboxProxyUrl"
    };
    csn_shape_sandbox s = a_sandbox(ID_1, "n", 5);
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_auto(json) csn_json *doc = NULL;

    s.cpu_milli = 1500;
    csn_shape_sandbox_write(&s, false, &w);
    CHECK_INT(csn_json_parse(out.data, out.len, &doc, NULL), 0);
    for (size_t i = 0; i < CSN_COUNT(required); i++)
        if (!csn_json_get(doc, required[i]))
            FAIL("%s is missing", required[i]);
    CHECK(csn_json_get_double(doc, "cpu", 0) > 1.49);
    CHECK_INT(csn_json_type_of(csn_json_get(doc, "memory")), CSN_JSON_INT);
    CHECK_STR(csn_json_get_str(doc, "createdAt", ""), "1970-01-01T00:00:01.000Z");
}

TEST(volumes_and_snapshots_say_null_where_there_is_nothing)
{
    static const char *const nullable[] = { "size", "entrypoint", "errorReason", "lastUsedAt",
                                            "sourceSandboxId" };
    csn_shape_snapshot s = { .id = "i",
                             .org_id = "o",
                             .name = "n",
                             .state = "active",
                             .cpu_milli = 1000,
                             .created_ms = 1,
                             .updated_ms = 1 };
    csn_auto(buf) csn_buf out = CSN_BUF_INIT;
    csn_jw w = CSN_JW_INIT(&out, false);
    csn_auto(json) csn_json *doc = NULL;

    csn_shape_snapshot_write(&s, &w);
    CHECK_INT(csn_json_parse(out.data, out.len, &doc, NULL), 0);
    for (size_t i = 0; i < CSN_COUNT(nullable); i++)
        if (csn_json_type_of(csn_json_get(doc, nullable[i])) != CSN_JSON_NULL)
            FAIL("%s is not null", nullable[i]);
}

TEST(a_snapshot_is_made_of_one_thing)
{
    static const struct {
        const char *body;
        int result;
    } cases[] = {
        { "{\"name\":\"a/b:1\",\"imageName\":\"x:1\"}", CSN_OK },
        { "{\"name\":\"a\",\"buildInfo\":{\"dockerfileContent\":\"FROM x\"}}", CSN_OK },
        { "{\"name\":\"a\"}", CSN_E_INVALID },
        { "{\"name\":\"a\",\"imageName\":\"x\",\"buildInfo\":{\"dockerfileContent\":\"FROM x\"}}",
          CSN_E_INVALID },
        { "{\"name\":\"a b\",\"imageName\":\"x\"}", CSN_E_INVALID },
        { "{\"imageName\":\"x\"}", CSN_E_INVALID },
        { "{\"name\":\"a\",\"imageName\":\"x\",\"entrypoint\":[1]}", CSN_E_INVALID },
        { "{\"name\":\"a\",\"imageName\":\"x\",\"cpu\":0}", CSN_E_INVALID },
    };

    for (size_t i = 0; i < CSN_COUNT(cases); i++) {
        csn_auto(json) csn_json *doc = NULL;
        csn_shape_snapshot_create c;
        CHECK_INT(csn_json_parse(cases[i].body, strlen(cases[i].body), &doc, NULL), 0);
        int r = csn_shape_snapshot_read(doc, &c, &why);
        if (r != cases[i].result)
            FAIL("%s: %d", cases[i].body, r);
    }
}
