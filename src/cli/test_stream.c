/* What reaches a terminal, what reaches a pipe. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "csn_test.h"
#include "session.h"
#include "stream.h"

/* stream.c asks whether a signal came; here none does. */
int cli_signal_pending(void)
{
    return 0;
}

static cli_stream s;
static int far = -1;

static void open_stream(bool is_escaped)
{
    int ends[2];

    CHECK_INT(pipe(ends), 0);
    cli_stream_init(&s, ends[1], false);
    CHECK(!s.is_escaped); /* a pipe gets exact bytes */
    s.is_escaped = is_escaped;
    far = ends[0];
}

static const char *arrived(size_t *ret_len)
{
    static char got[4096];
    ssize_t n;

    cli_stream_finish(&s);
    (void) close(s.fd);
    n = csn_read_all(far, got, sizeof(got) - 1);
    CHECK(n >= 0);
    got[n] = '\0';
    csn_close(&far);
    if (ret_len)
        *ret_len = (size_t) n;
    return got;
}

TEST(a_pipe_gets_every_byte)
{
    static const char all[] = "\0\033[31m\377\302\n";
    const char *got;
    size_t len;

    open_stream(false);
    cli_stream_put(&s, all, sizeof(all));
    got = arrived(&len);
    CHECK_MEM(got, len, all, sizeof(all));
}

TEST(a_terminal_is_not_driven)
{
    static const char evil[] = "a\033]0;x\a\rb\177\302\233c\n\td";

    open_stream(true);
    cli_stream_put(&s, evil, sizeof(evil) - 1);
    CHECK_STR(arrived(NULL), "a\\x1b]0;x\\x07\\x0db\\x7f\\x9bc\n\td");
}

TEST(a_character_may_come_in_pieces)
{
    static const char euro[] = "x\342\202\254y\360\237\246\221z";

    for (size_t cut = 1; cut < sizeof(euro) - 1; cut++) {
        open_stream(true);
        cli_stream_put(&s, euro, cut);
        cli_stream_put(&s, euro + cut, sizeof(euro) - 1 - cut);
        CHECK_STR(arrived(NULL), euro);
    }
    open_stream(true);
    for (size_t i = 0; i < sizeof(euro) - 1; i++)
        cli_stream_put(&s, euro + i, 1);
    CHECK_STR(arrived(NULL), euro);
}

TEST(a_character_that_never_ends_comes_out_escaped)
{
    open_stream(true);
    cli_stream_put(&s, "a\342\202", 3);
    CHECK_STR(arrived(NULL), "a\\xe2\\x82");
    open_stream(true);
    cli_stream_put(&s, "\342", 1);
    cli_stream_put(&s, "A", 1);
    CHECK_STR(arrived(NULL), "\\xe2A");
}

TEST(an_escape_split_over_pieces_is_still_caught)
{
    open_stream(true);
    cli_stream_put(&s, "\302", 1); /* U+009B, a control by itself */
    cli_stream_put(&s, "\23331m", 4);
    CHECK(!strchr(arrived(NULL), '\233'));
}

TEST(a_reader_that_left_is_noticed)
{
    open_stream(false);
    csn_close(&far);
    cli_stream_put(&s, "x", 1);
    CHECK(s.is_broken);
    cli_stream_put(&s, "y", 1);
    (void) close(s.fd);
}

__attribute__((constructor)) static void no_signal(void)
{
    (void) signal(SIGPIPE, SIG_IGN);
}
