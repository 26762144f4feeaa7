#!/usr/bin/env python3
"""The control plane over HTTP: which state allows what, lists, timers, quotas, keys, events, the audit log."""
import calendar
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import time

from lib import BUILD, Client, Server, Work, equal, has, is_alive, main, ok, run, until
from websocket import WebSocket


class Serving:
    """A started server and a client of it."""

    def __init__(self, *options):
        self.options = options

    def __enter__(self):
        self.work = Work()
        self.server = Server(self.work.__enter__(), *self.options).start()
        self.key = self.server.key()
        self.client = self.server.client()
        return self

    def __exit__(self, *exc):
        self.client.close()
        self.server.kill()
        self.work.__exit__(*exc)

    def ask(self, method, path, body=None, **more):
        return self.client.ask(method, "/api" + path, body, **more)

    def box(self, **wish):
        answer = self.ask("POST", "/sandbox", wish)
        if answer.status != 200:
            raise RuntimeError(f"create: {answer}")
        return answer.json

    def boxes_at_once(self, wishes):
        """All are asked for before the first is answered."""
        head = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        asked = []
        for wish in wishes:
            asked.append(http.client.HTTPConnection("127.0.0.1", self.client.port, timeout=60))
            asked[-1].request("POST", "/api/sandbox", json.dumps(wish), head)
        made = [json.loads(conn.getresponse().read())["id"] for conn in asked]
        for conn in asked:
            conn.close()
        return made

    def state(self, box):
        answer = self.ask("GET", f"/sandbox/{box}")
        return answer.json["state"] if answer.status == 200 else answer.status

    def keeper(self, box):
        """The pid of its keeper."""
        _, out, _ = run("inspect", "--json", box, env={"CAISSON_STATE": str(self.server.state / "engine")})
        told = json.loads(out)
        return int((told[0] if isinstance(told, list) else told)["keeper_pid"])

    def restart_with(self, *statements):
        """Stopped, its rows changed as if time had passed, started again."""
        self.client.close()
        self.server.stop()
        with sqlite3.connect(self.server.state / "front" / "caisson.db") as db:
            for statement in statements:
                db.execute(*statement)
        db.close()
        self.server.start()
        self.client = self.server.client(self.key)


def a_sandbox_goes_through_its_states():
    with Serving() as s:
        box = s.box(name="one", labels={"a": "b"}, env={"X": "1"})
        equal((box["state"], box["name"], box["labels"], box["env"]), ("started", "one", {"a": "b"}, {"X": "1"}),
              "created, started")
        equal(s.ask("GET", f"/sandbox/{box['id']}").json["id"], s.ask("GET", "/sandbox/one").json["id"],
              "found by id and by name")
        equal(s.ask("POST", "/sandbox", {"name": "one"}).status, 409, "its name is taken")
        equal(s.ask("POST", "/sandbox/one/start").status, 200, "start of a started one is fine")
        equal(s.ask("POST", "/sandbox/one/archive").status, 400, "archive of a started one is not")
        equal(s.ask("POST", "/sandbox/one/recover").status, 400, "nor is recover")
        equal(s.ask("POST", "/sandbox/one/stop").json["state"], "stopped", "stop")
        equal(s.ask("POST", "/sandbox/one/stop").status, 400, "stop of a stopped one")
        equal(s.client.execute(box["id"], "true").status, 400, "nothing runs in a stopped one")
        equal(s.ask("POST", "/sandbox/one/archive").json["state"], "archived", "archive")
        equal(s.ask("POST", "/sandbox/one/recover").json["state"], "started", "recover starts it")
        equal(s.client.execute(box["id"], "echo $X").json.get("result"), "1\n", "with its environment")
        equal(s.ask("POST", "/sandbox/one/pause").status, 422, "pause is not to be had")
        equal(s.ask("POST", "/sandbox/one/resize", {"cpu": 1}).status, 400, "a resize that changes nothing")
        more = s.ask("POST", "/sandbox/one/resize", {"cpu": 2, "memory": 2})
        if more.status == 422 and os.geteuid() != 0:  # without cgroups processors are given at its start
            more = s.ask("POST", "/sandbox/one/resize", {"memory": 2})
            equal((more.status, more.json.get("memory")), (200, 2), "a running one gets more memory")
        else:
            equal((more.status, more.json.get("cpu"), more.json.get("memory")), (200, 2, 2), "a running one gets more")
        equal(s.ask("GET", "/sandbox/one").json["memory"], 2, "and that is remembered")
        equal(s.ask("POST", "/sandbox/one/resize", {"memory": 1}).status, 400, "less it gets only when stopped")
        equal(s.ask("POST", "/sandbox/one/resize", {"disk": 5}).status, 400, "so is disk")
        s.ask("POST", "/sandbox/one/stop")
        less = s.ask("POST", "/sandbox/one/resize", {"memory": 1, "disk": 5})
        equal((less.status, less.json.get("memory"), less.json.get("disk")), (200, 1, 5), "stopped, both")
        equal(s.ask("POST", "/sandbox/one/resize", {"disk": 4}).status, 400, "disks never shrink")
        equal(s.ask("POST", "/sandbox/one/start").json["state"], "started", "and starts with them")
        gone = s.ask("DELETE", "/sandbox/one")
        equal((gone.status, gone.json["state"]), (200, "destroying"), "delete")
        again = s.box(name="one")
        ok(again["id"] != box["id"], "its name is free at once")
        equal([s.ask("GET", f"/sandbox/{box['id']}").status, s.client.execute(box["id"], "true").status], [404, 404],
              "and it is not there any more")
        equal(s.ask("DELETE", "/sandbox/nobody").status, 404, "delete of nothing")


def an_ephemeral_one_ends_when_it_stops():
    with Serving() as s:
        box = s.box(autoDeleteInterval=0)["id"]
        equal(s.ask("POST", f"/sandbox/{box}/archive").status, 400, "it can't be archived")
        equal(s.ask("POST", f"/sandbox/{box}/stop").json["state"], "destroyed", "stop destroys it")
        equal(s.state(box), 404, "it is gone")
        equal(s.ask("DELETE", f"/sandbox/{box}").status, 404, "a delete after that is told so")


