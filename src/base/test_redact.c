#include "csn_test.h"
#include "redact.h"

static const char *redacted(const char *text)
{
    static csn_buf out = CSN_BUF_INIT;

    csn_buf_clear(&out);
    CHECK_INT(csn_redact(text, &out), 0);
    return out.data;
}

TEST(credentials_are_hidden)
{
    CHECK_STR(redacted("connect postgres://u:p@db/x failed"), "connect [REDACTED] failed");
    CHECK_STR(redacted("GET https://user:pw@host/p: 401"), "GET [REDACTED] 401");
    CHECK_STR(redacted("password=hunter2, host=x"), "password=[REDACTED], host=x");
    CHECK_STR(redacted("DAYTONA_API_KEY=dtn_123 x"), "DAYTONA_API_KEY=[REDACTED] x");
    CHECK_STR(redacted("Authorization: Bearer abc.def-1"), "Authorization: Bearer [REDACTED]");
    CHECK_STR(redacted("key sk-abcdefghijkl bad"), "key [REDACTED] bad");
    CHECK_STR(redacted("t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def-1 t"), "t [REDACTED] t");
    CHECK_STR(redacted("{\"password\": \"a b\"}"), "{\"password\": [REDACTED]}");
    CHECK_STR(redacted("token: 'it was cut\nquota used up"), "token: [REDACTED]\nquota used up");
}

TEST(ordinary_text_is_left_alone)
{
    static const char *const texts[] = {
        "Could not write script: /a/b.py: No such file or directory",
        "see https://example.org/a?b=c",
        "Execution timed out after 60 seconds",
        "risk-taking at 10:30; token",
        "",
    };

    for (size_t i = 0; i < CSN_COUNT(texts); i++)
        CHECK_STR(redacted(texts[i]), texts[i]);
}
