#!/usr/bin/env python3
"""git over the toolbox, against a real server inside the sandbox: every call, its errors, and its walls (R38)."""
import json
import pathlib
import secrets
import socket

from lib import Client, Server, Work, equal, has, main, ok, threads, until

HERE = pathlib.Path(__file__).resolve().parent
ANN = {"author": "Ann", "email": "ann@example.org"}


class Place:
    """A sandbox with a git server in it; each test works in a directory of its own."""

    def __init__(self, server, box, port):
        self.client, self.box, self.port, self.server = server.client(), box, port, server
        self.dir = "t" + secrets.token_hex(4)
        self.ask("POST", f"files/folder?path={self.dir}&mode=755")

    def ask(self, method, call, body=None):
        return self.client.ask(method, f"/toolbox/{self.box}/{call}", body)

    def git(self, call, **body):
        return self.ask("POST", "git/" + call, body)

    def look(self, call, path, more=""):
        return self.ask("GET", f"git/{call}?path={path}{more}")

    def put(self, path, text):
        return self.client.upload(self.box, path, text.encode())

    def sh(self, text):
        said = self.client.ask("POST", f"/toolbox/{self.box}/process/execute",
                               {"command": text, "cwd": f"/home/daytona/{self.dir}"}).json
        if said.get("exitCode") != 0:
            raise RuntimeError(f"{text}: {said}")
        return said.get("result", "")

    def url(self, repo, door="open"):
        return f"http://127.0.0.1:{self.port}/{door}/{repo}"

    def bare(self):
        """A repository at the server with two branches: its name and the hash of main's first commit."""
        name = "r" + secrets.token_hex(4)
        first = self.sh(f"""set -e; git init -q --bare -b main ~/srv/repos/{name}; git init -q -b main seed-{name}
            cd seed-{name}; git config user.name S; git config user.email s@x; echo 1 > a; git add a; git commit -qm one
            git rev-parse HEAD; echo 2 >> a; git commit -qam two; git checkout -qb side; echo s > s; git add s
            git commit -qm side; git push -q ~/srv/repos/{name} main side""").strip()
        return name, first

    def clone(self, repo, path, **more):
        said = self.git("clone", url=self.url(repo), path=f"{self.dir}/{path}", **more)
        if said.status != 200:
            raise RuntimeError(repr(said))
        return f"{self.dir}/{path}"

    def commit(self, repo, file, text, message="m"):
        self.put(f"{repo}/{file}", text)
        self.git("add", path=repo, files=["."])
        said = self.git("commit", path=repo, message=message, **ANN)
        if said.status != 200:
            raise RuntimeError(repr(said))
        return said.json["hash"]


def fails(said, status, code, name):
    got = (said.status, said.json.get("code"), said.json.get("source")) if said.data else (said.status,)
    return equal(got, (status, code, "DAYTONA_DAEMON"), name)


def a_repository_from_its_birth(p):
    r = f"{p.dir}/r"
    equal(p.git("init", path=r, initial_branch="main").status, 201, "init")
    said = p.look("status", r)
    equal((said.status, said.json["currentBranch"], said.json["fileStatus"], said.json["detached"]),
          (200, "main", [], False), "an empty status")
    equal(p.look("history", r).json, [], "no history")
    equal(p.look("branches", r).json, {"branches": []}, "no branch")
    p.put(f"{r}/a%20b.txt", "1")
    p.put(f"{r}/sub/c", "1")
    said = p.look("status", r).json["fileStatus"]
    equal(said, [{"name": n, "extra": "", "staging": "Untracked", "worktree": "Untracked"} for n in ("a b.txt", "sub/c")],
          "new files")
    equal(p.git("add", path=r, files=["a b.txt"]).status, 200, "add one")
    equal(p.git("add", path=r, files=["."]).status, 200, "add all")
    fails(p.git("add", path=r, files=["no"]), 400, "BAD_REQUEST", "add what isn't there")
    equal({f["staging"] for f in p.look("status", r).json["fileStatus"]}, {"Added"}, "they are added")
    said = p.git("commit", path=r, message="first\n\nmore", **ANN)
    ok(said.status == 200 and len(said.json["hash"]) == 40, "commit", said)
    fails(p.git("commit", path=r, message="again", **ANN), 409, "CONFLICT", "nothing to commit")
    equal(p.git("commit", path=r, message="empty", allow_empty=True, **ANN).status, 200, "unless allowed")
    log = p.look("history", r).json
    equal([(c["message"].strip(), c["author"], c["email"]) for c in log],
          [("empty", "Ann", "ann@example.org"), ("first\n\nmore", "Ann", "ann@example.org")], "history, newest first")
    equal(log[1]["hash"], said.json["hash"], "with the hash that was told")
    p.sh("cd r; git mv sub/c moved; echo x >> 'a b.txt'")
    equal(sorted((f["name"], f["extra"], f["staging"], f["worktree"]) for f in p.look("status", r).json["fileStatus"]),
          [("a b.txt", "", "Unmodified", "Modified"), ("moved", "sub/c", "Renamed", "Unmodified")],
          "a change and a rename with its old name")
    fails(p.look("status", p.dir), 404, "GIT_REPO_NOT_FOUND", "not a repository")
    fails(p.look("status", p.dir + "/no"), 404, "GIT_REPO_NOT_FOUND", "not even there")
    equal(p.git("commit", path=r, message="m").status, 400, "a commit without its author")