def forks_and_snapshots_have_the_files():
    with Serving() as s:
        box = s.box(name="from")["id"]
        s.client.execute(box, "echo kept > file")
        fork = s.ask("POST", "/sandbox/from/fork", {"name": "copy"}).json
        equal((fork["state"], fork["name"]), ("started", "copy"), "fork")
        equal(s.client.execute(fork["id"], "cat file").json.get("result"), "kept\n", "the fork has the files")
        equal(s.ask("POST", "/sandbox/from/fork", {"name": "copy"}).status, 409, "its name is taken")
        equal([[f["name"] for f in s.ask("GET", f"/sandbox/{p}").json] for p in ("from/forks", "copy/ancestors")],
              [["copy"], ["from"]], "who came from whom")
        equal((s.ask("GET", "/sandbox/copy/parent").json["id"], s.ask("GET", "/sandbox/from/parent").status),
              (box, 404), "parents")
        equal(s.ask("POST", "/sandbox/from/snapshot", {"name": "my/snap:1"}).json["state"], "started", "snapshot")
        equal(s.ask("POST", "/sandbox/from/snapshot", {"name": "my/snap:1"}).status, 409, "its name is taken")
        equal(s.ask("POST", "/sandbox/from/snapshot", {"name": "host"}).status, 409, "a general one's too")
        snap = s.ask("GET", "/snapshots/my%2Fsnap%3A1").json
        equal((snap["state"], snap["general"], snap["sourceSandboxId"]), ("active", False, box), "it is active")
        made = s.box(snapshot="my/snap:1")
        equal(s.client.execute(made["id"], "cat file").json.get("result"), "kept\n", "a sandbox of it has the files")
        equal(s.ask("POST", f"/snapshots/{snap['id']}/activate").status, 400, "it is active already")
        equal(s.ask("POST", f"/snapshots/{snap['id']}/deactivate").status, 204, "deactivate")
        has(str(s.ask("POST", "/sandbox", {"snapshot": "my/snap:1"})), "is inactive", "then nothing is made of it")
        s.ask("DELETE", f"/sandbox/{made['id']}")
        equal(s.ask("DELETE", f"/snapshots/{snap['id']}").status, 200, "delete")
        equal(s.ask("GET", f"/snapshots/{snap['id']}").status, 404, "gone")
        images = s.server.state / "engine" / "images"
        ok(until(lambda: not any(images.glob("snap-*"))), "and its image too", list(images.iterdir()))
        s.ask("POST", "/sandbox/from/snapshot", {"name": "orphan"})
        ok(any(images.glob("snap-*")), "an image whose row is lost")
        s.restart_with(("DELETE FROM snapshots",))
        ok(until(lambda: not any(images.glob("snap-*"))), "is swept at the next start", list(images.iterdir()))
        general = s.ask("GET", "/snapshots/daytona-medium").json
        equal((general["general"], general["cpu"], general["mem"], general["disk"]), (True, 2, 4, 8), "a general one")
        equal(s.ask("DELETE", f"/snapshots/{general['id']}").status, 403, "which stays")
        has(str(s.ask("POST", "/sandbox", {"buildInfo": {"dockerfileContent": "FROM python:9"}})),
            "caisson image import --name python-9", "an unknown image names the remedy")


