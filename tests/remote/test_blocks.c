/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of code blocks by its name, where its settings say. */
#include <stdio.h>
#include <stdlib.h>

#include <caisson/blocks.h>

#include "remote_world.h"
#include "story/story.h"

static const char *settings(const char *key, const char *more)
{
    static char text[512];

    (void) snprintf(text, sizeof(text), "{\"api_url\": \"%s\", \"api_key\": \"%s\"%s}",
                    getenv("DAYTONA_API_URL"), key, more);
    return text;
}

TEST(an_executor_by_name_is_where_its_settings_say)
{
    csn_code_block list[] = {
        { "import os\nprint(os.environ['WHO'])", 35, "python" },
        { "echo two; exit 3", 16, "sh" },
    };
    csn_engine *engine = remote_engine();
    const char *text = settings(getenv("DAYTONA_API_KEY"), ", \"env_vars\": {\"WHO\": \"me\"}");
    csn_blocks_result r = { 0 };
    csn_blocks *b = NULL;

    (void) unsetenv("DAYTONA_API_KEY");
    OK(csn_blocks_by_name(NULL, "daytona", text, &b, err));
    CHECK_INT(count_boxes(engine), 1);
    OK(csn_blocks_execute(b, list, 1, &r, err));
    CHECK_STR(r.output, "me\n");
    csn_blocks_result_done(&r);
    OK(csn_blocks_execute(b, list, 2, &r, err));
    CHECK_INT(r.exit_code, 3);
    CHECK_STR(r.output, "two\n");
    csn_blocks_result_done(&r);
    OK(csn_blocks_restart(b, err));
    csn_blocks_free(b);
    CHECK_INT(count_boxes(engine), 0);
    csn_engine_free(engine);
}

TEST(what_its_settings_leave_out_comes_from_the_environment)
{
    csn_engine *engine = remote_engine();
    csn_blocks *b = NULL;

    OK(csn_blocks_by_name(NULL, "daytona", "{\"target\": \"us\"}", &b, err));
    CHECK_INT(count_boxes(engine), 1);
    csn_blocks_free(b);
    csn_engine_free(engine);
}

TEST(an_executor_that_can_not_be_had_says_why)
{
    csn_blocks *b = NULL;
    csn_error err = { 0 };

    CHECK_INT(
        csn_blocks_by_name(NULL, "daytona", settings("dtn_wrong", ", \"timeout\": 0"), &b, &err),
        CSN_E_INVALID);
    CHECK_STR(err.message, "Timeout must be greater than or equal to 1.");
    CHECK(csn_blocks_by_name(NULL, "daytona", settings("dtn_wrong", ""), &b, &err) < 0);
    CHECK(strstr(err.message, "Failed to create Daytona sandbox: ") && strstr(err.message, "401"));
    CHECK(!strstr(err.message, "dtn_wrong"));
    (void) unsetenv("DAYTONA_API_KEY");
    CHECK_INT(csn_blocks_by_name(NULL, "daytona", settings("your_key", ""), &b, &err),
              CSN_E_UNSUPPORTED);
    CHECK_STR(err.message, "Daytona API key not configured");
}