def branches(p):
    r = p.clone(p.bare()[0], "r")
    equal(p.git("branches", path=r, name="feature/x").status, 201, "create")
    equal(p.look("branches", r).json, {"branches": ["feature/x", "main"], "current": "feature/x"}, "and it is checked out")
    fails(p.git("branches", path=r, name="feature/x"), 409, "GIT_BRANCH_EXISTS", "once more")
    fails(p.git("branches", path=r, name="a..b"), 400, "BAD_REQUEST", "a bad name")
    fails(p.git("branches", path=r, name="--orphan"), 400, "BAD_REQUEST", "a name that is an option")
    p.commit(r, "a", "feature\n")
    p.put(f"{r}/a", "dirty")
    fails(p.git("checkout", path=r, branch="main"), 409, "GIT_DIRTY_WORKTREE", "away from changes")
    equal(p.git("restore", path=r, files=["a"]).status, 200, "restore")
    equal(p.git("checkout", path=r, branch="main").status, 200, "checkout")
    fails(p.git("checkout", path=r, branch="no"), 404, "GIT_BRANCH_NOT_FOUND", "of what isn't there")
    head = p.look("history", r).json[1]["hash"]
    equal(p.git("checkout", path=r, branch=head).status, 200, "of a commit")
    said = p.look("status", r).json
    equal((said["detached"], said["currentBranch"]), (True, "HEAD"), "is off any branch")
    p.git("checkout", path=r, branch="main")
    equal(p.ask("DELETE", "git/branches", {"path": r, "name": "feature/x"}).status, 204, "delete")
    fails(p.ask("DELETE", "git/branches", {"path": r, "name": "feature/x"}), 404, "GIT_BRANCH_NOT_FOUND", "once more")
    fails(p.ask("DELETE", "git/branches", {"path": r, "name": "main"}), 409, "CONFLICT", "of the current one")


def clones(p):
    repo, first = p.bare()
    r = p.clone(repo, "r")
    said = p.look("status", r).json
    equal((said["currentBranch"], said["upstream"], said["branchPublished"], said["ahead"], said["behind"]),
          ("main", "origin/main", True, 0, 0), "clone")
    equal(p.sh("cd r; git branch -r").split(), ["origin/HEAD", "->", "origin/main", "origin/main"], "of a single branch")
    r = p.clone(repo, "side", branch="side")
    equal(p.look("status", r).json["currentBranch"], "side", "of another branch")
    r = p.clone(repo, "commit", commit_id=first)
    equal((p.look("status", r).json["detached"], p.look("history", r).json[0]["hash"]), (True, first), "at a commit")
    r = p.clone(repo, "shallow", depth=1)
    equal(len(p.look("history", r).json), 1, "shallow")
    side = p.sh(f"git -C seed-{repo} rev-parse side").strip()
    r = p.clone(repo, "other", commit_id=side)
    equal(p.look("history", r).json[0]["hash"], side, "at a commit of a branch that was not cloned")
    at = {"path": f"{p.dir}/no"}
    fails(p.git("clone", url=p.url(repo), path=f"{p.dir}/r"), 409, "CONFLICT", "into what is there")
    fails(p.git("clone", url=p.url("nope"), **at), 404, "GIT_REPO_NOT_FOUND", "of nothing")
    fails(p.git("clone", url=p.url(repo), branch="nope", **at), 404, "GIT_BRANCH_NOT_FOUND", "of no branch")
    fails(p.git("clone", url="http://127.0.0.1:1/x", **at), 502, "GIT_TRANSPORT_FAILED", "from nobody")
    fails(p.git("clone", url="no-such-host.invalid/x", **at), 502, "GIT_TRANSPORT_FAILED", "from nowhere, https")
    fails(p.git("clone", url=p.url(repo, "forbidden"), **at), 403, "FORBIDDEN", "of what is forbidden")
    for url in (f"file:///home/daytona/srv/repos/{repo}", f"/home/daytona/srv/repos/{repo}", "ext::sh -c x", "ext::x",
                "git://127.0.0.1/x", "--upload-pack=x", "fd::3"):
        fails(p.git("clone", url=url, **at), 400, "BAD_REQUEST", f"of {url}")
    fails(p.git("clone", url=p.url(repo), branch="--upload-pack=x", **at), 400, "BAD_REQUEST", "a branch that is an option")
    equal(p.git("clone", url=p.url(repo)).status, 400, "to nowhere")