def a_fork_nobody_waited_for_is_undone():
    with Serving("--warm", "0") as s:
        box = s.box(name="from")["id"]
        heard = WebSocket(s.server.port, "/api/socket.io/?EIO=4&transport=websocket", "")
        heard.receive()
        heard.send('40{"token":"%s"}' % s.key)
        heard.receive()
        body = b'{"name": "left"}'
        with socket.create_connection(("127.0.0.1", s.server.port), 30) as client:
            client.sendall((f"POST /api/sandbox/{box}/fork HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {s.key}\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        has(str(heard.receive()), "left", "a fork is begun, and its client leaves")
        ok(until(lambda: s.ask("GET", "/sandbox/from/forks").json == [], 20), "nobody has it")
        heard.leave()

        def engine():
            _, out, _ = run("ls", "--json", env={"CAISSON_STATE": str(s.server.state / "engine")})
            return {b["name"] for b in json.loads(out)}

        ok(until(lambda: engine() == {box}), "and nothing is left of it", engine())


def lists_filter_sort_and_page():
    with Serving() as s:
        for name, team in (("a-1", "x"), ("a-2", "y"), ("b-1", "x")):
            s.box(name=name, labels={"team": team, "all": "1"})
        s.ask("POST", "/sandbox/b-1/stop")

        def names(query, kind=""):
            return [i["name"] for i in s.ask("GET", f"/sandbox{kind}?{query}").json["items"]]

        equal(names("sort=name&order=asc"), ["a-1", "a-2", "b-1"], "by name")
        equal(names("sort=name&name=A-"), ["a-2", "a-1"], "a prefix, downwards")
        equal(names("sort=name&states=stopped&states=error"), ["b-1"], "by states")
        equal(names("sort=name&order=asc&labels=%7B%22team%22%3A%22x%22%7D"), ["a-1", "b-1"], "by labels")
        equal(names("labels=%7B%22team%22%3A%22z%22%7D"), [], "by labels nobody has")
        equal(len(names("labels=null", "/paginated")), 3, "labels=null is no filter")
        seen, cursor = [], ""
        for _ in range(4):
            page = s.ask("GET", f"/sandbox?limit=1&sort=createdAt&order=asc&cursor={cursor}").json
            seen += [i["name"] for i in page["items"]]
            cursor = page["nextCursor"]
            if not cursor:
                break
        equal((seen, cursor), (["a-1", "a-2", "b-1"], None), "page by page with a cursor")
        page = s.ask("GET", "/sandbox/paginated?page=2&limit=2").json
        equal((len(page["items"]), page["total"], page["page"], page["totalPages"]), (1, 3, 2, 2), "the second page")
        equal([s.ask("GET", f"/sandbox?{q}").status for q in ("limit=0", "labels=%7B", "cursor=zz", "sort=up")],
              [400, 400, 400, 400], "bad queries")
        item = s.ask("GET", "/sandbox?name=a-1").json["items"][0]
        ok("env" not in item and item["toolboxProxyUrl"].endswith("/toolbox"), "an item has no env, but its toolbox")


def timers_fire():
    with Serving() as s:
        idle, busy, dead, old = (s.box()["id"] for _ in range(4))
        s.ask("POST", f"/sandbox/{dead}/ttl/60")
        s.ask("POST", f"/sandbox/{old}/autodelete/5")
        s.ask("POST", f"/sandbox/{old}/stop")
        hour = int(time.time() * 1000) - 3600 * 1000
        s.restart_with(("UPDATE sandboxes SET active_ms = ? WHERE id = ?", (hour, idle)),
                       ("UPDATE sandboxes SET destroy_at_ms = ? WHERE id = ?", (hour, dead)),
                       ("UPDATE sandboxes SET stopped_ms = ? WHERE id = ?", (hour, old)))
        ok(until(lambda: s.state(idle) == "stopped"), "auto-stop stops what nobody used")
        ok(until(lambda: s.state(dead) == 404), "time to live ends what lived long enough")
        ok(until(lambda: s.state(old) == 404), "auto-delete deletes what was stopped long enough")
        equal(s.state(busy), "started", "the others stay")
        week = int(time.time() * 1000) - 8 * 24 * 3600 * 1000
        s.restart_with(("UPDATE sandboxes SET stopped_ms = ? WHERE id = ?", (week, idle)))
        ok(until(lambda: s.state(idle) == "archived"), "auto-archive archives")
        answer = s.ask("POST", f"/sandbox/{busy}/autostop/0").json
        equal(answer["autoStopInterval"], 0, "auto-stop off")
        equal(s.ask("POST", f"/sandbox/{busy}/autoarchive/99999").json["autoArchiveInterval"], 43200, "clamped")
        equal([s.ask("POST", f"/sandbox/{busy}/{p}").status for p in ("autostop/-1", "autostop/x", "autopause/1")],
              [400, 400, 422], "bad intervals")
        s.restart_with(("UPDATE sandboxes SET active_ms = ? WHERE id = ?", (hour, busy)))
        equal(s.state(busy), "started", "and then it never stops by itself")


def a_timer_whose_work_fails_is_patient():
    with Serving() as s:
        box = s.box()["id"]
        hour = int(time.time() * 1000) - 3600 * 1000
        s.restart_with(("UPDATE sandboxes SET destroy_at_ms = ? WHERE id = ?", (hour, box)),
                       ("CREATE TRIGGER stuck BEFORE UPDATE ON sandboxes WHEN NEW.state = 'destroying' "
                        "BEGIN SELECT RAISE(FAIL, 'stuck'); END", ()))

        def tries():
            lines = s.client.ask("GET", "/metrics").data.decode().splitlines()
            return int(next(line for line in lines if line.startswith("caisson_sandboxes_auto_deleted_total ")).split()[1])

        ok(until(lambda: tries() > 0), "it is tried")
        for _ in range(50):
            s.ask("GET", "/sandbox")
        ok(tries() < 5, "and not over and over", tries())
        equal(s.state(box), "started", "what can't be deleted is still there")
        s.restart_with(("DROP TRIGGER stuck", ()))
        ok(until(lambda: s.state(box) == 404), "until it can be")


def what_was_acknowledged_survives_a_kill():
    with Serving() as s:
        box = s.box(name="kept")["id"]
        s.ask("PUT", "/sandbox/kept/labels", {"labels": {"new": "1"}})
        volume = s.ask("POST", "/volumes", {"name": "data"}).json["id"]
        gone = s.box(name="gone")["id"]
        s.ask("DELETE", f"/sandbox/{gone}")
        front = s.server.front()
        s.client.close()
        s.server.kill()
        ok(until(lambda: not is_alive(front)), "the warden killed, the front ends too")
        s.server.start()
        s.client = s.server.client(s.key)
        seen = s.ask("GET", "/sandbox/kept").json
        equal((seen["id"], seen["state"], seen["labels"]), (box, "started", {"new": "1"}), "the sandbox and its labels")
        equal(s.ask("GET", "/volumes/by-name/data").json["id"], volume, "the volume")
        equal(s.state(gone), 404, "what was deleted is gone")
        mount = [{"volumeId": "data", "mountPath": "/home/daytona/data"}]
        equal(s.client.execute(s.box(volumes=mount)["id"], "touch data/x && ls data").json.get("result"), "x\n",
              "the volume can be used")
        equal(s.ask("DELETE", f"/volumes/{volume}").status, 409, "and not be deleted while it is")


def one_that_ended_by_itself_is_found_stopped():
    with Serving() as s:
        box = s.box()["id"]
        equal(s.client.execute(box, "true").status, 200, "it runs")
        os.kill(s.keeper(box), signal.SIGKILL)
        ok(until(lambda: s.state(box) == "stopped"), "its keeper was killed: it is stopped", s.state(box))
        equal(s.client.execute(box, "true").status, 400, "nothing runs in it")
        equal(s.ask("POST", f"/sandbox/{box}/start").json.get("state"), "started", "it starts again")


def one_whose_files_are_gone_is_in_error():
    with Serving() as s:
        box = s.box(name="lost")["id"]
        s.ask("POST", "/sandbox/lost/stop")
        run("rm", box, env={"CAISSON_STATE": str(s.server.state / "engine")})
        answer = s.ask("POST", "/sandbox/lost/start")
        equal(answer.status, 400, "it can't be started")
        has(str(answer), "failed to start", "and says so")
        equal(s.state("lost"), "error", "it is in error")
        equal(s.ask("POST", "/sandbox/lost/start").status, 400, "where only recover and delete are possible")
        s.restart_with()
        equal(s.state("lost"), "error", "after a restart too")
        equal(s.ask("DELETE", "/sandbox/lost").status, 200, "it can be deleted")


def each_process_has_a_lock_of_its_own():
    with Serving() as s:
        def is_free(name):
            return subprocess.run(["flock", "-n", str(s.server.state / name), "true"], check=False).returncode == 0

        equal([is_free("lock"), is_free("front.lock")], [False, False], "both are held")
        if os.geteuid() == 0:  # who else may look at the front's descriptors?
            def locks(pid):
                links = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
                return sorted(os.path.basename(link) for link in links if os.path.dirname(link) == str(s.server.state) and
                              link.endswith("lock"))

            equal((locks(s.server.child.pid), locks(s.server.front())), (["lock"], ["front.lock"]), "each by one process")
        other = Server(s.work.path)
        try:
            other.start()
            ok(False, "a second server does not start")
        except RuntimeError as e:
            has(str(e), "another server runs here", "a second server does not start")
        s.server.kill()
        ok(until(lambda: is_free("lock") and is_free("front.lock")), "free when both are gone")


def what_can_not_be_deleted_yet_is_tried_again():
    with Serving() as s:
        volume = s.ask("POST", "/volumes", {"name": "data"}).json["id"]
        record = s.server.state / "engine" / "volumes" / volume / "volume.json"
        text = record.read_bytes()
        record.write_bytes(b"{")  # nobody can tell what it is, so the engine does not touch it
        equal(s.ask("DELETE", f"/volumes/{volume}").status, 200, "a delete is accepted")
        ok(until(lambda: "can't be deleted yet" in s.server.logged()), "but fails at first", s.server.logged())
        ok(record.exists(), "so it is still there")
        record.write_bytes(text)
        ok(until(lambda: not record.parent.exists()), "and deleted when that is possible")


def errors_of_the_engine_name_no_place_of_this_machine():
    with Work() as work:
        programs = work / "programs"
        programs.mkdir(mode=0o755)
        for name in ("caisson-keeper", "caisson-warden", "caisson-serve", "caisson-unpack"):
            shutil.copy(BUILD / name, programs / name)
        server = Server(work, "--warm", "0", env={"CAISSON_LIBEXEC": str(programs)}).start()
        client = server.client()
        (programs / "caisson-keeper").unlink()
        answer = until(lambda: (a := client.ask("POST", "/api/sandbox", {})).status != 200 and a)
        equal(answer.status, 500, "a server that is broken says so")
        ok(str(work) not in str(answer) and "caisson-keeper" not in str(answer), "but not where it lies", answer)
        has(str(answer), answer.headers["X-Request-Id"], "the request can be asked after")
        has(server.logged(), str(programs / "caisson-keeper"), "and the log knows more")


def a_full_disk_is_no_matter_of_rights():
    if os.geteuid() != 0:
        ok(True, "a small disk can be mounted # SKIP user: only root mounts")
        return
    with Work() as work:
        front = work / "state" / "front"
        server = Server(work, "--warm", "0")
        run("key", "create", "mine", "--state", str(server.state))
        plain = server.command()
        mount = f"mount -t tmpfs -o size=2m,mode=700,uid={front.stat().st_uid} none {front} && exec \"$@\""
        server.command = lambda: ["unshare", "-m", "sh", "-c", mount, "sh", *plain]
        client = server.start().client()
        box = client.ask("POST", "/api/sandbox", {"name": "before"}).json["id"]
        equal(client.ask("POST", "/api/volumes", {"name": "before"}).status, 200, "while there is room")
        inside = pathlib.Path(f"/proc/{server.child.pid}/root") / front.relative_to("/")
        with open(inside / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096) > 0:
                    pass
            except OSError:
                pass
        wants = [("POST", "/sandbox", {"name": "after", "env": {"LONG": "x" * 100000}}),
                 ("POST", "/volumes", {"name": "after" + "x" * 90}),
                 ("PUT", "/sandbox/before/labels", {"labels": {str(i): "x" * 200 for i in range(50)}})]
        for method, path, body in wants:
            answer = client.ask(method, "/api" + path, body)
            if method == "PUT":
                equal(answer.status, 200, "a change of what is there has the database's own room")
                continue
            equal(answer.status, 507, f"{method} {path}: no room")
            has(str(answer), "disk is full", "and it is said")
        (inside / "filler").unlink()
        equal([client.ask(m, "/api" + p, b).status for m, p, b in wants], [200, 200, 200], "with room again all is well")
        equal(client.ask("GET", f"/api/sandbox/{box}").json["state"], "started", "what was there is there")


def without_landlock():
    """As a kernel without it answers: ENOSYS to landlock_create_ruleset."""
    import ctypes
    import platform
    import struct
    if platform.machine() != "x86_64":
        os._exit(77)
    code = b"".join(struct.pack("HBBI", *i) for i in ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050026),
                                                       (0x06, 0, 0, 0x7fff0000)))
    data = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(data)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        os._exit(77)


