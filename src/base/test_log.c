#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "csn_test.h"

TEST(a_line_is_key_value_and_harmless)
{
    char line[512] = "";
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    csn_log_set_fd(p[1]);
    csn_log(CSN_LOG_DEBUG, "not shown", NULL);
    csn_log(CSN_LOG_WARN, "box is gone", "id", "a1", "why", "it \"fell\"\n\033[2J", "none",
            (const char *) NULL, NULL);
    CHECK(csn_read(p[0], line, sizeof(line) - 1) > 0);
    CHECK(strncmp(line, "time=20", 7) == 0);
    CHECK_STR(strchr(line, ' '), " level=warn msg=\"box is gone\" id=a1 "
                                 "why=\"it \\\"fell\\\"\\n\\x1b[2J\" none=-\n");
    csn_close(&p[0]);
    csn_close(&p[1]);
}
