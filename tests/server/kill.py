#!/usr/bin/env python3
"""kill -9, at random, under load: what was acknowledged is there, what was not may or may not be, nothing leaks.

Several clients create, execute, upload, label and delete at once; after a random while the warden, the front or both are
killed. Each request that was answered must hold after the restart; of each that was not, either all or nothing may. In the
end everything is deleted and no process, mount, cgroup, box directory or temporary file may be left.

CSN_KILLS=N (20): how often. CSN_SEED=N: repeats the same choices.
"""
import http.client
import os
import random
import secrets
import signal
import threading
import time

from lib import Server, Work, equal, is_alive, main, ok, pids_of, until

KILLS = int(os.environ.get("CSN_KILLS", "20"))
SEED = int(os.environ.get("CSN_SEED", str(secrets.randbits(32))))
CLIENTS = 4
MAX_BOXES = 3  # of each client
WARM = 1       # kept ready: they must end with the server, or be found and ended by the next
LOST = (OSError, http.client.HTTPException)


class Unknown(Exception):
    """The server was killed before it answered."""


class Box:
    """What is known of one sandbox. A value that was being changed when the server died is a set of two."""

    def __init__(self, name, labels):
        self.name, self.id = name, None
        self.labels = labels
        self.files = {}      # path: bytes
        self.maybe = {}      # path: every content it may have, None for absent
        self.labels_maybe = []


