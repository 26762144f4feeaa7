/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "csn_test.h"
#include "server/git_map.h"
#include "server/git_status.h"

#define BYTES(text) csn_str_n((text), sizeof(text) - 1)

static const char *json_of(int (*read)(csn_str, csn_buf *), csn_str output)
{
    static csn_buf json = CSN_BUF_INIT;

    csn_buf_clear(&json);
    return read(output, &json) < 0 ? "bad" : json.data;
}

#define H "1111111111111111111111111111111111111111"

TEST(every_kind_of_change_has_its_words)
{
    CHECK_STR(
        json_of(csn_git_status_json,
                BYTES("# branch.oid " H "\0# branch.head main\0# branch.upstream origin/main\0"
                      "# branch.ab +2 -13\0"
                      "1 M. N... 100644 100644 100644 " H " " H " staged file\0"
                      "1 .T N... 100644 100644 120000 " H " " H " type\0"
                      "2 R. N... 100644 100644 100644 " H " " H " R100 new name\0old name\0"
                      "u UU N... 100644 100644 100644 100644 " H " " H " " H " both\0"
                      "? new\nline\0"
                      "1 AD N... 000000 100644 000000 " H " " H " \xff\0")),
        "{\"fileStatus\":["
        "{\"name\":\"staged file\",\"extra\":\"\",\"staging\":\"Modified\",\"worktree\":\"Unmodified\"},"
        "{\"name\":\"type\",\"extra\":\"\",\"staging\":\"Unmodified\",\"worktree\":\"Modified\"},"
        "{\"name\":\"new name\",\"extra\":\"old name\",\"staging\":\"Renamed\",\"worktree\":\"Unmodified\"},"
        "{\"name\":\"both\",\"extra\":\"\",\"staging\":\"Updated but unmerged\",\"worktree\":\"Updated but unmerged\"},"
        "{\"name\":\"new\\nline\",\"extra\":\"\",\"staging\":\"Untracked\",\"worktree\":\"Untracked\"},"
        "{\"name\":\"\xef\xbf\xbd\",\"extra\":\"\",\"staging\":\"Added\",\"worktree\":\"Deleted\"}],"
        "\"currentBranch\":\"main\",\"ahead\":2,\"behind\":13,\"branchPublished\":true,"
        "\"detached\":false,\"upstream\":\"origin/main\"}");
}

TEST(a_head_off_any_branch_is_told)
{
    CHECK_STR(json_of(csn_git_status_json, BYTES("# branch.oid " H "\0# branch.head (detached)\0")),
              "{\"fileStatus\":[],\"currentBranch\":\"HEAD\",\"ahead\":0,\"behind\":0,"
              "\"branchPublished\":false,\"detached\":true,\"upstream\":\"\"}");
}

TEST(what_git_never_says_is_refused)
{
    const csn_str bad[] = {
        BYTES("1 M. N... 100644 100644 100644 " H " " H "\0"),
        BYTES("1 M. N... 100644 100644 100644 " H " " H " cut"),
        BYTES("2 R. N... 100644 100644 100644 " H " " H " R100 new\0"),
        BYTES("1 XY N... 100644 100644 100644 " H " " H " name\0"),
        BYTES("# branch.ab 1 2\0"),
        BYTES("# branch.ab +99999999999 -1\0"),
        BYTES("x\0"),
        BYTES("\0"),
        BYTES("? \0"),
    };

    for (size_t i = 0; i < CSN_COUNT(bad); i++)
        CHECK_STR(json_of(csn_git_status_json, bad[i]), "bad");
}

TEST(history_branches_and_remotes)
{
    CHECK_STR(json_of(csn_git_history_json, BYTES("h1\0Ann\0a@x\0"
                                                  "2024-01-01T00:00:00Z\0sub\n\nbody\n\0")),
              "[{\"hash\":\"h1\",\"author\":\"Ann\",\"email\":\"a@x\","
              "\"timestamp\":\"2024-01-01T00:00:00Z\",\"message\":\"sub\\n\\nbody\\n\"}]");
    CHECK_STR(json_of(csn_git_history_json, CSN_STR("")), "[]");
    CHECK_STR(json_of(csn_git_history_json, BYTES("h1\0Ann\0")), "bad");
    CHECK_STR(json_of(csn_git_branches_json, CSN_STR(" a\n*main\n z/y\n")),
              "{\"branches\":[\"a\",\"main\",\"z/y\"],\"current\":\"main\"}");
    CHECK_STR(json_of(csn_git_branches_json, CSN_STR("")), "{\"branches\":[]}");
    CHECK_STR(
        json_of(csn_git_remotes_json, BYTES("remote.o.x.url\nhttp://a\0remote.b.url\n\0")),
        "{\"remotes\":[{\"name\":\"o.x\",\"url\":\"http://a\"},{\"name\":\"b\",\"url\":\"\"}]}");
    CHECK_STR(json_of(csn_git_remotes_json, BYTES("remote.o.url\0")), "bad");
}

