#!/usr/bin/env python3
"""The server's life: first start, restart, keys, refusals, and what is left when a part of it is killed."""
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import threading
import time

from lib import BUILD, Client, Server, Work, equal, has, has_sanitizer, is_alive, main, ok, run, until


def the_first_start_shows_a_key_once():
    with Work() as work:
        server = Server(work).start()
        lines = [line.strip() for line in server.out.splitlines()]
        ok(f"export DAYTONA_API_URL=http://127.0.0.1:{server.port}/api" in lines, "the URL to paste", server.out)
        ok(re.fullmatch(r"dtn_[0-9a-f]{64}", server.key() or ""), "a key to paste", server.out)
        key = server.key()
        equal(server.client().ask("GET", "/api/sandbox").status, 200, "the key works")
        equal(Client(server.port, None).ask("GET", "/api/sandbox").status, 401, "no key: 401")
        equal(Client(server.port, "dtn_" + "0" * 64).ask("GET", "/api/sandbox").status, 401, "a wrong key: 401")
        equal(Client(server.port, None).ask("GET", "/health").status, 200, "health needs none")
        equal(server.stop(), 0, "SIGTERM ends it, status 0")
        server.start()
        equal(server.key(), None, "the second start shows none")
        equal(server.client(key).ask("GET", "/api/sandbox").status, 200, "the first key still works")
        equal(server.stop(signal.SIGINT), 0, "SIGINT ends it too")
        database = b"".join(p.read_bytes() for p in (work / "state" / "front").iterdir() if p.is_file())
        ok(key.encode() not in database, "the key is nowhere in the server's files")
        ok(key not in server.logged(), "nor in its log")


def sandboxes_outlive_the_server():
    with Work() as work:
        server = Server(work).start()
        key = server.key()
        client = server.client()
        made = client.ask("POST", "/api/sandbox", {"labels": {"a": "b"}, "env": {"X": "1"}})
        equal(made.status, 200, "create")
        box = made.json["id"]
        equal(client.execute(box, "sh -c 'echo kept > f; cat f; sleep 1000 >/dev/null 2>&1 &'").status, 200, "execute")
        equal(server.stop(), 0, "stop the server")
        server.start()
        client = server.client(key)
        seen = client.ask("GET", f"/api/sandbox/{box}")
        equal((seen.status, seen.json.get("state"), seen.json.get("labels", {}).get("a")), (200, "started", "b"),
              "it is there and started, with its labels")
        has(client.execute(box, "cat f").json.get("result", ""), "kept", "its files too")
        has(client.execute(box, "sh -c 'ps ax || ls /proc'").json.get("result", ""), "sleep", "and what ran in it")
        equal(client.ask("DELETE", f"/api/sandbox/{box}").status, 200, "delete")
        equal(client.ask("GET", f"/api/sandbox/{box}").status, 404, "it is gone")
        server.stop()