def a_missing_wall_refuses_the_start():
    with Work() as work:
        server = Server(work)
        server.prepare = without_landlock
        try:
            server.start()
            ok(False, "without Landlock it does not start")
        except RuntimeError as e:
            has(str(e), "--optional landlock", "without Landlock it does not start, and names the remedy")
        server = Server(work, "--optional", "landlock,keeper", "--warm", "0")
        server.prepare = without_landlock
        client = server.start().client()
        has(server.logged(), "has no Landlock", "where it is optional, it starts and warns")
        has(server.out, "without these walls, as --optional allows: landlock, keeper", "the first lines name what is missing")
        equal(client.ask("GET", "/api/health/ready", None).json.get("wallsMissing"), "landlock, keeper", "and so does /health/ready")
        if os.geteuid() == 0:  # else what stands in for such a kernel takes the helpers' rights too
            made = client.ask("POST", "/api/sandbox", {})
            equal(made.status, 200, "sandboxes too")
            equal(client.execute(made.json["id"], "echo hi").json.get("result"), "hi\n", "and they work")


def quotas_hold():
    with Serving("--max-sandboxes", "2") as s:
        first = s.box()["id"]
        s.box()
        refused = s.ask("POST", "/sandbox", {})
        equal(refused.status, 403, "one too many is refused")
        has(str(refused), "2.00 of 2.00", "with the numbers")
        s.ask("DELETE", f"/sandbox/{first}")
        equal(s.ask("POST", "/sandbox", {}).status, 200, "after a delete there is room again")


