#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <caisson/arena.h>
#include <caisson/config.h>

#include "base/buf.h"
#include "base/fd.h"
#include "csn_test.h"

static const char *const names[] = { "DAYTONA_API_KEY",      "DAYTONA_API_URL",
                                     "DAYTONA_BASE_URL",     "DAYTONA_SERVER_URL",
                                     "DAYTONA_API_BASE_URL", "DAYTONA_TARGET",
                                     "DAYTONA_JWT_TOKEN",    "DAYTONA_ORGANIZATION_ID" };

static void forget_all(void)
{
    for (size_t i = 0; i < CSN_COUNT(names); i++)
        (void) unsetenv(names[i]);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_INT(csn_write_file_atomic(fd, name, text, strlen(text), 0600, false), 0);
    (void) close(fd);
}

static csn_config *loaded(const char *dir)
{
    csn_config_options o = { .size = sizeof(o), .dir = dir };
    csn_config *c = NULL;
    csn_error err = { 0 };

    if (csn_config_load(&o, &c, &err) < 0)
        FAIL("%s", err.message);
    return c;
}

TEST(the_environment_wins_over_env_local_over_env)
{
    const char *dir = csn_test_dir();
    csn_config *c;

    forget_all();
    write_file(dir, ".env",
               "DAYTONA_API_KEY=plain\nDAYTONA_TARGET=eu\nDAYTONA_API_URL=https://plain/\n");
    c = loaded(dir);
    CHECK_STR(csn_config_api_key(c), "plain");
    CHECK_STR(csn_config_api_url(c), "https://plain");
    csn_config_free(c);
    write_file(dir, ".env.local", "DAYTONA_API_KEY= local \n");
    c = loaded(dir);
    CHECK_STR(csn_config_api_key(c), "local");
    CHECK_STR(csn_config_target(c), "eu");
    csn_config_free(c);
    (void) setenv("DAYTONA_API_KEY", "outside", 1);
    c = loaded(dir);
    CHECK_STR(csn_config_api_key(c), "outside");
    csn_config_free(c);
    (void) setenv("DAYTONA_API_KEY", "  ", 1); /* blank counts as absent */
    c = loaded(dir);
    CHECK_STR(csn_config_api_key(c), "local");
    csn_config_free(c);
}

TEST(a_placeholder_key_counts_as_absent)
{
    csn_config *c;

    forget_all();
    (void) setenv("DAYTONA_API_KEY", "your_daytona_api_key_here", 1);
    c = loaded(csn_test_dir());
    CHECK(csn_config_api_key(c) == NULL);
    CHECK_INT(csn_config_is_daytona_ready(c), 0);
    csn_config_free(c);
}

TEST(urls_resolve_in_the_documented_order)
{
    const char *dir = csn_test_dir();
    csn_config *c;

    forget_all();
    c = loaded(dir);
    CHECK_STR(csn_config_api_url(c), "https://app.daytona.io/api");
    csn_config_free(c);
    (void) setenv("DAYTONA_SERVER_URL", "https://server/x///", 1);
    c = loaded(dir);
    CHECK_STR(csn_config_api_url(c), "https://server/x");
    csn_config_free(c);
    (void) setenv("DAYTONA_BASE_URL", "https://api.daytona.io/v1",
                  1); /* the sample's: as if unset */
    c = loaded(dir);
    CHECK_STR(csn_config_api_url(c), "https://server/x");
    csn_config_free(c);
    (void) setenv("DAYTONA_BASE_URL", "https://base", 1);
    c = loaded(dir);
    CHECK_STR(csn_config_api_url(c), "https://base");
    csn_config_free(c);
    (void) setenv("DAYTONA_API_URL", "https://api/", 1);
    c = loaded(dir);
    CHECK_STR(csn_config_api_url(c), "https://api");
    csn_config_free(c);
}

TEST(the_misspelt_url_is_refused_with_its_right_name)
{
    csn_config_options o = { .size = sizeof(o), .dir = csn_test_dir() };
    csn_config *c = NULL;
    csn_error err = { 0 };

    forget_all();
    (void) setenv("DAYTONA_API_BASE_URL", "https://x", 1);
    CHECK_INT(csn_config_load(&o, &c, &err), CSN_E_INVALID);
    CHECK(strstr(err.message, "rename it to DAYTONA_API_URL"));
    (void) setenv("DAYTONA_API_URL", "https://y", 1);
    CHECK_INT(csn_config_load(&o, &c, &err), CSN_OK);
    csn_config_free(c);
}

TEST(an_explicit_env_file_must_exist)
{
    csn_config_options o = { .size = sizeof(o), .env_file = "/nonexistent/.env" };
    csn_config *c = NULL;

    CHECK_INT(csn_config_load(&o, &c, NULL), CSN_E_NOT_FOUND);
}

static csn_candidate_result *refused(void)
{
    csn_candidate c = { .size = sizeof(c), .id = "alpha", .script = "/nonexistent.py" };
    csn_run_options o = { .size = sizeof(o), .backend = CSN_BACKEND_DAYTONA, .objective = "x" };
    csn_candidate_result *r = NULL;
    csn_error err = { 0 };

    if (csn_candidate_run(NULL, &c, &o, &r, &err) < 0)
        FAIL("%s", err.message);
    return r;
}

/* A.11: 1, 2, 3 */
TEST(the_remote_backend_without_a_key_is_refused_at_once)
{
    csn_candidate_result *r;

    forget_all();
    CHECK_INT(chdir(csn_test_dir()), 0);
    r = refused();
    CHECK_STR(r->error_message, "Daytona API key not configured");
    CHECK(r->runtime_seconds == 0 && !r->sandbox_id && !r->success);
    CHECK_STR(r->output, "");
    csn_candidate_result_free(r);
    (void) setenv("DAYTONA_API_KEY", "your_daytona_api_key_here", 1);
    r = refused();
    CHECK_STR(r->error_message, "Daytona API key not configured");
    csn_candidate_result_free(r);
    (void) setenv("DAYTONA_API_KEY", "dtn_real", 1);
    (void) setenv("CAISSON_LIBEXEC", "/nonexistent", 1); /* an installation without caisson-remote */
    r = refused();
    CHECK_STR(r->error_message, "Daytona backend not available in this build");
    csn_candidate_result_free(r);
}
