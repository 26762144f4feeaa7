#!/usr/bin/env python3
"""nowait.py engine [STORY…] | server

Nothing waits in a loop. Programs with watch.c in them are driven through their verbs; what it wrote about calls that may wait is
judged here: a call is a fault when it was made inside of a callback of the loop, or inside of a verb that must not block
(csn_…_async), which callbacks use. In a build without sanitizers a callback that computes for more than 10 ms is one, too, if
it does so in three of three runs. Exceptions are named below, each with its reason, and one that nothing needs any more is a
failure: so no new one comes in, and no old one is forgotten.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["CSN_BUILD"])
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = BUILD / "tests" / "nowait"
CPU_MS = 10
RUNS = 3

LOOP = "csn_loop_run_once"
OWN = {LOOP, "deliver", "run_timers"}  # of the loop: what runs inside of them is the callback
VERB = re.compile(r"csn_\w+_async$")

ALWAYS, SOMETIMES = True, False  # SOMETIMES: only when timing, or another user's rights, want it

# (call, "file:function" of anybody on the stack): (when, why it may wait there).
ENGINE = {
    ("flock", "image/image.c:hold"): (ALWAYS, "shared; held alone while a sweep takes layers away"),
    ("flock", "image/hostbase.c:csn_hostbase_prepare"): (SOMETIMES, "one makes the host's base layer, others wait for it"),
    ("flock", "local/claim.c:replace_stale_name"): (SOMETIMES, "a name whose box is gone is replaced by one at a time"),
    ("flock", "local/run.c:csn_run_prepare"): (SOMETIMES, "run/ is made again by one at a time"),
    ("fsync", "local/record.c:csn_record_write"): (ALWAYS, "a record that must outlive a crash, before its verb is done"),
    ("fsync", "image/image.c:csn_image_put"): (ALWAYS, "the name of a snapshot or an import, before its verb is done"),
    ("epoll_wait", "local/helper.c:csn_helper_remove"): (SOMETIMES, "a loop of its own, for files of subordinate ids"),
    ("nanosleep", "kern/cgroup_end.c:wait_a_bit"): (SOMETIMES, "a killed keeper's groups are emptied"),
    ("waitpid", "image/child.c:csn_child_done"): (SOMETIMES, "an import that is given up: after a SIGKILL"),
}
ALLOWED = {
    "engine": ENGINE,
    "server": {key: (SOMETIMES, why) for key, (_, why) in ENGINE.items()} | {
        ("fdatasync", "store/db.c:csn_db_step"): (ALWAYS, "SQLite syncs its log when a transaction ends, before the answer"),
        ("fdatasync", "server/audit.c:csn_audit_sync"): (SOMETIMES, "the audit log, when it is turned over or by a timer"),
    },
}

Fault = collections.namedtuple("Fault", "call where stack")


class Names:
    """Offsets of one program as lists of "file:function", innermost first: inlined functions have frames of their own."""

    def __init__(self, program):
        self.program, self.known = program, {}

    def learn(self, offsets):
        new = sorted(set(offsets) - set(self.known))
        if not new:
            return
        out = subprocess.run(["addr2line", "-a", "-f", "-i", "-e", str(self.program)], input="\n".join(new), text=True,
                             stdout=subprocess.PIPE, check=True).stdout
        at = None
        lines = iter(out.splitlines())
        for line in lines:
            if line.startswith("0x"):
                at = self.known.setdefault(f"{int(line, 16):x}", [])
            else:
                place = next(lines).rsplit("/src/", 1)[-1].rsplit("/tests/", 1)[-1].split(":")[0]
                at.append(f"{place}:{line}")

    def stack(self, offsets):
        return [name for offset in offsets for name in self.known.get(offset, [])]


def function_of(frame):
    return frame.rsplit(":", 1)[1]


def judge(call, stack):
    """A Fault, or None: nobody's callback."""
    stack = [frame for frame in stack if "nowait/watch.c" not in frame]
    functions = [function_of(frame) for frame in stack]
    if call.startswith("epoll") and functions[:1] == [LOOP]:
        stack, functions = stack[1:], functions[1:]  # a loop waits; inside of a callback of another one it must not
    if LOOP in functions:
        inside = [frame for frame in stack[:functions.index(LOOP)] if function_of(frame) not in OWN]
        where = inside[-1] if inside else stack[0]
    else:
        verbs = [frame for frame in stack if VERB.match(function_of(frame))]
        if not verbs:
            return None
        where = verbs[0]
    return Fault(call, where, tuple(stack))


def faults_in(lines, program):
    names, told = Names(program), []
    for line in lines:
        if line.startswith("nowait("):
            call, *offsets = line.split()[1:]
            told.append((call, offsets))
    names.learn([offset for _, offsets in told for offset in offsets])
    faults = [judge(call, names.stack(offsets)) for call, offsets in told]
    return [fault for fault in faults if fault]


def excuse_of(fault, allowed):
    for key in allowed:
        if key[0] == fault.call and key[1] in fault.stack:
            return key
    return None


_n = _failed = 0


def ok(is_true, name, *notes):
    global _n, _failed
    _n += 1
    _failed += not is_true
    print(f"{'ok' if is_true else 'not ok'} {_n} - {name}", flush=True)
    for note in notes if not is_true else []:
        print("# " + note, flush=True)