static const char *failure(const char *err)
{
    static csn_buf text = CSN_BUF_INIT;
    csn_auto(buf) csn_buf message = CSN_BUF_INIT;
    const csn_git_fault *f = csn_git_failure(csn_str_of(err), CSN_STR(""), &message);

    csn_buf_clear(&text);
    csn_buf_printf(&text, "%d %s %s", f->status, f->code, message.data);
    return text.data;
}

TEST(failures_have_their_codes)
{
    CHECK_STR(failure("Cloning into 'x'...\nfatal: Authentication failed for 'https://h/r/'\n"),
              "401 GIT_AUTH_FAILED fatal: Authentication failed for 'https://h/r/'");
    CHECK_STR(failure("fatal: repository 'http://h/r/' not found\n"),
              "404 GIT_REPO_NOT_FOUND fatal: repository 'http://h/r/' not found");
    CHECK_STR(failure("fatal: Remote branch nope not found in upstream origin\n"),
              "404 GIT_BRANCH_NOT_FOUND fatal: Remote branch nope not found in upstream origin");
    CHECK_STR(failure(" ! [rejected]        main -> main (fetch first)\nhint: Updates\n"),
              "409 GIT_PUSH_REJECTED ! [rejected]        main -> main (fetch first)");
    CHECK_STR(failure("what?"), "500 INTERNAL_SERVER_ERROR what?");
}

static const char *address(const char *text)
{
    static csn_buf told = CSN_BUF_INIT;
    csn_auto(git_url) csn_git_url url = CSN_GIT_URL_INIT;
    int r = csn_git_url_read(text, &url);

    csn_buf_clear(&told);
    if (r < 0)
        return r == -EINVAL ? "invalid" : r == -EPROTONOSUPPORT ? "protocol" : "?";
    csn_buf_printf(&told, "%s|%s|%s", url.url.data, url.user.data, url.password.data);
    return told.data;
}

TEST(addresses_lose_their_passwords_and_other_protocols_are_refused)
{
    CHECK_STR(address("github.com/a/b"), "https://github.com/a/b||");
    CHECK_STR(address("https://u%40x:p%3Aw@h:8/r?x#y"), "https://h:8/r?x#y|u@x|p:w");
    CHECK_STR(address("https://token@h/r"), "https://h/r|token|");
    CHECK_STR(address("http://127.0.0.1:8000/r.git"), "http://127.0.0.1:8000/r.git||");
    CHECK_STR(address("ssh://git@h/r"), "ssh://git@h/r||");
    CHECK_STR(address("git@github.com:a/b.git"), "git@github.com:a/b.git||");
    CHECK_STR(address("ext::sh -c x"), "invalid");
    CHECK_STR(address("ext::sh"), "protocol");
    CHECK_STR(address("file:///etc"), "protocol");
    CHECK_STR(address("/srv/repo"), "protocol");
    CHECK_STR(address("../repo"), "protocol");
    CHECK_STR(address("git://h/r"), "protocol");
    CHECK_STR(address("-uhttp://x"), "invalid");
    CHECK_STR(address("https://"), "invalid");
    CHECK_STR(address("https://a%0ab:c@h/"), "invalid");
    CHECK_STR(address("https://a%:c@h/"), "invalid");
    CHECK_STR(address(""), "invalid");
    CHECK(csn_git_url_has_password("https://t@h/"));
    CHECK(csn_git_url_has_password("ssh://a:b@h/"));
    CHECK(!csn_git_url_has_password("ssh://git@h/"));
    CHECK(!csn_git_url_has_password("https://h/a@b"));
    CHECK(!csn_git_url_has_password("git@h:p"));
    CHECK(!csn_git_is_name("-x") && !csn_git_is_name("") && csn_git_is_name("a/b"));
}