class Worker:
    """One client: it owns its sandboxes and volumes, so nobody else changes what it knows."""

    def __init__(self, number, rng):
        self.number, self.rng = number, rng
        self.boxes, self.volumes = {}, {}      # acknowledged, by name
        self.births, self.deaths = {}, {}      # under way when the server died
        self.volume_births, self.volume_deaths = set(), {}
        self.n_acked = self.n_unknown = 0
        self.problems = []
        self.client = None
        self.kinds = {}

    def ask(self, kind, call):
        try:
            answer = call()
        except LOST as error:
            self.n_unknown += 1
            raise Unknown(kind) from error
        if answer.status == 503:
            raise Unknown(kind)
        self.n_acked += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return answer

    def wrong(self, text):
        self.problems.append(f"client {self.number}: {text}")

    # ---- doing ----

    def create(self):
        name = f"k{self.number}-{secrets.token_hex(6)}"
        box = Box(name, {"client": str(self.number), "v": "0"})
        self.births[name] = box
        body = {"name": name, "labels": box.labels, "autoStopInterval": 0}
        if self.rng.random() < 0.3:
            body["autoDeleteInterval"] = 0  # ephemeral
        volume = self.rng.choice(sorted(self.volumes)) if self.volumes and self.rng.random() < 0.3 else None
        if volume:
            body["volumes"] = [{"volumeId": self.volumes[volume], "mountPath": "/vol"}]
        answer = self.ask("create", lambda: self.client.ask("POST", "/api/sandbox", body))
        if answer.status != 200:
            self.wrong(f"create: {answer!r}")
            return
        box.id = answer.json["id"]
        self.boxes[name] = self.births.pop(name)

    def delete(self):
        box = self.some_box()
        self.deaths[box.name] = self.boxes.pop(box.name)
        answer = self.ask("delete", lambda: self.client.ask("DELETE", f"/api/sandbox/{box.id}"))
        if answer.status not in (200, 204):
            self.wrong(f"delete: {answer!r}")
        del self.deaths[box.name]

    def execute(self):
        box = self.some_box()
        path, text = f"e{self.rng.randrange(4)}", secrets.token_hex(8)
        self.will_write(box, path, (text + "\n").encode())
        answer = self.ask("execute", lambda: self.client.execute(box.id, f"sh -c 'echo {text} > {path}; echo done'"))
        if answer.status != 200 or answer.json.get("exitCode") != 0 or "done" not in answer.json.get("result", ""):
            self.wrong(f"execute: {answer!r}")
        self.has_written(box, path, (text + "\n").encode())

    def upload(self):
        box = self.some_box()
        path, data = f"u{self.rng.randrange(3)}", secrets.token_bytes(self.rng.choice((10, 5000, 700000)))
        self.will_write(box, path, data)
        answer = self.ask("upload", lambda: self.client.upload(box.id, path, data))
        if answer.status not in (200, 201, 204):
            self.wrong(f"upload: {answer!r}")
        self.has_written(box, path, data)

    def will_write(self, box, path, data):
        box.maybe[path] = box.maybe.get(path, []) + [box.files.pop(path, None), data]

    def has_written(self, box, path, data):
        box.files[path] = data
        box.maybe.pop(path, None)

    def label(self):
        box = self.some_box()
        wanted = {"client": str(self.number), "v": secrets.token_hex(4)}
        box.labels_maybe = [box.labels, wanted]
        answer = self.ask("label", lambda: self.client.ask("PUT", f"/api/sandbox/{box.id}/labels", {"labels": wanted}))
        if answer.status != 200:
            self.wrong(f"labels: {answer!r}")
            return
        box.labels, box.labels_maybe = wanted, []

    def volume(self):
        if len(self.volumes) >= 2:
            name = self.rng.choice(sorted(self.volumes))
            if any(self.volumes[name] == v for v in self.used_volumes()):
                return
            self.volume_deaths[name] = self.volumes.pop(name)
            answer = self.ask("volume delete", lambda: self.client.ask(
                "DELETE", f"/api/volumes/{self.volume_deaths[name]}"))
            if answer.status == 409:  # a sandbox has it still
                self.volumes[name] = self.volume_deaths.pop(name)
                return
            if answer.status != 200:
                self.wrong(f"delete a volume: {answer!r}")
            del self.volume_deaths[name]
            return
        name = f"kv{self.number}-{secrets.token_hex(6)}"
        self.volume_births.add(name)
        answer = self.ask("volume create", lambda: self.client.ask("POST", "/api/volumes", {"name": name}))
        if answer.status != 200:
            self.wrong(f"create a volume: {answer!r}")
            return
        self.volumes[name] = answer.json["id"]
        self.volume_births.discard(name)

    def used_volumes(self):
        return ()

    def some_box(self):
        return self.boxes[self.rng.choice(sorted(self.boxes))]

    def run(self, server, key, stop):
        self.client = server.client(key)
        try:
            while not stop.is_set():
                if not self.boxes:
                    self.create()
                    continue
                verb = self.rng.choice((self.create, self.execute, self.execute, self.upload, self.label, self.delete,
                                        self.volume))
                if verb == self.create and len(self.boxes) >= MAX_BOXES:
                    verb = self.delete
                verb()
        except Unknown:
            pass
        except Exception as error:  # noqa: BLE001 a bug of the test shows as a problem
            self.wrong(f"{type(error).__name__}: {error}")
        finally:
            self.client.close()

    # ---- looking ----

    def look(self, server, key):
        self.client = server.client(key)
        for name in list(self.births):
            self.settle_birth(name, self.births.pop(name))
        for name in list(self.deaths):
            self.settle_death(self.deaths.pop(name))
        for box in self.boxes.values():
            self.look_at(box)
        self.look_at_volumes()
        self.client.close()

    def settle_birth(self, name, box):
        answer = self.client.ask("GET", f"/api/sandbox/{name}")
        if answer.status == 404:
            return
        if answer.status != 200 or answer.json.get("state") not in ("started", "error"):
            self.wrong(f"an unanswered create is neither there nor gone: {answer!r}")
            return
        box.id = answer.json["id"]
        self.boxes[name] = box
        if answer.json["state"] == "error":
            self.client.ask("DELETE", f"/api/sandbox/{box.id}")
            del self.boxes[name]

    def settle_death(self, box):
        answer = self.client.ask("GET", f"/api/sandbox/{box.id}")
        if answer.status == 404:
            return
        if answer.status != 200:
            self.wrong(f"an unanswered delete: {answer!r}")
            return
        if answer.json.get("state") in ("destroying", "destroyed", "error"):
            if not until(lambda: self.client.ask("GET", f"/api/sandbox/{box.id}").status == 404, 20):
                self.wrong(f"a delete that goes on never ends: {answer!r}")
            return
        self.boxes[box.name] = box

    def look_at(self, box):
        answer = self.client.ask("GET", f"/api/sandbox/{box.id}")
        if answer.status != 200 or answer.json.get("state") != "started":
            self.wrong(f"sandbox {box.name} was acknowledged: {answer!r}")
            return
        labels = answer.json["labels"]
        if labels != box.labels and labels not in box.labels_maybe:
            self.wrong(f"labels of {box.name}: {labels}, wanted {box.labels} or one of {box.labels_maybe}")
        box.labels, box.labels_maybe = labels, []
        for path, data in box.files.items():
            got = self.client.download(box.id, path)
            if got.status != 200 or got.data != data:
                self.wrong(f"file {path} of {box.name}: {got!r}, wanted {len(data)} bytes {data[:20]!r}")
        box.maybe.clear()  # half a file may be there: nobody was told it is whole

    def look_at_volumes(self):
        for name, volume in self.volumes.items():
            answer = self.client.ask("GET", f"/api/volumes/{volume}")
            if answer.status != 200:
                self.wrong(f"volume {name} was acknowledged: {answer!r}")
        for name in self.volume_births:
            answer = self.client.ask("GET", f"/api/volumes/by-name/{name}")
            if answer.status == 200:
                self.volumes[name] = answer.json["id"]
        self.volume_births.clear()
        for name, volume in self.volume_deaths.items():
            answer = self.client.ask("GET", f"/api/volumes/{volume}")
            if answer.status == 200:
                self.volumes[name] = volume
        self.volume_deaths.clear()