def passwords(p):
    repo, _ = p.bare()
    url = p.url(repo, "closed")
    fails(p.git("clone", url=url, path=f"{p.dir}/no"), 401, "GIT_AUTH_FAILED", "none")
    fails(p.git("clone", url=url, path=f"{p.dir}/no", username="ann", password="bad"), 401, "GIT_AUTH_FAILED", "a wrong one")
    equal(p.git("clone", url=url, path=f"{p.dir}/r", username="ann", password="s3cret").status, 200, "the right one")
    equal(p.git("clone", url=url.replace("//", "//ann:s3cret@"), path=f"{p.dir}/in").status, 200, "in the address")
    kept = p.sh("cat r/.git/config in/.git/config; grep -rl s3cret r in || true")
    ok("s3cret" not in kept and "ann" not in kept, "it is nowhere in the repositories", kept)
    r = f"{p.dir}/r"
    p.commit(r, "new", "1")
    fails(p.git("push", path=r), 401, "GIT_AUTH_FAILED", "push without")
    equal(p.git("push", path=r, username="ann", password="s3cret").status, 200, "push with")
    fails(p.git("pull", path=r), 401, "GIT_AUTH_FAILED", "pull without")
    equal(p.git("pull", path=r, username="ann", password="s3cret").status, 200, "pull with")
    fails(p.git("push", path=r, username="a\nb", password="x"), 400, "BAD_REQUEST", "a name of two lines")
    moved = f"c{secrets.token_hex(4)}"
    said = p.git("clone", url=p.url(repo, "moved"), path=f"{p.dir}/no", username="cy", password=moved)
    fails(said, 401, "GIT_AUTH_FAILED", "a server that sends us elsewhere")
    ok(moved not in p.sh("cat ~/srv/logins"), "gets no password there")


def a_password_is_on_no_command_line(p):
    repo, _ = p.bare()
    word = "pw" + secrets.token_hex(8)
    p.sh("rm -f ~/srv/release")
    own = Client(p.server.port, p.server.key())
    done = []
    threads([lambda: done.append(own.ask("POST", f"/toolbox/{p.box}/git/clone",
                                         {"url": p.url(repo, "slow"), "path": f"{p.dir}/r", "username": "ann",
                                          "password": word}))])
    look = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null"
    seen = until(lambda: (lambda text: text if "/slow/" in text else None)(p.sh(look)))
    ok(seen and word not in seen, "while git waits", seen)
    p.sh("touch ~/srv/release")
    ok(until(lambda: done), "the clone ends")
    equal(done[0].status, 200, "well")


