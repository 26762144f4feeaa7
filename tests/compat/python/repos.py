"""Git, with a repository that git's own HTTP backend serves inside the sandbox."""
import pathlib

import daytona

from tap import by_status, class_of, fails, go, same, test

NotFound = daytona.DaytonaNotFoundError

SEED = """
set -e
rm -rf ~/srv ~/seed && mkdir -p ~/srv/repos && git init -q --bare -b main ~/srv/repos/origin.git
git -C ~/srv/repos/origin.git config http.receivepack true
git init -q -b main ~/seed && cd ~/seed
git config user.name Seed && git config user.email seed@example.com
echo one > one.txt && git add . && git commit -q -m first
git switch -q -c feature && echo two > two.txt && git add . && git commit -q -m 'on feature' && git switch -q main
git push -q ~/srv/repos/origin.git main feature
"""
SERVER = pathlib.Path(__file__).resolve().parents[2] / "server" / "git_server.py"


async def serve(t, box):
    """Starts git's HTTP backend in the sandbox; returns the address of its open door."""
    r = await go(box.process.exec(SEED, timeout=30))
    same(r.exit_code, 0, r.result)
    await go(box.fs.upload_file(SERVER.read_bytes(), "srv/git_server.py"))
    await go(box.process.exec("nohup python3 ~/srv/git_server.py >~/srv/log 2>&1 &"))

    async def port():
        return (await go(box.process.exec("cat ~/srv/port 2>/dev/null"))).result.strip()
    return f"http://127.0.0.1:{await t.until('the git server is up', port)}"


async def served(t):
    """The shared sandbox with the server running in it; made once."""
    if not getattr(t, "git_door", None):
        t.git_door = await serve(t, await t.box())
    return await t.box(), t.git_door + "/open/origin.git"


@test("git: clone, status, branches, add, commit, push, pull")
async def life(t):
    box, url = await served(t)
    git = box.git
    await t.sh("rm -rf w1 w2")
    await go(git.clone(url, "w1"))
    await go(git.clone(url, "/home/daytona/w2"))
    s = await go(git.status("w1"))
    same((s.current_branch, s.file_status), ("main", []))
    await go(box.fs.upload_file(b"new", "w1/new.txt"))
    await go(box.fs.upload_file(b"changed", "w1/one.txt"))
    s = await go(git.status("w1"))
    same(sorted((f.name, f.staging, f.worktree) for f in s.file_status),
         [("new.txt", "Untracked", "Untracked"), ("one.txt", "Unmodified", "Modified")])
    await go(git.add("w1", ["new.txt", "one.txt"]))
    s = await go(git.status("w1"))
    same(sorted((f.name, f.staging, f.worktree) for f in s.file_status),
         [("new.txt", "Added", "Unmodified"), ("one.txt", "Modified", "Unmodified")])
    c = await go(git.commit("w1", "second: žluť", "Anna B", "anna@example.com"))
    same(len(c.sha), 40)
    same(await t.sh("git -C w1 log -1 --format='%H %an %ae %s'"), f"{c.sha} Anna B anna@example.com second: žluť\n")
    s = await go(git.status("w1"))
    same((s.ahead, s.behind, s.branch_published), (1, 0, True))
    await go(git.push("w1"))
    same((await go(git.status("w1"))).ahead, 0)
    await go(git.pull("w2"))
    same(await t.sh("cat w2/new.txt"), "new")
    await go(git.pull("w2")) # nothing new


@test("git: branches and checkout, clone of a branch and of a commit")
async def branches(t):
    box, url = await served(t)
    git = box.git
    await t.sh("rm -rf w3 w4 w5")
    await go(git.clone(url, "w3"))
    await go(git.create_branch("w3", "topic"))
    same((await go(git.status("w3"))).current_branch, "topic")
    same(sorted((await go(git.branches("w3"))).branches)[-2:], ["main", "topic"])
    await fails(class_of("DaytonaConflictError"), lambda: git.create_branch("w3", "topic"), status=409)
    await go(git.checkout_branch("w3", "main"))
    await go(git.delete_branch("w3", "topic"))
    assert "topic" not in (await go(git.branches("w3"))).branches
    await go(git.clone(url, "w4", branch="feature"))
    same(await t.sh("cat w4/two.txt"), "two\n")
    commit = (await t.sh("git -C seed rev-parse main")).strip()
    await go(git.clone(url, "w5", commit_id=commit))
    same((await t.sh("git -C w5 rev-parse HEAD")).strip(), commit)


@test("git: errors")
async def errors(t):
    box, url = await served(t)
    git = box.git
    await t.sh("rm -rf e1 e2 e3 e4")
    await fails(NotFound, lambda: git.clone(t.git_door + "/open/nothing.git", "e1"), status=404, code="GIT_REPO_NOT_FOUND")
    await fails(class_of("DaytonaGitAuthFailedError", "DaytonaAuthenticationError"),
                lambda: git.clone(t.git_door + "/closed/origin.git", "e1", username="u", password="secret-word"),
                status=401, code="GIT_AUTH_FAILED")
    await fails(by_status("DaytonaBadGatewayError"), lambda: git.clone("http://127.0.0.1:9/x.git", "e1"), status=502,
                code="GIT_TRANSPORT_FAILED")
    await fails(NotFound, lambda: git.clone(url, "e1", branch="no-such-branch"), status=404, code="GIT_BRANCH_NOT_FOUND")
    await fails(NotFound, lambda: git.status("no-such-repo"), status=404)
    await go(git.clone(url, "e2"))
    await fails(NotFound, lambda: git.checkout_branch("e2", "no-such-branch"), status=404)
    await go(git.clone(url, "e3"))
    await go(git.commit("e2", "theirs", "T", "t@example.com", allow_empty=True))
    await go(git.push("e2"))
    await go(git.commit("e3", "mine", "M", "m@example.com", allow_empty=True))
    await fails(class_of("DaytonaGitPushRejectedError", "DaytonaConflictError"), lambda: git.push("e3"), status=409,
                code="GIT_PUSH_REJECTED")
    await go(git.clone(t.git_door + "/closed/origin.git", "e4", username="ann", password="s3cret"))
    same((await go(box.process.exec("grep -r s3cret e4/.git .gitconfig .git-credentials"))).exit_code != 0, True)
    same((await go(box.process.exec("grep -r secret-word e1 .gitconfig .git-credentials"))).exit_code != 0, True)


@test("git: init, remotes, reset, restore, configuration", since=(0, 215))
async def newer(t):
    box, url = await served(t)
    git = box.git
    if not hasattr(git, "remote_add"):
        return
    await t.sh("rm -rf n1")
    await go(git.init("n1", initial_branch="trunk"))
    await go(git.configure_user("N", "n@example.com", scope="local", path="n1"))
    same(await go(git.get_config("user.name", scope="local", path="n1")), "N")
    await go(git.remote_add("n1", "origin", url))
    same([(r.name, r.url) for r in (await go(git.remotes("n1"))).remotes], [("origin", url)])
    await go(box.fs.upload_file(b"1", "n1/f"))
    await go(git.add("n1", ["."]))
    await go(git.commit("n1", "c", "N", "n@example.com"))
    await go(box.fs.upload_file(b"2", "n1/f"))
    await go(git.restore("n1", ["f"]))
    same(await t.sh("cat n1/f"), "1")
