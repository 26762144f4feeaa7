/* Many candidates at once: order, artifacts, isolation, cancelling, scoring, trials. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/time.h"
#include "contest.h"

#define CANDIDATE(the_id, path) \
    { \
        .size = sizeof(csn_candidate), .id = (the_id), .script = (path) \
    }

static bool has_file(const char *dir, const char *name, const char *want)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;

    csn_buf_printf(&path, "%s/%s", dir, name);
    if (csn_read_file(AT_FDCWD, path.data, &text, 1 << 20) < 0)
        return false;
    return !want || strcmp(text.data, want) == 0;
}

static bool is_dir(const char *dir, const char *name)
{
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    struct stat st;

    csn_buf_printf(&path, "%s/%s", dir, name);
    return stat(path.data, &st) == 0 && S_ISDIR(st.st_mode);
}

static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void) closedir(d);
    return n;
}

/* A.11 12, A.6 */
TEST(results_come_in_input_order_and_every_candidate_has_a_directory)
{
    const char *dir = a_directory("round"), *deeper;
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_candidate c[] = {
        CANDIDATE("slow", a_script("slow.py", "import time; time.sleep(0.7)\n" WRITE_OK)),
        CANDIDATE("quick", a_script("quick.py", WRITE_OK)),
        CANDIDATE("crash", a_script("crash.py", WRITE_OK "1/0\n")),
        CANDIDATE("silent", a_script("silent.py", "pass\n")),
        CANDIDATE("empty", a_script("empty.py", "import sys; open(sys.argv[2], 'w')\n")),
        CANDIDATE("missing", "/nonexistent.py"),
    };
    const csn_arena_result *r;

    csn_buf_printf(&path, "%s/new/place", dir);
    deeper = path.data;
    r = run_arena(c, CSN_COUNT(c), (csn_arena_options){ .artifacts_dir = deeper });
    CHECK_INT(r->n_candidates, 6);
    for (size_t i = 0; i < CSN_COUNT(c); i++) {
        CHECK_STR(r->results[i]->candidate_id, c[i].id);
        CHECK_STR(r->scores[i].candidate_id, c[i].id);
        CHECK(is_dir(deeper, c[i].id));
    }
    CHECK(has_file(deeper, "slow/output.md", "a fine artifact\n"));
    CHECK(has_file(deeper, "crash/output.md", "a fine artifact\n")); /* A.11 8 */
    CHECK(!has_file(deeper, "silent/output.md", NULL));
    CHECK(has_file(deeper, "empty/output.md", ""));
    CHECK_STR(r->results[5]->error_message,
              "Could not write script: /nonexistent.py: No such file or directory");
    CHECK_STR(r->execution_mode, "local");
    CHECK_INT(r->winner, 1);
    CHECK_INT(count_sandboxes(the_engine()), 0);
}

TEST(an_empty_list_gives_an_empty_result)
{
    const csn_arena_result *r = run_arena(NULL, 0, (csn_arena_options){ 0 });

    CHECK_INT(r->n_candidates, 0);
    CHECK_INT(r->winner, -1);
}

TEST(stale_copies_are_removed_and_the_name_is_configurable)
{
    const char *dir = a_directory("stale");
    csn_candidate good[] = { CANDIDATE("a", a_script("a.py", WRITE_OK)) };
    csn_candidate bad[] = { CANDIDATE("a", a_script("b.py", "pass\n")) };
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;

    (void) run_arena(
        good, 1, (csn_arena_options){ .artifacts_dir = dir, .artifact_name = "discord_post.md" });
    CHECK(has_file(dir, "a/discord_post.md", "a fine artifact\n"));
    csn_buf_printf(&path, "%s/a", dir);
    CHECK_INT(count_files(path.data), 1); /* no temporary one beside it */
    (void) run_arena(
        bad, 1, (csn_arena_options){ .artifacts_dir = dir, .artifact_name = "discord_post.md" });
    CHECK(!has_file(dir, "a/discord_post.md", NULL));
}

TEST(a_directory_that_can_not_be_made_fails_only_its_candidate)
{
    const char *dir = a_directory("blocked");
    csn_candidate c[] = { CANDIDATE("a", a_script("a.py", WRITE_OK)),
                          CANDIDATE("b", a_script("b.py", WRITE_OK)) };
    const csn_arena_result *r;
    csn_auto(fd) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK_INT(csn_write_file_atomic(fd, "a", "in the way", 10, 0644, false), 0);
    r = run_arena(c, 2, (csn_arena_options){ .artifacts_dir = dir });
    CHECK(strstr(r->results[0]->error_message, "Could not create artifact directory: "));
    CHECK(!r->results[0]->sandbox_id);
    CHECK(r->results[1]->success);
}