HIDDEN = """python3 - <<'END'
import os
held = []
for i in range(3):
    held.append(open("x", "w"))
    os.unlink("x")
    os.posix_fallocate(held[-1].fileno(), 0, 700 << 20)
END"""


def a_strict_limit_is_held_by_the_kernel():
    with Serving("--strict", "disk", "--warm", "0") as s:
        made = s.ask("POST", "/sandbox", {"cpu": 1, "memory": 1, "disk": 1,
                                          "buildInfo": {"dockerfileContent": "FROM host\n"}})
        if os.geteuid() != 0:
            ok(made.status >= 400, "no disk is bounded by the kernel without root, so there is no sandbox")
            return
        equal(made.status, 200, "a sandbox with a disk of 1 GiB")
        told = s.client.execute(made.json["id"], HIDDEN).json
        has(str(told), "No space left on device", "that holds 1 GiB, names or no names")


def lists_of_snapshots_are_in_the_order_asked_for():
    with Serving() as s:
        s.ask("POST", "/volumes", {"name": "data"})
        for name in ("b", "c", "a"):
            equal(s.ask("POST", "/snapshots", {"name": "own-" + name, "imageName": "host"}).status, 200, "own-" + name)
        s.restart_with(("UPDATE snapshots SET created_ms = created_ms + instr('bca', substr(name, 5)) * 10",))  # not in one moment

        def names(query):
            return [i["name"][4:] for i in s.ask("GET", "/snapshots?name=own-&" + query).json["items"]]

        equal((names("sort=name&order=asc"), names("sort=name")), (["a", "b", "c"], ["c", "b", "a"]), "by name, both ways")
        equal((names("sort=createdAt&order=asc"), names("")), (["b", "c", "a"], ["a", "c", "b"]), "by age; never used: the newest first")
        equal([names(f"sort=name&order=asc&limit=2&page={n}") for n in (1, 2)], [["a", "b"], ["c"]], "page by page")
        equal([s.ask("GET", "/snapshots/own-c").json["lastUsedAt"], s.ask("GET", "/volumes/by-name/data").json["lastUsedAt"]], [None, None],
              "not used yet")
        volume = s.ask("GET", "/volumes/by-name/data").json["id"]
        box = s.box(snapshot="own-c", volumes=[{"volumeId": volume, "mountPath": "/data"}])
        equal((names(""), s.ask("GET", "/snapshots/own-c").json["lastUsedAt"], s.ask("GET", "/volumes/by-name/data").json["lastUsedAt"]),
              (["c", "a", "b"], box["createdAt"], box["createdAt"]), "one that was used comes first, and says when")
        ok("host" in [i["name"] for i in s.ask("GET", "/snapshots").json["items"]], "with the general ones")
        equal([s.ask("GET", "/snapshots?" + q).status for q in ("sort=size", "order=up", "sort=state&order=asc")], [400, 400, 200],
              "an order that is none is refused")


def quotas_of_snapshots_and_volumes_hold():
    with Serving("--max-snapshots", "1", "--max-volumes", "1") as s:
        s.box(name="from")
        equal(s.ask("POST", "/sandbox/from/snapshot", {"name": "one"}).status, 200, "a snapshot")
        for path, body in (("/sandbox/from/snapshot", {"name": "two"}), ("/snapshots", {"name": "two", "imageName": "host"})):
            refused = s.ask("POST", path, body)
            equal(refused.status, 403, f"{path}: one too many is refused")
            has(str(refused), "--max-snapshots", "with the remedy")
        s.ask("DELETE", "/snapshots/one")
        equal(s.ask("POST", "/sandbox/from/snapshot", {"name": "two"}).status, 200, "after a delete there is room")
        equal(s.ask("POST", "/volumes", {"name": "one"}).status, 200, "a volume")
        refused = s.ask("POST", "/volumes", {"name": "two"})
        equal(refused.status, 403, "one too many is refused")
        has(str(refused), "--max-volumes", "with the remedy")
        _, other, _ = run("key", "create", "b", "--org", "b", "--state", str(s.server.state))
        equal(Client(s.server.port, other.strip()).ask("POST", "/api/volumes", {"name": "one"}).status, 200,
              "another organisation has a quota of its own")
        s.ask("DELETE", "/volumes/one")
        equal(s.ask("POST", "/volumes", {"name": "two"}).status, 200, "after a delete there is room")


def quotas_count_bytes_of_snapshots_and_volumes():
    with Serving("--max-snapshot-disk", "2m", "--max-volume-disk", "2m") as s:
        images = s.server.state / "engine" / "images"
        s.ask("POST", "/volumes", {"name": "data"})
        mount = [{"volumeId": "data", "mountPath": "/home/daytona/data"}]
        box = s.box(name="big", volumes=mount)["id"]
        equal(s.ask("POST", "/sandbox/big/snapshot", {"name": "small"}).status, 200, "a small snapshot")
        s.client.execute(box, "head -c 4000000 /dev/urandom > file")
        refused = s.ask("POST", "/sandbox/big/snapshot", {"name": "large"})
        equal(refused.status, 403, "one that is too large is refused")
        has(str(refused), "--max-snapshot-disk", "with the remedy")
        ok(until(lambda: len(list(images.glob("snap-*"))) == 1), "and nothing of it stays", list(images.iterdir()))
        s.client.execute(box, "head -c 4000000 /dev/urandom > data/file")
        ok(until(lambda: s.state(box) == "stopped"), "what writes too much is stopped", s.state(box))
        for method, path, body in (("POST", "/volumes", {"name": "more"}), ("POST", "/sandbox", {"volumes": mount}),
                                   ("POST", "/sandbox/big/start", None)):
            refused = s.ask(method, path, body)
            equal(refused.status, 403, f"{path} is refused")
            has(str(refused), "--max-volume-disk", "with the remedy")
        equal(s.ask("POST", "/sandbox", {}).status, 200, "without a volume all is well")
        s.ask("DELETE", "/sandbox/big")
        s.ask("DELETE", "/volumes/data")
        ok(until(lambda: s.ask("POST", "/volumes", {"name": "more"}).status == 200), "the volume gone, there is room")