def programs_and_state_may_lie_where_only_we_can_go():
    """A clone in root's home, built under umask 077: the front's user can reach neither its program nor its files."""
    with Work() as work:
        home = work / "home"
        home.mkdir(0o700)
        for program in ("caisson", "caisson-warden", "caisson-serve", "caisson-keeper"):
            shutil.copy(BUILD / program, home / program)
            (home / program).chmod(0o700)
        server = Server(work, env={"CAISSON_LIBEXEC": str(home)})
        server.state = home / "state"
        server.start()
        client = server.client()
        made = client.ask("POST", "/api/sandbox", {})
        equal(made.status, 200, "create")
        has(client.execute(made.json["id"], "echo here").json.get("result", ""), "here", "execute")
        equal(client.ask("DELETE", f"/api/sandbox/{made.json['id']}").status, 200, "delete")
        done = subprocess.run([home / "caisson", "--state", server.state, "key", "ls"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, env=server.env, check=False)
        has(done.stdout, "first", "the keys can be listed")
        equal(server.stop(), 0, "it ends well")
        equal((home / "state" / "front" / "caisson.db").stat().st_uid, pathlib.Path(home, "state", "front").stat().st_uid,
              "the database is the front's")
        link = home / "state" / "engine" / "run"
        if link.is_symlink():
            shutil.rmtree(os.readlink(link), ignore_errors=True)


def keys_are_made_listed_and_revoked_while_it_runs():
    with Work() as work:
        state = ("--state", str(work / "state"))
        status, first, err = run("key", "create", "early", *state)
        equal((status, err), (0, ""), "a key before the first start")
        server = Server(work).start()
        equal(server.key(), None, "then the first start makes none")
        equal(server.client(first.strip()).ask("GET", "/api/sandbox").status, 200, "it works")
        status, made, err = run("key", "create", "late", "--json", *state)
        equal((status, err), (0, ""), "another one while the server runs")
        late = json.loads(made)["key"]
        equal(server.client(late).ask("GET", "/api/sandbox").status, 200, "works at once")
        status, _, err = run("key", "create", "late", *state)
        ok(status != 0 and "already" in err, "a name is taken once", err)
        _, listed, _ = run("key", "ls", *state)
        ok("early" in listed and "late" in listed and late not in listed, "ls names both and shows neither", listed)
        equal(run("key", "rm", "late", *state)[0], 0, "revoke")
        equal(server.client(late).ask("GET", "/api/sandbox").status, 401, "revoked at once")
        ok(run("key", "rm", "late", *state)[0] != 0, "revoking what is gone is an error")
        status, brief, _ = run("key", "create", "brief", "--expires", "1s", *state)
        brief = brief.strip()
        equal(server.client(brief).ask("GET", "/api/sandbox").status, 200, "one that expires works")
        ok(until(lambda: server.client(brief).ask("GET", "/api/sandbox").status == 401, 10), "until it has expired")
        server.stop()


def a_configured_key_works_and_its_successor_replaces_it():
    with Work() as work:
        one, two = "my-own-key-number-one", "my-own-key-number-two"
        server = Server(work, env={"CAISSON_API_KEY": one}).start()
        has(server.out, "configured", "it says whose key it is")
        ok(one not in server.out, "and does not print it")
        equal(server.client(one).ask("GET", "/api/sandbox").status, 200, "the configured key works")
        pids = [server.child.pid, server.front()]
        ok(not any(one.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids),
           "it is in no command line")
        server.stop()
        key_file = work / "key"
        key_file.write_text(two + "\n")
        server = Server(work, "--key-file", str(key_file), port=server.port).start()
        equal(server.client(two).ask("GET", "/api/sandbox").status, 200, "the next one works")
        equal(server.client(one).ask("GET", "/api/sandbox").status, 401, "the last one no more")
        server.stop()


def refused(name, part, *options, env=None, listen=None):
    with Work() as work:
        server = Server(work, *options, env=env)
        command = server.command()
        if listen:
            command[command.index("--listen") + 1] = listen
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=server.env,
                              timeout=30, check=False)
        ok(done.returncode != 0 and part in done.stderr, name, done.returncode, done.stdout, done.stderr)