TEST(duplicate_ids_bad_weights_and_bad_checks_are_refused_before_anything_runs)
{
    csn_candidate c[] = { CANDIDATE("a", "x.py"), CANDIDATE("a", "y.py") };
    csn_artifact_check check = { .kind = CSN_CHECK_REGEX, .text = "(" };
    csn_arena_options o = { .size = sizeof(o), .run = NULL };
    csn_arena_result *r = NULL;

    FAILS(csn_arena_run(the_engine(), c, 2, &o, &r, err), CSN_E_INVALID);
    o.weight_quality = 0.5;
    FAILS(csn_arena_run(the_engine(), c, 1, &o, &r, err), CSN_E_INVALID);
    o.weight_quality = 0;
    o.checks = &check;
    o.n_checks = 1;
    FAILS(csn_arena_run(the_engine(), c, 1, &o, &r, err), CSN_E_INVALID);
    o.n_checks = 0;
    o.artifact_name = "../x";
    FAILS(csn_arena_run(the_engine(), c, 1, &o, &r, err), CSN_E_INVALID);
    CHECK_INT(count_sandboxes(the_engine()) > 0, 0);
}

/* A.11 15 */
TEST(sandboxes_share_nothing_not_even_over_two_runs)
{
    const char *script = a_script(
        "a.py", "import os, sys\nseen = [p for p in ('/home/daytona/mark', '/tmp/mark', "
                "'/dev/shm/mark', '/var/tmp/mark') if os.path.exists(p)]\n"
                "for p in ('/home/daytona/mark', '/tmp/mark', '/dev/shm/mark', '/var/tmp/mark'):\n"
                "  try: open(p, 'w').write('x')\n  except OSError: pass\n"
                "open(sys.argv[2], 'w').write('seen: ' + ' '.join(seen) + ' and no more')\n");
    csn_candidate c[] = { CANDIDATE("a", script), CANDIDATE("b", script) };

    for (int i = 0; i < 2; i++) {
        const csn_arena_result *r = run_arena(c, 2, (csn_arena_options){ .n_jobs = 1 });

        CHECK_STR(r->results[0]->artifact_content, "seen:  and no more");
        CHECK_STR(r->results[1]->artifact_content, "seen:  and no more");
        CHECK(strcmp(r->results[0]->sandbox_id, r->results[1]->sandbox_id) != 0);
    }
}

static csn_candidate *many(size_t n, const char *script)
{
    static char ids[1024][16];
    csn_candidate *c = calloc(n, sizeof(*c));

    CHECK(c && n <= 1024);
    for (size_t i = 0; i < n; i++) {
        (void) snprintf(ids[i], sizeof(ids[i]), "c%zu", i);
        c[i] = (csn_candidate) CANDIDATE(ids[i], script);
    }
    csn_test_defer(free, c);
    return c;
}

/* What the same number takes without a sleep, on this machine as busy as it is. */
static double without_sleep(size_t n)
{
    csn_candidate *c = many(n, a_script("q.sh", "echo a long enough artifact > \"$2\"\n"));

    return run_arena(c, n, (csn_arena_options){ 0 })->wall_seconds;
}

TEST(three_that_sleep_three_seconds_finish_in_well_under_six)
{
    double quick = without_sleep(3);
    csn_candidate *c = many(3, a_script("s.sh", "sleep 3; echo a long enough artifact > \"$2\"\n"));
    const csn_arena_result *r = run_arena(c, 3, (csn_arena_options){ 0 });

    csn_test_note("3 x sleep 3: %.2f s, without a sleep %.2f s", r->wall_seconds, quick);
    CHECK(r->winner >= 0 && r->wall_seconds < 4.5 + 2 * quick);
}

/* Must show 5 */
TEST(sixty_four_that_sleep_one_second_finish_in_three)
{
    double quick = without_sleep(64);
    csn_candidate *c =
        many(64, a_script("s.sh", "sleep 1; echo a long enough artifact > \"$2\"\n"));
    const csn_arena_result *r = run_arena(c, 64, (csn_arena_options){ 0 });

    csn_test_note("64 x sleep 1: %.2f s, without a sleep %.2f s", r->wall_seconds, quick);
    for (size_t i = 0; i < 64; i++)
        if (!r->results[i]->success)
            FAIL("c%zu: %s", i, r->results[i]->error_message);
    CHECK_INT(r->n_jobs, 64);
    CHECK_INT(count_sandboxes(the_engine()), 0);
    CHECK(r->wall_seconds <= 2 * (1 + quick)); /* 3 s on two cores with nothing else to do */
}