def an_organisation_may_not_ask_without_end():
    with Serving("--max-requests", "20") as s:
        seen = [s.ask("GET", "/sandbox") for _ in range(200)]
        ok({200, 429} == {a.status for a in seen}, "some are refused", {a.status for a in seen})
        ok(all(a.headers["Retry-After"] == "1" for a in seen if a.status == 429), "and told to come again")
        ok(until(lambda: s.ask("GET", "/sandbox").status == 200), "which works")


def none_stands_ready_where_none_is_wanted():
    with Serving("--warm", "0") as s:
        s.box()
        lines = s.client.ask("GET", "/metrics").data.decode().splitlines()
        ok("caisson_sandboxes_warm 0" in lines, "none is kept ready", lines)


def a_ready_one_in_the_making_is_not_left_behind():
    for _ in range(6):
        with Serving("--warm", "8") as s:  # stopped while most of them are being made
            s.client.close()
            s.server.stop()
            _, out, _ = run("ls", "--json", env={"CAISSON_STATE": str(s.server.state / "engine")})
            equal(out.count('"name"'), 0, "nothing is left")


def ready_ones_are_handed_out_once():
    with Serving("--warm", "2") as s:
        def warm():
            lines = s.client.ask("GET", "/metrics").data.decode().splitlines()
            return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}

        ok(until(lambda: warm()["caisson_sandboxes_warm"] == 2), "two stand ready")
        boxes = s.boxes_at_once([{"env": {"N": str(i)}} for i in range(3)])  # one after the other they might find a third
        equal(len(set(boxes)), 3, "nobody gets the same")
        equal([s.client.execute(b, "echo $N; ls").json.get("result") for b in boxes], ["0\n", "1\n", "2\n"],
              "each with its own environment, and nothing in it")
        ok(warm()["caisson_sandboxes_created_warm_total"] >= 1, "some were ready made")
        alone = s.box(networkBlockAll=not s.ask("GET", "/sandbox/" + boxes[0]).json["networkBlockAll"])["id"]
        equal(s.client.execute(alone, "echo hi").json.get("result"), "hi\n", "another shape is made to measure")
        ok(until(lambda: warm()["caisson_sandboxes_warm"] == 3), "the third had to wait: now three stand ready")
        s.client.close()
        s.server.stop()
        _, out, _ = run("ls", "--json", env={"CAISSON_STATE": str(s.server.state / "engine")})
        names = {n for n in boxes + [alone] if n in out}
        equal((len(names), out.count('"name"')), (4, 4), "the server stopped: only those with an owner are left")


def the_numbers_of_all_are_for_the_owner():
    with Serving() as s:
        _, other, _ = run("key", "create", "b", "--org", "b", "--state", str(s.server.state))
        theirs = Client(s.server.port, other.strip())
        equal(theirs.ask("GET", "/api/api-keys").status, 200, "another organisation's key that may manage keys")
        answer = theirs.ask("GET", "/metrics")
        equal(answer.status, 403, "sees no numbers of the whole server")
        ok(b"caisson_" not in answer.data, "not even some")
        plain = Client(s.server.port, s.ask("POST", "/api-keys", {"name": "plain"}).json["value"])
        equal(plain.ask("GET", "/metrics").status, 403, "nor does a key that manages nothing")
        has(s.client.ask("GET", "/metrics").data.decode(), "caisson_sandboxes", "the owner's does")


def keys_tell_when_they_were_used():
    with Serving() as s:
        made = s.ask("POST", "/api-keys", {"name": "new"}).json
        equal(made["lastUsedAt"], None, "a new key was never used")
        other = Client(s.server.port, made["value"])
        other.ask("GET", "/api/sandbox")

        def used(name):
            found = s.ask("GET", f"/api-keys/{name}").json["lastUsedAt"]
            return found and time.time() - calendar.timegm(time.strptime(found[:19], "%Y-%m-%dT%H:%M:%S"))

        ok(until(lambda: used("new") is not None, 20), "one that was used says when")
        ok(abs(used("new")) < 60, "a moment ago", used("new"))
        ok(until(lambda: used("first") is not None, 20), "so does the first")
        s.client.close()
        other.close()
        s.server.stop()
        _, listed, _ = run("key", "ls", "--json", "--state", str(s.server.state))
        ok(all(k["lastUsedAt"] for k in json.loads(listed)), "and it is remembered", listed)


def keys_come_and_go():
    with Serving() as s:
        made = s.ask("POST", "/api-keys", {"name": "second"})
        equal(made.status, 201, "a key is made")
        key = made.json["value"]
        listed = s.ask("GET", "/api-keys")
        ok(key not in listed.data.decode() and "second" in listed.data.decode(), "and never shown again")
        other = Client(s.server.port, key)
        equal(other.ask("GET", "/api/api-keys/current").json["name"], "second", "it works")
        equal(other.ask("POST", "/api/api-keys", {"name": "third"}).status, 403, "but makes no others")
        equal(s.ask("DELETE", "/api-keys/second").status, 204, "revoked")
        equal(other.ask("GET", "/api/sandbox").status, 401, "it is refused at once")
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
        brief = Client(s.server.port, s.ask("POST", "/api-keys", {"name": "brief", "expiresAt": soon}).json["value"])
        equal(brief.ask("GET", "/api/sandbox").status, 200, "a key with an end works")
        ok(until(lambda: brief.ask("GET", "/api/sandbox").status == 401), "until then")
        unused = Client(s.server.port, s.ask("POST", "/api-keys", {"name": "unused"}).json["value"])
        bad = [Client(s.server.port, "dtn_" + "0" * 64).ask("GET", "/api/sandbox").status for _ in range(40)]
        equal((bad[0], bad[-1]), (401, 429), "who tries too often has to wait")
        equal((s.ask("GET", "/sandbox").status, unused.ask("GET", "/api/sandbox").status), (200, 200),
              "those with a good key don't, be it its first use")