def what_makes_no_sense_is_refused_with_a_reason():
    refused("others may connect only with a key", "no key is configured", listen="0.0.0.0:0")
    refused("a short key", "16 to 256 characters", env={"CAISSON_API_KEY": "short"})
    refused("an address that is none", "ADDR:PORT", listen="nonsense")
    refused("an option that is none", "no-such-option", "--no-such-option")
    refused("two keys", "exclude", "--api-key", "x" * 20, "--key-file", "y")
    refused("a key file that isn't there", "No such file", "--key-file", "/nowhere/key")
    refused("a public URL without a scheme", "http://", "--public-url", "example.com")
    if os.geteuid() == 0:
        refused("a front as root", "must not run as root", "--user", "root")
        refused("a user that is none", "no user", "--user", "no-such-user")
    with Work() as work:
        server = Server(work).start()
        done = subprocess.run(server.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=server.env, timeout=30, check=False)
        ok(done.returncode != 0 and "taken" in done.stderr, "a port that is taken", done.stderr)
        done = subprocess.run(Server(work).command(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=server.env, timeout=30, check=False)
        ok(done.returncode != 0 and "another server" in done.stderr, "a directory that is taken", done.stderr)
        equal(server.client().ask("GET", "/api/sandbox").status, 200, "the first server did not notice")
        server.stop()


def with_a_key_others_may_connect():
    with Work() as work:
        server = Server(work, env={"CAISSON_API_KEY": "a-key-of-my-own-choice"})
        command = server.command()
        command[command.index("--listen") + 1] = f"0.0.0.0:{server.port}"
        server.command = lambda: command
        server.start()
        equal(server.client("a-key-of-my-own-choice").ask("GET", "/api/sandbox").status, 200, "0.0.0.0 with a key")
        has(server.logged(), "without TLS", "and a warning")
        server.stop()


def the_front_has_no_rights():
    with Work() as work:
        server = Server(work).start()
        status = pathlib.Path(f"/proc/{server.front()}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        ok("0" not in fields["Uid"].split(), "it is not root", fields["Uid"])
        equal(int(fields["CapEff"], 16) | int(fields["CapPrm"], 16), 0, "it has no capability")
        equal(fields["NoNewPrivs"].strip(), "1", "it gets none")
        if not has_sanitizer():  # their runtimes make calls of their own
            equal(fields["Seccomp"].strip(), "2", "its system calls are filtered")
        equal(fields["Threads"].strip(), "1", "it has one thread")
        front = work / "state" / "front"
        equal(oct(front.stat().st_mode & 0o777), "0o700", "its directory is its own")
        ok(all(p.stat().st_mode & 0o077 == 0 for p in front.iterdir()), "and every file in it")
        if os.geteuid() == 0:
            ok(front.stat().st_uid != 0, "owned by its user")
            ok((work / "state" / "engine").stat().st_mode & 0o077 == 0, "the engine's is closed to it")
        server.stop()


def the_front_stays_who_it_is():
    if os.geteuid() != 0:
        return
    with Work() as work:
        state = ("--state", str(work / "state"))
        server = Server(work, "--user", "daemon").start()
        owner = (work / "state" / "front").stat().st_uid
        equal(owner, pwd.getpwnam("daemon").pw_uid, "--user chooses who it is")
        status, key, err = run("key", "create", "another", *state)
        equal((status, err), (0, ""), "a key is made as the same user")
        server.stop()
        server = Server(work, port=server.port).start()
        equal(server.client(key.strip()).ask("GET", "/api/sandbox").status, 200, "and the next start goes on with it")
        server.stop()
        done = subprocess.run(Server(work, "--user", "nobody").command(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, env=server.env, timeout=30, check=False)
        ok(done.returncode != 0 and "belongs to uid" in done.stderr, "another user is told whose it is", done.stderr)


def killed_parts_take_each_other_along():
    with Work() as work:
        server = Server(work).start()
        key = server.key()
        box = server.client().ask("POST", "/api/sandbox", {}).json["id"]
        front = server.front()
        server.child.kill()
        server.wait()
        ok(until(lambda: not is_alive(front), 5), "the warden is killed: the front ends")
        server.start()
        equal(server.client(key).ask("GET", f"/api/sandbox/{box}").json.get("state"), "started",
              "the next server finds the sandbox")
        os.kill(server.front(), signal.SIGKILL)
        equal(server.wait(), 1, "the front is killed: the warden ends, status 1")
        server.start()
        equal(server.client(key).execute(box, "echo hi").status, 200, "and again")
        server.client(key).ask("DELETE", f"/api/sandbox/{box}")
        server.stop()


def a_stop_answers_who_waits():
    with Work() as work:
        server = Server(work).start()
        client = server.client()
        box = client.ask("POST", "/api/sandbox", {}).json["id"]
        waiting = server.client()
        waiting.ask("GET", "/health")
        got = []

        def wait():
            try:
                got.append(waiting.execute(box, "sleep 60").status)
            except OSError as error:
                got.append(type(error).__name__)
        thread = threading.Thread(target=wait)
        thread.start()
        ok(until(lambda: "sleep" in client.execute(box, "sh -c 'cat /proc/[0-9]*/comm'").json.get("result", "")),
           "a command runs")
        started = time.monotonic()
        equal(server.stop(), 0, "it ends well")
        ok(time.monotonic() - started < 8, "within 8 s", time.monotonic() - started)
        thread.join(10)
        equal(got, [503], "the waiting request was told 503")


if __name__ == "__main__":
    main([the_first_start_shows_a_key_once, sandboxes_outlive_the_server, programs_and_state_may_lie_where_only_we_can_go, keys_are_made_listed_and_revoked_while_it_runs,
          a_configured_key_works_and_its_successor_replaces_it, what_makes_no_sense_is_refused_with_a_reason,
          with_a_key_others_may_connect, the_front_has_no_rights, the_front_stays_who_it_is, killed_parts_take_each_other_along,
          a_stop_answers_who_waits])