static int n_open_scripts, n_looks;

/* A file that somebody has open for writing can't be executed. */
static void look_for_open_scripts(size_t index, unsigned trial, csn_run_state state,
                                  const csn_candidate_result *result, void *user)
{
    (void) index, (void) trial, (void) result, (void) user;
    if (state != CSN_RUN_EXECUTING)
        return;
    n_looks++;
    for (int fd = 3; fd < 1024; fd++) {
        char link[64], path[512];
        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
        n_open_scripts += strstr(path, "/home/daytona/") && fcntl(fd, F_GETFL) & O_ACCMODE;
    }
}

TEST(a_script_is_no_more_open_for_writing_when_it_is_started)
{
    csn_candidate *c = many(1, a_script("s.sh", "echo a long enough artifact > \"$2\"\n"));

    (void) run_arena(
        c, 1,
        (csn_arena_options){ .run = &(csn_run_options){ .on_state = look_for_open_scripts } });
    CHECK_INT(n_looks, 1);
    CHECK_INT(n_open_scripts, 0);
}

TEST(jobs_bound_how_many_run_at_once)
{
    csn_candidate *c =
        many(4, a_script("s.sh", "sleep 0.4; echo a long enough artifact > \"$2\"\n"));
    const csn_arena_result *r = run_arena(c, 4, (csn_arena_options){ .n_jobs = 2 });

    CHECK(r->wall_seconds >= 0.8);
    CHECK(r->runs[2]->t_start >= r->runs[0]->t_exec);
}

/* ---- cancelling ---- */

static csn_cancel *handle;
static int n_executing;

static void fire_when_running(size_t index, unsigned trial, csn_run_state state,
                              const csn_candidate_result *result, void *user)
{
    (void) index, (void) trial, (void) result, (void) user;
    n_executing += state == CSN_RUN_EXECUTING;
    if (n_executing == 4)
        csn_cancel_fire(handle);
}

TEST(cancelling_kills_cleans_and_marks_the_unfinished)
{
    const char *sleeper = a_script("s.sh", "sleep 100\n");
    csn_candidate *c = many(12, sleeper);
    int64_t start = csn_now_ns();
    const csn_arena_result *r;

    OK(csn_cancel_new(&handle, err));
    c[0].script = a_script("q.py", WRITE_OK);
    r = run_arena(c, 12,
                  (csn_arena_options){ .n_jobs = 4,
                                       .run = &(csn_run_options){
                                           .cancel = handle, .on_state = fire_when_running } });
    CHECK(csn_now_ns() - start < 10 * CSN_NS_PER_S);
    CHECK(r->cancelled);
    for (size_t i = 1; i < 12; i++) {
        CHECK_STR(r->results[i]->error_message, "Cancelled");
        CHECK(r->results[i]->cancelled && !r->results[i]->success);
    }
    CHECK(!r->results[11]->sandbox_id && r->results[11]->runtime_seconds == 0);
    CHECK_INT(count_sandboxes(the_engine()), 0);
    CHECK(!strstr(the_log(), "Cleanup failed"));
    csn_cancel_free(handle);
}

static void *fire_soon(void *user)
{
    (void) poll(NULL, 0, 300);
    csn_cancel_fire(user);
    return NULL;
}

TEST(a_cancel_from_another_thread_wakes_the_run)
{
    pthread_t thread;
    csn_candidate c = CANDIDATE("x", a_script("s.sh", "sleep 100\n"));
    csn_run_options o = { .size = sizeof(o), .objective = "x", .on_log = keep_log };
    csn_candidate_result *r = NULL;

    OK(csn_cancel_new(&handle, err));
    o.cancel = handle;
    CHECK(pthread_create(&thread, NULL, fire_soon, handle) == 0);
    OK(csn_candidate_run(the_engine(), &c, &o, &r, err));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_STR(r->error_message, "Cancelled");
    CHECK(strstr(the_log(), "x: [Sandbox] Cleaning up...\n")); /* A.11 10 */
    CHECK(r->runtime_seconds < 10);
    check_nothing_left(r);
    csn_candidate_result_free(r);
    csn_cancel_free(handle);
    forget_log();
}

/* ---- scoring ---- */