def the_preview_token_opens_its_sandbox_only():
    with Serving() as s:
        one, two = s.box()["id"], s.box()["id"]
        unused = s.ask("GET", f"/sandbox/{two}/ports/3000/preview-url").json["token"]
        link = s.ask("GET", f"/sandbox/{one}/ports/3000/preview-url").json
        ok(link["sandboxId"] == one and link["url"].endswith(f"/preview/{one}/3000"), "a preview URL", link)
        guest = Client(s.server.port, None)

        def visit(box, token):  # nothing listens there
            return guest.ask("GET", f"/preview/{box}/3000/", headers={"X-Daytona-Preview-Token": token}).status

        equal((visit(one, link["token"]), visit(two, link["token"]), visit(one, "0" * 32)), (502, 401, 401),
              "its token opens it, and no other")
        tries = [visit(two, "%032x" % i) for i in range(40)]
        equal((tries[0], tries[-1]), (401, 429), "who guesses tokens has to wait")
        equal((visit(one, link["token"]), visit(two, unused), s.ask("GET", "/sandbox").status), (502, 502, 200),
              "those with a good one don't, be it its first use")


def a_request_from_before_a_restart_leaves_the_new_life_alone():
    with Serving() as s:
        box = s.box()["id"]
        body = b'{"sessionId": "late"}'
        with socket.create_connection(("127.0.0.1", s.server.port), 30) as late:
            late.sendall((f"POST /toolbox/{box}/process/session HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                          f"Authorization: Bearer {s.key}\r\nContent-Length: {len(body)}\r\n\r\n").encode())
            has(late.recv(4096).decode(), "100 Continue", "the sandbox is open, the body is awaited")
            equal([s.ask("POST", f"/sandbox/{box}/{verb}").status for verb in ("stop", "start")], [200, 200], "restarted")
            made = s.client.ask("POST", f"/toolbox/{box}/process/session", {"sessionId": "new"})
            equal(made.status, 201, "a session of the new life")
            late.sendall(body)
            has(late.recv(4096).decode(), " 410 ", "the body came too late")
        equal(s.client.ask("GET", f"/toolbox/{box}/process/session/new").status, 200, "the new session is still there")


def another_writer_of_the_database_holds_nobody_up():
    with Serving() as s:
        box = s.box()["id"]
        db = sqlite3.connect(s.server.state / "front" / "caisson.db", isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        try:
            begun = time.monotonic()
            refused = s.ask("PUT", f"/sandbox/{box}/labels", {"labels": {"a": "b"}})
            equal((refused.status, refused.headers.get("Retry-After")), (503, "1"), "what must be written is put off")
            ok(time.monotonic() - begun < 2.5, "soon, not after five seconds")
            equal(s.ask("POST", "/sandbox", {"name": "late"}).status, 503, "a create, too")
            equal(s.client.execute(box, "echo hi").json.get("exitCode"), 0, "what needs no writing goes on")
        finally:
            db.execute("ROLLBACK")
            db.close()
        equal(s.ask("PUT", f"/sandbox/{box}/labels", {"labels": {"a": "b"}}).status, 200, "and then it works")
        equal(s.ask("GET", "/sandbox/late").status, 404, "nothing of the other was kept")


def who_says_no_key_keeps_no_one_out():
    """Anyone may open the event channel; of those who have yet to say a key only 256 are kept, the newest."""
    def listen():
        w = WebSocket(s.server.port, "/api/socket.io/?EIO=4&transport=websocket", "")
        hello = str(w.receive())
        if len(strangers) in (0, 299):
            has(hello, "pingInterval", "hello")
        return w

    with Serving() as s:
        strangers = []
        while len(strangers) < 300:
            strangers.append(listen())
        equal([(w.receive(), w.code) for w in strangers[:44]], [(None, 1013)] * 44, "those who waited longest must go")
        for w in (listen(), strangers[45]):
            w.send('40{"token":"%s"}' % s.key)
            has(str(w.receive()), "40{", "the others can still say their key")
        for w in strangers:
            w.leave()


def changes_are_told():
    with Serving() as s:
        socket = WebSocket(s.server.port, "/api/socket.io/?EIO=4&transport=websocket", "")
        has(str(socket.receive()), "pingInterval", "hello")
        socket.send('40{"token":"%s"}' % s.key)
        has(str(socket.receive()), "40{", "let in")
        box = s.box()["id"]
        s.ask("DELETE", f"/sandbox/{box}")
        events = [json.loads(socket.receive()[2:]) for _ in range(3)]
        equal([e[0] for e in events], ["sandbox.created", "sandbox.state.updated", "sandbox.state.updated"], "events")
        equal(events[0][1]["state"], "started", "one that is made is told as it is: the event may come after the answer")
        equal([(e[1]["oldState"], e[1]["newState"], e[1]["sandbox"]["id"]) for e in events[1:]],
              [("creating", "started", box), ("started", "destroying", box)], "with their states")
        _, other, _ = run("key", "create", "b", "--org", "b", "--state", str(s.server.state))
        theirs = WebSocket(s.server.port, "/api/socket.io/?EIO=4&transport=websocket", "")
        theirs.receive()
        theirs.send('40{"token":"%s"}' % other.strip())
        theirs.receive()
        s.box(name="ours")
        Client(s.server.port, other.strip()).ask("POST", "/api/sandbox", {"name": "theirs"})
        equal(json.loads(theirs.receive()[2:])[1]["name"], "theirs", "another organisation hears of its own only")
        refused = WebSocket(s.server.port, "/socket.io/?EIO=4&transport=websocket", "")
        refused.receive()
        refused.send('40{"token":"wrong"}')
        has(str(refused.receive()), "Unauthorized", "a wrong key hears nothing")
        brief = WebSocket(s.server.port, "/api/socket.io/?EIO=4&transport=websocket", "")
        brief.receive()
        brief.send('40{"token":"%s"}' % s.ask("POST", "/api-keys", {"name": "brief"}).json["value"])
        has(str(brief.receive()), "40{", "a second key is let in")
        s.ask("DELETE", "/api-keys/brief")
        s.box(name="later")
        equal((brief.receive(), brief.code), (None, 1008), "and hears nothing once it is revoked")


def what_is_open_ends_with_its_key():
    with Serving() as s:
        box = s.box()["id"]
        base = f"/toolbox/{box}/process"

        def open_all(key):
            """A terminal, an interpreter, a followed log, the event channel."""
            mine = Client(s.server.port, key)
            name = "s" + key[-6:]
            mine.ask("POST", f"{base}/session", {"sessionId": name})
            command = mine.ask("POST", f"{base}/session/{name}/exec", {"command": "sleep 1000", "runAsync": True})
            sockets = {"terminal": WebSocket(s.server.port, f"{base}/pty/create-connect?id={name}", key),
                       "interpreter": WebSocket(s.server.port, f"{base}/interpreter/execute", key),
                       "log": WebSocket(s.server.port, f"{base}/session/{name}/command/{command.json['cmdId']}/logs", key),
                       "events": WebSocket(s.server.port, "/api/socket.io/?EIO=4&transport=websocket", "")}
            sockets["interpreter"].send(json.dumps({"code": "import time; time.sleep(1000)"}))
            sockets["events"].receive()
            sockets["events"].send('40{"token":"%s"}' % key)
            sockets["events"].receive()
            return sockets

        def ends(sockets):
            for name, opened in sockets.items():
                opened.sock.settimeout(20)
                try:
                    opened.all()
                except OSError as e:
                    opened.code = e
                equal(opened.code, 1008, f"{name} is closed")

        keep = open_all(s.key)
        state = ("--state", str(s.server.state))
        _, key, _ = run("key", "create", "outside", *state)
        opened = open_all(key.strip())
        with socket.create_connection(("127.0.0.1", s.server.port), 20) as slow:
            body = b'{"command": "sleep 1000"}'
            slow.sendall((f"POST {base}/execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key.strip()}\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
            until(lambda: s.client.execute(box, "pgrep -f 'sleep 1000' | wc -l").json["result"] > "2")
            equal(run("key", "rm", "outside", *state)[0], 0, "a key is revoked by another process")
            has(slow.recv(4096).decode(), " 401 ", "its request is given up")
        ends(opened)
        key = s.ask("POST", "/api-keys", {"name": "inside"}).json["value"]
        opened = open_all(key)
        equal(s.ask("DELETE", "/api-keys/inside").status, 204, "one is revoked over HTTP")
        ends(opened)
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
        ends(open_all(s.ask("POST", "/api-keys", {"name": "brief", "expiresAt": soon}).json["value"]))
        s.ask("POST", "/sandbox", {"name": "heard"})
        has(str(keep["events"].receive()), "heard", "those of a good key go on")
        keep["terminal"].send("echo al''ive\n")
        seen = b""
        while b"alive" not in seen:
            piece = keep["terminal"].receive()
            seen += piece.encode() if isinstance(piece, str) else piece
        ok(True, "a terminal too")
        own = s.ask("POST", "/api-keys", {"name": "unused"})
        equal(own.status, 201, "and so do its requests")


def the_audit_log_tells_who_did_what():
    with Serving() as s:
        box = s.box(name="seen", env={"SECRET": "hunter2"})["id"]
        s.client.execute(box, "echo hunter3")
        s.ask("DELETE", f"/sandbox/{box}")
        log = s.server.state / "front" / "audit.log"
        until(lambda: log.read_text().count("\n") == 3)
        text = log.read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        equal([(e["method"], e["route"], e["status"]) for e in lines],
              [("POST", "/sandbox", 200), ("POST", "/process/execute", 200), ("DELETE", "/sandbox/{}", 200)],
              "create, execute, delete")
        ok(all(e["org"] and e["key"] and e["time"] and e["request"] for e in lines), "who, when, which request")
        ok("hunter" not in text and s.key not in text, "and no secret")


if __name__ == "__main__":
    main([a_sandbox_goes_through_its_states, an_ephemeral_one_ends_when_it_stops, forks_and_snapshots_have_the_files,
          a_fork_nobody_waited_for_is_undone,
          lists_filter_sort_and_page, timers_fire, a_timer_whose_work_fails_is_patient, what_was_acknowledged_survives_a_kill, one_that_ended_by_itself_is_found_stopped,
          one_whose_files_are_gone_is_in_error,
          each_process_has_a_lock_of_its_own, what_can_not_be_deleted_yet_is_tried_again, errors_of_the_engine_name_no_place_of_this_machine, a_full_disk_is_no_matter_of_rights, a_missing_wall_refuses_the_start, a_strict_limit_is_held_by_the_kernel, quotas_hold,
          lists_of_snapshots_are_in_the_order_asked_for, quotas_of_snapshots_and_volumes_hold,
          quotas_count_bytes_of_snapshots_and_volumes,
          an_organisation_may_not_ask_without_end,
          none_stands_ready_where_none_is_wanted, a_ready_one_in_the_making_is_not_left_behind, ready_ones_are_handed_out_once, the_numbers_of_all_are_for_the_owner,
          keys_tell_when_they_were_used, keys_come_and_go, the_preview_token_opens_its_sandbox_only,
          a_request_from_before_a_restart_leaves_the_new_life_alone, another_writer_of_the_database_holds_nobody_up,
          who_says_no_key_keeps_no_one_out, changes_are_told, what_is_open_ends_with_its_key,
          the_audit_log_tells_who_did_what])