def a_client_that_leaves_ends_its_git(p):
    repo, _ = p.bare()
    p.sh("rm -f ~/srv/release")
    body = json.dumps({"url": p.url(repo, "slow"), "path": f"{p.dir}/left"}).encode()
    with socket.create_connection(("127.0.0.1", p.server.port)) as s:
        s.sendall((f"POST /toolbox/{p.box}/git/clone HTTP/1.1\r\nHost: 127.0.0.1:{p.server.port}\r\n"
                   f"Authorization: Bearer {p.server.key()}\r\nContent-Type: application/json\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        look = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null | grep -c '[r]emote-http' || true"
        ok(until(lambda: int(p.sh(look)) > 0), "git runs")
    ok(until(lambda: int(p.sh(look)) == 0), "and is gone with its client")
    p.sh("touch ~/srv/release")


def pushes_and_pulls(p):
    repo, _ = p.bare()
    a, b = p.clone(repo, "a"), p.clone(repo, "b")
    equal(p.git("push", path=a).status, 200, "nothing to push is fine")
    equal(p.git("pull", path=a).status, 200, "nothing to pull too")
    first = p.commit(a, "x", "1")
    said = p.look("status", a).json
    equal((said["ahead"], said["behind"]), (1, 0), "one ahead")
    equal(p.git("push", path=a).status, 200, "push")
    equal(p.git("pull", path=b).status, 200, "pull")
    equal(p.look("history", b).json[0]["hash"], first, "what was pushed is pulled")
    p.commit(a, "x", "2")
    p.git("push", path=a)
    p.commit(b, "x", "3")
    fails(p.git("push", path=b), 409, "GIT_PUSH_REJECTED", "push behind the remote")
    fails(p.git("pull", path=b), 409, "GIT_MERGE_CONFLICT", "pull is fast-forward only")
    equal(p.git("reset", path=b, mode="hard", target="HEAD~1").status, 200, "reset --hard")
    p.put(f"{b}/x", "dirty")
    fails(p.git("pull", path=b), 409, "GIT_DIRTY_WORKTREE", "pull over changes")
    p.git("reset", path=b, mode="hard")
    equal(p.git("pull", path=b, remote="origin", branch="main").status, 200, "pull by name")
    equal(p.git("pull", path=b, remote="origin").status, 200, "pull by remote")
    fails(p.git("pull", path=b, branch="no"), 404, "GIT_BRANCH_NOT_FOUND", "pull of no branch")
    fails(p.git("push", path=b, branch="no"), 404, "GIT_BRANCH_NOT_FOUND", "push of no branch")
    fails(p.git("push", path=b, remote="no"), 404, "GIT_REPO_NOT_FOUND", "push to no remote")
    fails(p.git("push", path=b, remote="--all"), 400, "BAD_REQUEST", "a remote that is an option")
    p.git("branches", path=b, name="topic")
    equal(p.look("status", b).json["branchPublished"], False, "a branch of ours")
    equal(p.git("push", path=b, branch="topic", set_upstream=True).status, 200, "push with its upstream")
    said = p.look("status", b).json
    equal((said["branchPublished"], said["upstream"]), (True, "origin/topic"), "is published")
    p.git("branches", path=b, name="lone")
    p.git("push", path=b)
    equal(p.git("pull", path=b).status, 200, "pull without an upstream takes the branch of the same name")
    p.sh(f"printf '#!/bin/sh\\necho never; exit 1\\n' > ~/srv/repos/{repo}/hooks/pre-receive; "
         f"chmod +x ~/srv/repos/{repo}/hooks/pre-receive")
    p.commit(b, "y", "1")
    fails(p.git("push", path=b), 422, "GIT_REMOTE_REJECTED", "a remote that says no")


def resets_and_restores(p):
    r = p.clone(p.bare()[0], "r")
    p.put(f"{r}/a", "changed")
    p.git("add", path=r, files=["a"])
    equal(p.git("reset", path=r, files=["a"]).status, 200, "reset a file")
    equal([(f["staging"], f["worktree"]) for f in p.look("status", r).json["fileStatus"]], [("Unmodified", "Modified")],
          "unstaged")
    p.git("add", path=r, files=["a"])
    equal(p.git("restore", path=r, files=["a"], staged=True, worktree=True).status, 200, "restore both")
    equal(p.look("status", r).json["fileStatus"], [], "clean")
    equal(p.git("restore", path=r, files=["a"], source="HEAD~1").status, 200, "restore from a commit")
    equal(p.git("reset", path=r, mode="soft", target="HEAD~1").status, 200, "reset --soft")
    equal(len(p.look("history", r).json), 1, "one commit less")
    equal(p.git("reset", path=r, mode="wild").status, 400, "a wild mode")
    fails(p.git("reset", path=r, target="no"), 404, "GIT_BRANCH_NOT_FOUND", "to nowhere")
    fails(p.git("restore", path=r, files=["no"]), 400, "BAD_REQUEST", "of nothing")
    fails(p.git("restore", path=r, files=["a"], source="no"), 404, "GIT_BRANCH_NOT_FOUND", "from nowhere")


def remotes_and_configuration(p):
    repo, _ = p.bare()
    r = f"{p.dir}/r"
    p.git("init", path=r)
    equal(p.look("remotes", r).json, {"remotes": []}, "no remotes")
    equal(p.git("remotes", path=r, name="origin", url=p.url(repo), fetch=True).status, 201, "add and fetch")
    has(p.sh("cd r; git branch -r"), "origin/side", "it was fetched")
    fails(p.git("remotes", path=r, name="origin", url="http://x/"), 409, "CONFLICT", "once more")
    equal(p.git("remotes", path=r, name="origin", url="http://x/", overwrite=True).status, 201, "unless told so")
    equal(p.look("remotes", r).json, {"remotes": [{"name": "origin", "url": "http://x/"}]}, "remotes")
    equal(p.git("remotes", path=r, name="bad", url="https://t0ken@x/").status, 400, "no credentials in there")
    equal(p.git("remotes", path=r, name="--x", url="http://x/").status, 400, "no options")
    equal(p.ask("GET", "git/config?key=user.nothing").json, {"value": None}, "an unset key")
    equal(p.git("config", key="alias.x", value="-odd").status, 200, "set, globally")
    equal(p.ask("GET", "git/config?key=alias.x").json, {"value": "-odd"}, "get")
    equal(p.git("config", key="a.b", value="here", scope="local", path=r).status, 200, "set, locally")
    equal(p.ask("GET", f"git/config?key=a.b&path={r}").json, {"value": "here"}, "get, with a path")
    equal(p.ask("GET", "git/config?key=a.b&scope=global").json, {"value": None}, "not global")
    equal(p.git("config", key="a.b", value="x", scope="local").status, 400, "local without a path")
    equal(p.git("config", key="a.b", value="x", scope="all").status, 400, "no scope")
    fails(p.git("config", key="a.b", value="x", scope="system"), 403, "FORBIDDEN", "the system's")
    equal(p.ask("GET", "git/config?key=--list").status, 400, "no options")
    equal(p.git("config/user", name="Bob", email="bob@x").status, 200, "who we are")
    equal([p.ask("GET", f"git/config?key=user.{k}").json["value"] for k in ("name", "email")], ["Bob", "bob@x"], "is known")
    host = f"127.0.0.1:{p.port}"
    equal(p.git("credentials", username="ann", password="s3cret", host=host, protocol="http").status, 200, "credentials")
    equal(p.git("clone", url=p.url(repo, "closed"), path=f"{p.dir}/kept").status, 200, "are used by a clone")
    p.sh("rm -f ~/.git-credentials; git config --global --unset-all credential.helper")
    equal(p.git("credentials", username="a", password="b\nhost=evil").status, 400, "no lines in there")


def hooks_and_monitors_do_not_run(p):
    repo, _ = p.bare()
    r = p.clone(repo, "r")
    p.sh("""cd r; for h in pre-commit post-commit post-checkout commit-msg pre-push post-merge; do
        printf '#!/bin/sh\\ntouch ~/%s/ran\\n' $(basename $(dirname $PWD)) > .git/hooks/$h; chmod +x .git/hooks/$h; done
        git config core.hooksPath .git/hooks; git config core.fsmonitor 'touch ../ran'""")
    p.look("status", r)
    p.commit(r, "f", "1")
    p.git("branches", path=r, name="b")
    p.git("checkout", path=r, branch="main")
    p.git("push", path=r)
    p.git("pull", path=r)
    equal(p.sh("ls ran 2>/dev/null || true"), "", "nothing ran")


TESTS = [a_repository_from_its_birth, branches, clones, passwords, a_password_is_on_no_command_line,
         a_client_that_leaves_ends_its_git, pushes_and_pulls, resets_and_restores, remotes_and_configuration,
         hooks_and_monitors_do_not_run]


def start_git_server(client, box):
    """Its port."""
    client.upload(box, "srv/git_server.py", (HERE / "git_server.py").read_bytes())
    client.execute(box, "sh -c 'mkdir -p ~/srv/repos; nohup python3 ~/srv/git_server.py >~/srv/log 2>&1 </dev/null &'")
    said = until(lambda: (lambda a: a if a.status == 200 else None)(client.download(box, "srv/port")))
    return int(said.data)


if __name__ == "__main__":
    with Work() as work:
        server = Server(work).start()
        try:
            made = server.client().ask("POST", "/api/sandbox", {})
            equal(made.status, 200, "a sandbox")
            box = made.json["id"]
            port = start_git_server(server.client(), box)

            def with_place(test):
                def run():
                    test(Place(server, box, port))
                run.__name__ = test.__name__
                return run

            main([with_place(test) for test in TESTS])
        finally:
            server.kill()