TEST(gates_and_checks_separate_good_from_bad)
{
    csn_candidate c[] = {
        CANDIDATE(
            "good",
            a_script(
                "g.py",
                "import sys; open(sys.argv[2],'w').write('# Title\\n- one\\n- two\\n- three\\n')\n")),
        CANDIDATE(
            "few",
            a_script("f.py",
                     "import sys; open(sys.argv[2],'w').write('# Title\\n- only one item\\n')\n")),
        CANDIDATE("other",
                  a_script("o.py",
                           "import sys; open(sys.argv[2],'w').write('something else entirely')\n")),
        CANDIDATE("short",
                  a_script("s.py", "import sys; open(sys.argv[2],'w').write('# Title')\n")),
    };
    csn_artifact_check checks[] = { { .kind = CSN_CHECK_CONTAINS, .text = "# Title" },
                                    { .kind = CSN_CHECK_MIN_COUNT, .text = "^- ", .count = 3 } };
    const csn_arena_result *r =
        run_arena(c, 4, (csn_arena_options){ .checks = checks, .n_checks = 2 });

    CHECK_INT(r->winner, 0);
    CHECK(r->scores[0].quality_score == 100 && !r->scores[0].disqualified);
    CHECK_STR(r->scores[1].reason, "check min-count:3:^- : 1 of 3");
    CHECK_STR(r->scores[2].reason, "check contains:# Title: not found");
    CHECK_STR(r->scores[3].reason, "artifact has 10 characters or fewer");
    CHECK(r->scores[1].success && r->scores[1].quality_score == 0);
}

TEST(an_external_scorer_runs_in_a_sandbox_and_is_not_trusted)
{
    csn_candidate c[] = {
        CANDIDATE("long", a_script("l.py", "import sys; open(sys.argv[2],'w').write('x' * 90)\n")),
        CANDIDATE("short", a_script("s.py", "import sys; open(sys.argv[2],'w').write('x' * 20)\n")),
    };
    const char *scorer = a_script(
        "score.py",
        "import json, os, sys\nprint('noise', file=sys.stderr)\n"
        "n = len(open(sys.argv[1]).read())\n"
        "print(json.dumps({'quality': n, 'details': {'n': n, 'id': os.environ['CANDIDATE_ID'],"
        " 'argc': len(sys.argv), 'host': os.path.exists('/root/.bashrc')}}))\n");
    const csn_arena_result *r = run_arena(c, 2, (csn_arena_options){ .scorer = scorer });
    const char *bad[] = { a_script("b1.py", "print('no json')\n"),
                          a_script("b2.py", "raise SystemExit(3)\n"),
                          a_script("b3.py", "print('{\"quality\": 900}')\n") };

    CHECK_INT(r->winner, 0);
    CHECK(r->scores[0].quality_score == 90 && r->scores[1].quality_score == 20);
    CHECK_STR(r->scores[0].quality,
              "{\"details\":{\"n\":90,\"id\":\"long\",\"argc\":2,\"host\":false}}");
    for (size_t i = 0; i < CSN_COUNT(bad); i++) {
        r = run_arena(c, 1, (csn_arena_options){ .scorer = bad[i] });
        CHECK(r->scores[0].quality_score == 0 && strstr(r->scores[0].quality, "\"error\""));
        CHECK(!r->scores[0].disqualified);
    }
    r = run_arena(
        c, 1, (csn_arena_options){ .scorer = "printf '{\"quality\": 42, \"details\": \"%s\"}'" });
    CHECK(r->scores[0].quality_score == 42);
    CHECK_STR(r->scores[0].quality, "{\"details\":\"/home/daytona/artifact/output.md\"}");
    r = run_arena(c, 1, (csn_arena_options){ .scorer = "sleep 100;", .scorer_timeout_ms = 500 });
    CHECK(strstr(r->scores[0].quality, "timed out after 0.5 seconds"));
}

static double by_length(const csn_candidate_result *result, void *user)
{
    (void) user;
    return result->artifact_len > 50 ? 80 : 10;
}

TEST(the_caller_may_be_the_scorer)
{
    csn_candidate c[] = { CANDIDATE("a", a_script("a.py", WRITE_OK)) };
    const csn_arena_result *r = run_arena(c, 1, (csn_arena_options){ .score = by_length });

    CHECK(r->scores[0].quality_score == 10);
}

TEST(nobody_qualified_means_no_winner)
{
    csn_candidate c[] = { CANDIDATE("a", a_script("a.py", "1/0\n")),
                          CANDIDATE("b", a_script("b.py", "pass\n")) };
    const csn_arena_result *r = run_arena(c, 2, (csn_arena_options){ 0 });

    CHECK_INT(r->winner, -1);
}

/* ---- trials ---- */