class World:
    """What this server has of the machine. Ids of sandboxes are remembered, to look for what they left."""

    def __init__(self, state):
        self.engine, self.ids = state / "engine", set()

    def names(self, *path):
        place = self.engine.joinpath(*path)
        try:
            return sorted(p.name for p in place.iterdir())
        except OSError:
            return []

    def notice(self):
        self.ids.update(n for n in self.names("boxes") + self.names("run", "boxes") if len(n) == 32)

    def keepers(self):
        """Those that hold a descriptor in our directory; of a keeper that can't be looked at we know by its box."""
        ours = {str(self.engine), os.path.realpath(self.engine / "run")}
        found = []
        for pid in pids_of("caisson-keeper"):
            try:
                links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            except OSError:
                continue
            if any(link.startswith(place + "/") for link in links for place in ours):
                found.append(pid)
        return found

    def left(self):
        with open("/proc/self/mountinfo") as mounts:
            mounted = [line for line in mounts if str(self.engine) in line]
        cgroups = [d for _, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if any(i in d for i in self.ids)]
        return {"keeper": self.keepers(), "mount": mounted, "cgroup": cgroups, "box": self.names("boxes"),
                "box in memory": self.names("run", "boxes"), "name": self.names("names"), "id range": self.names("ids"),
                "layer": [n for n in self.names("layers") if not n.startswith((".lock", "host-"))],
                "volume": self.names("volumes")}


def session_logs(work):
    place = work / "state" / "front" / "session-logs"
    return sorted(p.name for p in place.iterdir()) if place.is_dir() else []


def kill_some(server, rng):
    front = server.front()
    choice = rng.choice(("warden", "front", "both"))
    if choice in ("warden", "both"):
        server.child.kill()
    if choice in ("front", "both") and front:
        try:
            os.kill(front, signal.SIGKILL)
        except ProcessLookupError:
            pass
    server.wait()
    return choice, front


def kills_under_load():
    rng = random.Random(SEED)
    print(f"# {KILLS} kills, seed {SEED}", flush=True)
    with Work() as work:
        world = World(work / "state")
        key = "dtn_" + secrets.token_hex(32)
        server = Server(work, "--warm", str(WARM), env={"CAISSON_API_KEY": key})
        workers = [Worker(i, random.Random(rng.random())) for i in range(CLIENTS)]
        n_orphans, slowest = 0, 0.0
        for n in range(KILLS):
            started = time.monotonic()
            server.start()
            slowest = max(slowest, time.monotonic() - started)
            for w in workers:
                w.look(server, key)
            stop = threading.Event()
            running = [threading.Thread(target=w.run, args=(server, key, stop), daemon=True) for w in workers]
            for t in running:
                t.start()
            time.sleep(rng.uniform(0.02, 1.0))  # the random moment, not a wait for something
            world.notice()
            _, front = kill_some(server, rng)
            stop.set()
            for t in running:
                t.join(60)
            n_orphans += any(t.is_alive() for t in running)
            if front and not until(lambda: not is_alive(front), 5):
                workers[0].wrong(f"front {front} outlived the warden")
            if any(w.problems for w in workers):
                break
        problems = [p for w in workers for p in w.problems]
        acked, unknown = sum(w.n_acked for w in workers), sum(w.n_unknown for w in workers)
        kinds = {}
        for w in workers:
            for kind, count in w.kinds.items():
                kinds[kind] = kinds.get(kind, 0) + count
        print(f"# {n + 1} kills, {acked} answers {kinds}, {unknown} requests cut off, slowest restart {slowest:.2f} s",
              flush=True)
        ok(not problems, f"{n + 1} kills: all that was acknowledged is there", *problems[:20], server.logged()[-3000:])
        equal(n_orphans, 0, "no request hangs when the server dies")

        server.start()
        client = server.client(key)
        listed = client.ask("GET", "/api/sandbox?limit=200").json["items"]
        for item in listed:
            client.ask("DELETE", f"/api/sandbox/{item['id']}")
        ok(until(lambda: not client.ask("GET", "/api/sandbox").json["items"], 30), "everything can be deleted")
        for volume in client.ask("GET", "/api/volumes").json:
            client.ask("DELETE", f"/api/volumes/{volume['id']}")
        equal(client.ask("GET", "/api/volumes").json, [], "volumes too")
        ok(until(lambda: not world.left()["volume"] and len(world.left()["box"]) <= WARM, 30), "and the engine follows", world.left())
        fds = len(os.listdir(f"/proc/{server.child.pid}/fd"))
        ok(fds < 40, "the warden holds few descriptors", fds)
        equal(server.stop(), 0, "it ends well")
        until(lambda: not any(world.left().values()), 15)
        for kind, things in world.left().items():
            equal(things, [], f"no {kind} is left")
        front = sorted(p.name for p in (work / "state" / "front").iterdir())
        ok(all(name.startswith(("caisson.db", "audit.log", "session-logs")) for name in front) and
           not session_logs(work), "no temporary file is left", front, session_logs(work))


if __name__ == "__main__":
    main([kills_under_load])