def described(fault):
    inner = [frame for frame in fault.stack[:fault.stack.index(fault.where) + 1]]
    return f"{fault.call} in {fault.where}: " + " < ".join(inner)


def check(name, faults, used, allowed):
    bad = {}
    for fault in faults:
        key = excuse_of(fault, allowed)
        if key:
            used.add(key)
        else:
            bad.setdefault((fault.call, fault.where), described(fault))
    ok(not bad, f"nothing waits in the loop: {name}", *sorted(bad.values()))


# ---- the engine ----

def is_sanitized(program):
    return b"__asan_init" in program.read_bytes() or b"__tsan_init" in program.read_bytes()


def run_story(program):
    """Faults, and what the program said if it failed."""
    with tempfile.TemporaryDirectory(prefix="csn-nowait-") as work:
        out = pathlib.Path(work) / "waits"
        env = {**os.environ, "CSN_NOWAIT_FILE": str(out)}
        if not is_sanitized(program):
            env["CSN_NOWAIT_CPU_MS"] = str(CPU_MS)
        done = subprocess.run([str(program)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        lines = out.read_text().splitlines() if out.exists() else []
    return faults_in(lines, program), None if done.returncode == 0 else done.stdout


def split(faults):
    return [f for f in faults if f.call != "cpu"], [f for f in faults if f.call == "cpu"]


def check_cpu(name, program, cpu, used, allowed):
    """Three of three: what a busy machine does once is not the callback's."""
    for _ in range(RUNS - 1):
        wanted = {fault.where for fault in cpu if not excuse_of(fault, allowed)}
        if not wanted:
            break
        again = split(run_story(program)[0])[1]
        cpu = [fault for fault in cpu if fault.where in {other.where for other in again} or excuse_of(fault, allowed)]
    check(f"{name} computes for {CPU_MS} ms", cpu, used, allowed)


def engine(used, allowed):
    for name in sys.argv[2:] or ("ops", "lifecycle", "copies", "standby", "turns"):
        program = PROGRAMS / f"nowait_{name}"
        faults, complaint = run_story(program)
        ok(complaint is None, f"the story is told: {name}", *(complaint or "").splitlines()[-40:])
        waits, cpu = split(faults)
        check(name, waits, used, allowed)
        if not is_sanitized(program):
            check_cpu(name, program, cpu, used, allowed)


# ---- the server ----

def serve_a_day(client):
    """What a client asks for in a day, told apart by where it must be written down."""
    def ask(method, path, body=None):
        answer = client.ask(method, "/api" + path, body)
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer}")
        return answer

    def wait_for(box, state):
        if not sys.modules["lib"].until(lambda: ask("GET", f"/sandbox/{box}").json["state"] == state):
            raise RuntimeError(f"sandbox {box} is not {state}")

    volume = ask("POST", "/volumes", {"name": "kept"}).json["id"]
    box = ask("POST", "/sandbox", {}).json["id"]
    client.execute(box, "echo hello")
    client.upload(box, "f", b"x" * 4096)
    ask("PUT", f"/sandbox/{box}/labels", {"labels": {"a": "b"}})
    ask("POST", f"/sandbox/{box}/autostop/30")
    ask("POST", f"/sandbox/{box}/stop")
    wait_for(box, "stopped")
    ask("POST", f"/sandbox/{box}/start")
    wait_for(box, "started")
    ask("GET", "/sandbox")
    ask("DELETE", f"/sandbox/{box}")
    ask("DELETE", f"/volumes/{volume}")
    key = ask("POST", "/api-keys", {"name": "k", "permissions": []}).json["name"]
    ask("DELETE", f"/api-keys/{key}")


def server(used, allowed):
    with tempfile.TemporaryDirectory(prefix="csn-nowait-") as work:
        os.chmod(work, 0o755)
        for path in BUILD.glob("caisson*"):
            watched = PROGRAMS / path.name
            (pathlib.Path(work) / path.name).symlink_to(watched if watched.is_file() else path)
        os.environ["CSN_BUILD"] = work
        sys.path.insert(0, str(HERE.parent / "server"))
        import lib  # noqa: E402 it looks for its programs when it is loaded
        with lib.Work() as place:
            serving = lib.Server(place).start()
            client = serving.client()
            serve_a_day(client)
            client.close()
            serving.stop()
            lines = serving.logged().splitlines()
    for name in ("caisson-serve", "caisson-warden"):
        mine = [line for line in lines if line.startswith(f"nowait({name}): ")]
        ok(mine, f"{name} was watched")
        check(name, faults_in(mine, PROGRAMS / name), used, allowed)


def main():
    which = sys.argv[1]
    allowed, used = ALLOWED[which], set()
    {"engine": engine, "server": server}[which](used, allowed)
    needed = {key for key, (when, _) in allowed.items() if when == ALWAYS} if len(sys.argv) == 2 else set()
    for key in sorted(needed - used):
        ok(False, f"an exception nothing needs any more: {key[0]} in {key[1]}")
    print(f"1..{_n}", flush=True)
    return 1 if _failed else 0


if __name__ == "__main__":
    sys.exit(main())