TEST(trials_run_interleaved_in_a_repeatable_random_order)
{
    csn_candidate *c = many(4, a_script("s.sh", "echo a long enough artifact > \"$2\"\n"));
    size_t first[24];
    bool differs = false;
    const csn_arena_result *r = run_arena(c, 4, (csn_arena_options){ .n_trials = 6, .seed = 7 });

    CHECK_INT(r->n_runs, 24);
    CHECK_INT(r->seed, 7);
    for (size_t i = 0; i < 24; i++) {
        first[i] = r->run_candidate[i];
        CHECK_INT(r->runs[i]->trial, i / 4); /* round by round */
        differs = differs || r->run_candidate[i] != i % 4;
        CHECK(r->runs[i]->has_receipt && r->runs[i]->success);
    }
    CHECK(differs);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(r->stats[i].n, 6);
        CHECK_INT(r->stats[i].n_success, 6);
        CHECK(r->stats[i].wilson_low > 0.6 && r->stats[i].wilson_high == 1);
        CHECK(r->stats[i].exec_seconds.median > 0 &&
              r->stats[i].exec_seconds.q1 <= r->stats[i].exec_seconds.q3);
        CHECK_STR(r->results[i]->artifact_content, "a long enough artifact\n");
    }
    CHECK(r->comparison && r->comparison->n == 6);
    r = run_arena(c, 4, (csn_arena_options){ .n_trials = 6, .seed = 7 });
    for (size_t i = 0; i < 24; i++)
        CHECK_INT(r->run_candidate[i], first[i]);
}

TEST(a_clear_difference_is_called_one_and_few_trials_are_not_enough)
{
    csn_candidate c[] = {
        CANDIDATE("fast", a_script("f.sh", "echo a long enough artifact > \"$2\"\n")),
        CANDIDATE("slow", a_script("s.sh", "sleep 0.5; echo a long enough artifact > \"$2\"\n"))
    };
    csn_arena_options o = { .n_trials = 8,
                            .n_jobs = 2,
                            .run = &(csn_run_options){ .timeout_ms = 2000 } };
    const csn_arena_result *r = run_arena(c, 2, o);

    CHECK_INT(r->winner, 0);
    CHECK(r->comparison->is_significant);
    CHECK(strstr(r->comparison->verdict, "fast beats slow: median total +"));
    CHECK(strstr(r->comparison->verdict, "over 8 paired trials (p = 0.0078)"));
    o.n_trials = 5;
    r = run_arena(c, 2, o);
    CHECK(!r->comparison->is_significant);
    CHECK(strstr(r->comparison->verdict, "no significant difference at n=5 between fast and slow"));
}

TEST(a_flaky_candidate_is_counted_honestly)
{
    /* Fails in about half of its trials: by the clock's nanoseconds. */
    csn_candidate c[] = { CANDIDATE(
        "flaky",
        a_script("f.py",
                 "import time, sys\nif time.time_ns() // 1000 % 2: sys.exit(1)\n" WRITE_OK)) };
    const csn_arena_result *r = run_arena(c, 1, (csn_arena_options){ .n_trials = 12, .n_jobs = 4 });
    unsigned n = 0;

    for (size_t i = 0; i < r->n_runs; i++)
        n += r->runs[i]->success != 0;
    CHECK_INT(r->stats[0].n_success, n);
    CHECK(r->stats[0].wilson_low < r->stats[0].success_rate || n == 0);
    CHECK(r->scores[0].disqualified == (2 * n <= 12));
    if (n > 0)
        CHECK(r->results[0]->success); /* a success is what it shows */
}

TEST(a_json_report_of_a_real_run_is_one_document)
{
    csn_candidate *c = many(
        3,
        a_script(
            "s.py",
            "print('\\udcff'.encode('utf-8', 'surrogateescape'))\nimport os\nos.write(1, b'\\xff<script>')\n" WRITE_OK));
    const csn_arena_result *r = run_arena(c, 3, (csn_arena_options){ .n_trials = 2 });
    const char *dir = a_directory("report");
    csn_auto(buf) csn_buf path = CSN_BUF_INIT;
    csn_auto(buf) csn_buf text = CSN_BUF_INIT;
    csn_auto(json) csn_json *doc = NULL;
    char where[160];
    int fd;

    csn_buf_printf(&path, "%s/results.json", dir);
    fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    OK(csn_arena_report(r, CSN_REPORT_JSON, fd, err));
    (void) close(fd);
    CHECK_INT(csn_read_file(AT_FDCWD, path.data, &text, 1 << 24), 0);
    if (csn_json_parse(text.data, text.len, &doc, where) < 0)
        FAIL("%s", where);
    CHECK_STR(csn_json_get_str(csn_json_get(csn_json_at(csn_json_get(doc, "runs"), 5), "receipt"),
                               "ended", ""),
              "exit");
    CHECK(csn_json_get(csn_json_at(csn_json_get(doc, "candidates"), 0), "output_base64"));
}
