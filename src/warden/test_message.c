/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "csn_test.h"
#include "message.h"

#define ID               "01234567-89ab-4cde-8f01-23456789abcd"
#define PUT(array, text) (void) snprintf(array, sizeof(array), "%s", text)

static csn_ask an_ask(csn_ask_verb verb)
{
    return (csn_ask){ .magic = CSN_ASK_MAGIC, .verb = verb, .serial = 7 };
}

static csn_ask a_create(void)
{
    csn_ask ask = an_ask(CSN_ASK_CREATE);

    PUT(ask.id, ID);
    PUT(ask.image, "host");
    PUT(ask.user, "daytona");
    ask.n_mounts = 1;
    PUT(ask.mounts[0].volume, ID);
    PUT(ask.mounts[0].path, "/data");
    return ask;
}

static int check(const csn_ask *ask)
{
    return csn_ask_check(ask, csn_ask_size(ask));
}

TEST(a_sound_message_of_each_verb_passes)
{
    for (uint32_t verb = 1; verb < CSN_ASK_VERBS; verb++) {
        csn_ask ask = an_ask((csn_ask_verb) verb);
        bool has_id = verb <= CSN_ASK_LEND || verb == CSN_ASK_RESIZE;

        if (verb == CSN_ASK_CREATE)
            ask = a_create();
        if (has_id)
            PUT(ask.id, ID);
        if (verb == CSN_ASK_FORK || verb == CSN_ASK_SNAPSHOT || verb == CSN_ASK_VOLUME_CREATE ||
            verb == CSN_ASK_VOLUME_DELETE || verb == CSN_ASK_IMAGE_DELETE ||
            verb == CSN_ASK_VOLUME_SIZE)
            PUT(ask.other, ID);
        CHECK_INT(check(&ask), 0);
    }
}

TEST(a_message_of_the_wrong_length_or_kind_is_refused)
{
    csn_ask ask = a_create();

    CHECK_INT(csn_ask_check(&ask, csn_ask_size(&ask) - 1), -EBADMSG);
    CHECK_INT(csn_ask_check(&ask, csn_ask_size(&ask) + 1), -EBADMSG);
    CHECK_INT(csn_ask_check(&ask, 4), -EBADMSG);
    ask.n_mounts = CSN_ASK_MOUNTS + 1;
    CHECK_INT(csn_ask_check(&ask, sizeof(ask)), -EBADMSG);
    ask = an_ask(CSN_ASK_VERBS);
    CHECK_INT(check(&ask), -EBADMSG);
    ask = an_ask(CSN_ASK_LIST);
    ask.serial = 0;
    CHECK_INT(check(&ask), -EBADMSG);
}

TEST(names_and_paths_are_held_to_their_shape)
{
    static const char *const ids[] = { "", "../x", "01234567-89AB-4cde-8f01-23456789abcd", (ID "0"),
                                       "0123456789abcdef0123456789abcdef" };
    static const char *const paths[] = { "", "data", "/data/../etc", "/a\nb" };
    csn_ask ask;

    for (size_t i = 0; i < CSN_COUNT(ids); i++) {
        ask = a_create();
        PUT(ask.id, ids[i]);
        CHECK_INT(check(&ask), -EBADMSG);
    }
    for (size_t i = 0; i < CSN_COUNT(paths); i++) {
        ask = a_create();
        PUT(ask.mounts[0].path, paths[i]);
        CHECK_INT(check(&ask), -EBADMSG);
    }
    ask = a_create();
    memset(ask.image, 'a', sizeof(ask.image)); /* no NUL */
    CHECK_INT(check(&ask), -EBADMSG);
    ask = a_create();
    PUT(ask.mounts[0].subpath, "/etc");
    CHECK_INT(check(&ask), -EBADMSG);
    ask = a_create();
    ask.memory_bytes = -1;
    CHECK_INT(check(&ask), -EBADMSG);
}

TEST(a_verb_carries_nothing_that_is_not_its_own)
{
    csn_ask ask = an_ask(CSN_ASK_LIST);

    ask.id[5] = 'x';
    CHECK_INT(check(&ask), -EBADMSG);
    ask = an_ask(CSN_ASK_DELETE);
    PUT(ask.id, ID);
    ask.flags = CSN_ASK_NETWORK;
    CHECK_INT(check(&ask), -EBADMSG);
    ask.flags = 0;
    ask.grace_ms = 5;
    CHECK_INT(check(&ask), -EBADMSG);
}

TEST(an_answer_is_looked_at_too)
{
    csn_answer answer = { .magic = CSN_ASK_MAGIC, .kind = CSN_ANSWER_DONE, .serial = 7 };

    CHECK_INT(csn_answer_check(&answer, sizeof(answer)), 0);
    CHECK_INT(csn_answer_check(&answer, sizeof(answer) - 1), -EBADMSG);
    answer.state = 99;
    CHECK_INT(csn_answer_check(&answer, sizeof(answer)), -EBADMSG);
    answer.state = 0;
    memset(answer.message, 'x', sizeof(answer.message));
    CHECK_INT(csn_answer_check(&answer, sizeof(answer)), -EBADMSG);
}

TEST(limits_that_would_overflow_are_refused)
{
    const size_t fields[] = { offsetof(csn_ask, memory_bytes), offsetof(csn_ask, cpu_milli),
                              offsetof(csn_ask, disk_bytes), offsetof(csn_ask, pids) };
    const int64_t huge[] = { INT64_MAX, INT64_C(1) << 62, (INT64_C(1) << 50) + 1 };

    for (size_t i = 0; i < CSN_COUNT(fields); i++)
        for (size_t k = 0; k < CSN_COUNT(huge); k++) {
            csn_ask ask = a_create();
            memcpy((char *) &ask + fields[i], &huge[k], sizeof(huge[k]));
            CHECK_INT(check(&ask), -EBADMSG);
        }
    csn_ask ask = a_create();
    ask.memory_bytes = ask.disk_bytes = INT64_C(1) << 40;
    ask.cpu_milli = 1024 * 1000;
    ask.pids = 32768;
    CHECK_INT(check(&ask), 0);
}
