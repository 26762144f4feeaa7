#!/usr/bin/env python3
"""In a machine of tests/vm: what must hold on a real Debian kernel with systemd and cgroup v2. Runs as root; TAP.

inside.py contexts|units|suites-root|suites-user: one set per boot, since an emulated machine is slow.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

TREE = pathlib.Path("/opt/caisson")
sys.path.insert(0, str(TREE / "tests/host"))
import machine  # noqa: E402

CAISSON = str(TREE / "build/caisson")
TOP = pathlib.Path("/sys/fs/cgroup")
MANAGER = "/user.slice/user-1000.slice/user@1000.service"
SYSTEMD = int(subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=True).stdout.split()[1])
N, FAILED = 0, 0


def ok(is_true, name, *notes):
    global N, FAILED
    N += 1
    FAILED += not is_true
    for note in notes if not is_true else ():
        for line in str(note).splitlines()[-30:]:
            print("# " + line)
    print(f"{'ok' if is_true else 'not ok'} {N} - {name}", flush=True)
    return is_true


def equal(got, wanted, name, *notes):
    return ok(got == wanted, name, f"got:    {got!r}", f"wanted: {wanted!r}", *notes)


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=600, **options)
    return done.returncode, done.stdout, done.stderr


def user_words(*words):
    """As u, without a session; XDG_RUNTIME_DIR leads to u's manager where one runs."""
    return ["setpriv", "--reuid=1000", "--regid=1000", "--init-groups", "env", "-i", "HOME=/home/u", "USER=u",
            "PATH=" + os.environ["PATH"], *words]


# How a program comes to run: (name, words before it, the group its sandboxes' groups are made in; None: the keeper watches).
def contexts_before_login():
    yield "root, a service, nobody ever logged in", ["systemd-run", "-q", "--wait", "--pipe", "-E", "HOME=/root"], ""
    yield "root, a scope", ["systemd-run", "-q", "--scope", "env", "HOME=/root"], ""
    yield ("root, a delegated service",
           ["systemd-run", "-q", "--wait", "--pipe", "-p", "Delegate=yes", "-E", "HOME=/root", "--unit=handed"], "/system.slice/handed.service")
    yield ("root, a service with a memory limit",
           ["systemd-run", "-q", "--wait", "--pipe", "-p", "MemoryMax=3G", "-E", "HOME=/root"], None)
    yield "u, without a session", user_words(), None


def contexts_after_login():
    runtime = "XDG_RUNTIME_DIR=/run/user/1000"
    yield "root, a login session", ["su", "-", "root", "-c", 'exec "$0" "$@"', "--"], ""
    yield "u, a login session", ["su", "-", "u", "-c", 'exec "$0" "$@"', "--"], None
    yield ("u, a login by PAM", ["systemd-run", "-q", "--wait", "--pipe", "-p", "PAMName=login", "-p", "User=u",
                                 "-p", "WorkingDirectory=/home/u", "-E", "HOME=/home/u"], None)
    yield "u, a unit of the user's", user_words(runtime, "systemd-run", "-q", "--user", "--wait", "--pipe"), MANAGER
    yield "u, a scope of the user's (a desktop's terminal)", user_words(runtime, "systemd-run", "-q", "--user", "--scope"), MANAGER
    yield ("u, a delegated unit of the user's",
           user_words(runtime, "systemd-run", "-q", "--user", "--wait", "--pipe", "-p", "Delegate=yes"), MANAGER)
    yield ("u, a delegated scope of the user's",
           user_words(runtime, "systemd-run", "-q", "--user", "--scope", "-p", "Delegate=yes"), MANAGER)


SPIN = """
import os, time
began = time.monotonic()
children = [os.fork() for _ in range(2)]
if 0 in children:
    while time.monotonic() - began < 3:
        pass
    os._exit(0)
for _ in children:
    os.wait()
used = os.times()
print((used.children_user + used.children_system) / (time.monotonic() - began))
"""
FORKS = """
import os, time
n = 0
try:
    while n < 2000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError:
    pass
print(n, flush=True)
"""
STAYS = FORKS + "time.sleep(60)\n"


def in_context(words, *args):
    """caisson ARGS there, from a shell that must survive it: (status of caisson or None, stdout, stderr)."""
    status, out, err = run([*words, "bash", "-c", f'{CAISSON} "$@"; echo "status $?"', "bash", *args])
    found = re.search(r"status (\d+)\n?$", out)
    return (int(found.group(1)) if found else None), out[:found.start()] if found else out, err


def receipt_of(words, *args):
    status, out, err = in_context(words, "run", "--json", *args)
    try:
        return status, json.loads(out), err
    except ValueError:
        return status, {}, out + err


# What systemd itself makes and removes for whoever comes and goes.
SYSTEMDS_OWN = re.compile(r"run-|handed|user@|session-|\.scope|\.service|\.slice|/run/user/")


def let_systemd_tidy():
    """A controller that a unit was given stays on at the top after the unit's end, until systemd starts another one."""
    run(["systemd-run", "-q", "--wait", "true"])


def check_context(name, words, place):
    """One row of the table: doctor, verbs, and each limit at its edge."""
    rung = "watch" if place is None else "cgroup v2"
    let_systemd_tidy()
    before = machine.Snapshot(("mounts", "all cgroups"))
    status, out, err = in_context(words, "doctor")
    ok(status == 0 and "no sandbox" not in err, f"{name}: doctor finds all walls", out, err)
    status, doc, err = receipt_of(words, "--", "sh", "-c", "echo hi")
    limits = doc.get("receipt", doc).get("limits", {})
    equal((status, doc.get("stdout"), limits.get("rung")), (0, "hi\n", rung), f"{name}: run", doc, err)
    status, doc, err = receipt_of(words, "-m", "64m", "--", "python3", "-c", "x = bytearray(200 << 20)")
    ok(status == 137 and "memory limit of 64 MiB" in err + json.dumps(doc), f"{name}: memory ends the program, and nothing else",
       status, doc, err)
    check_cpu(name, words, place)
    check_processes(name, words, place)
    let_systemd_tidy()
    left = [line for line in machine.settle(before) if "caisson" in line or not SYSTEMDS_OWN.search(line)]
    ok(not left, f"{name}: no group, controller or mount is left changed", *left)


def check_processes(name, words, place):
    """A group refuses the 65th. A watch looks now and then: RLIMIT_NPROC, twice the limit, holds at once, and whoever stays is ended."""
    status, doc, err = receipt_of(words, "--pids", "64", "--timeout", "60s", "--", "python3", "-c", STAYS if place is None else FORKS)
    n, ended = int((doc.get("stdout") or "0").strip() or 0), doc.get("receipt", {}).get("ended")
    held = ended == "pids-limit" and n <= 128 if place is None else status == 0 and 0 < n <= 64
    ok(held, f"{name}: processes end at the limit", status, doc, err)


def check_cpu(name, words, place):
    status, doc, err = receipt_of(words, "--cpu", "0.5", "--timeout", "60s", "--", "python3", "-c", SPIN)
    try:
        share = float(doc.get("stdout") or 99)
    except ValueError:
        share = 99
    most = 1.2 if place is None else 0.7 # without a quota whole processors are given
    ok(status == 0 and share < most, f"{name}: --cpu 0.5 gives {share:.2f}", status, doc, err)


def wait_until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.2)
    return what()


def start_manager():
    """D-Bus gives a service 25 s to start, which logind may miss at its first start on an emulated machine: then it is asked again."""
    said = []

    def lingers():
        status, out, err = run(["loginctl", "enable-linger", "u"])
        said.append(out + err)
        return status == 0

    ok(wait_until(lingers, 180) and wait_until(pathlib.Path("/run/user/1000/bus").exists, 180) and (TOP / MANAGER[1:]).exists(),
       "u's manager runs", *said)


def contexts():
    lasting = machine.Lasting()
    subtree = (TOP / "cgroup.subtree_control").read_text()
    for name, words, place in contexts_before_login():
        check_context(name, words, place)
    equal((TOP / "cgroup.subtree_control").read_text(), subtree, "the top group has the controllers it had")
    start_manager()
    for name, words, place in contexts_after_login():
        check_context(name, words, place)
    status, out, err = run([CAISSON, "run", "--net", "outbound", "--", "true"])
    equal(status, 0, "root: a sandbox with a network", out, err)
    status, out, err = run(user_words(CAISSON, "run", "--net", "outbound", "--", "true"))
    equal(status, 0, "u: a sandbox with a network", out, err)
    for who, words in (("root", []), ("u", user_words())):
        status, out, err = run([*words, CAISSON, "run", "-u", "root", "--", "sh", "-c",
                                "rm -rf /etc/alternatives && mkdir /etc/alternatives && ls /etc/alternatives | wc -l"])
        equal((status, out), (0, "0\n"), f"{who}: a directory of the image can be removed and made anew", err)
    harm = list(lasting.harm())
    ok(not harm, "the machine's mounts and units are there", *harm)


# ---- the units ----

KEY = "0123456789abcdef0123456789abcdef"
URL = "http://127.0.0.1:3986"


def ask(method, path, body=None, seconds=60):
    words = ["curl", "-sS", "-m", str(seconds), "-X", method, "-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json"]
    if body is not None:
        words += ["-d", json.dumps(body)]
    _, out, err = run([*words, URL + path])
    try:
        return json.loads(out)
    except ValueError:
        return {"said": out + err}


def is_up():
    return run(["curl", "-s", "-o", "/dev/null", URL + "/"])[0] == 0


def replace_programs():
    """As a package manager does it: a new file takes the name of the old one, which lives on where it is executed."""
    for program in (TREE / "build").glob("*caisson*"):
        if program.is_file() and not program.is_symlink():
            subprocess.run(["cp", "-p", program, f"{program}.new"], check=True)
            os.rename(f"{program}.new", program)


def check_unit(name, systemctl, unit, place=""):
    def executes(box, text):
        return ask("POST", f"/toolbox/{box}/process/execute", {"command": "echo " + text}).get("result", "").strip()

    def journal():
        return run(["journalctl", "--no-pager", "-o", "cat", "-n", "40"])[1]

    run([*systemctl, "daemon-reload"])
    status, _, err = run([*systemctl, "start", unit])
    ok(status == 0 and wait_until(is_up), f"{name}: starts", err, journal())
    made = ask("POST", "/api/sandbox", {})
    box = made.get("id", "none")
    ok(wait_until(lambda: executes(box, "first") == "first"), f"{name}: a sandbox with a network is made", made, journal())
    answer = ask("POST", f"/toolbox/{box}/process/execute", {"command": "python3 -c 'x = bytearray(1500 << 20)'", "timeout": 50})
    ok(run([*systemctl, "is-active", unit])[1].strip() == "active" and executes(box, "alive") == "alive",
       f"{name}: memory that runs out inside ends neither unit nor sandbox", answer)
    ask("POST", f"/toolbox/{box}/process/execute", {"command": "echo kept >/tmp/kept"})
    groups = [str(g) for g in (TOP / place / "caisson").glob("*/cgroup.procs") if g.read_text()]
    ok(groups, f"{name}: limits are held in /{place}", run(["find", str(TOP), "-path", "*caisson*"])[1])

    def survives(what, *commands):
        problems = []
        for command in commands:
            status, out, err = run([*systemctl, *command])
            if status != 0:
                problems.append(f"{command}: {status} {out} {err}")
        up = wait_until(is_up)
        said = ask("POST", f"/toolbox/{box}/process/execute", {"command": "cat /tmp/kept"}) if up else {}
        ok(not problems and said.get("result", "").strip() == "kept", f"{name}: a sandbox survives {what}", problems, said, journal())

    survives("a restart", ["restart", unit])
    survives("a reload of systemd", ["daemon-reload"])
    survives("a crash of the server", ["kill", "--kill-whom=main", "-s", "KILL", unit])
    survives("reload-or-restart", ["reload-or-restart", unit])
    replace_programs()
    survives("an upgrade", ["daemon-reload"], ["restart", unit])
    survives("a stop and a start", ["stop", unit], ["start", unit])
    ask("POST", f"/api/sandbox/{box}/autostop/60")
    run(["date", "-s", "+2 days"])
    answer = ask("POST", f"/api/sandbox/{box}/ttl/600") # its timers are looked at again
    ok(executes(box, "still") == "still", f"{name}: a clock that jumps two days stops and deletes nothing", answer, journal())
    run(["date", "-s", "-2 days"])
    another = ask("POST", "/api/sandbox", {})
    ok(wait_until(lambda: executes(another.get("id", "none"), "new") == "new"), f"{name}: then another one is made", another, journal())
    for one in (box, another.get("id", "none")):
        ask("DELETE", f"/api/sandbox/{one}?force=true")
    run([*systemctl, "stop", unit])
    equal(run([*systemctl, "is-active", unit])[1].strip(), "inactive", f"{name}: stops")


def install_unit(source, place, owner=None):
    text = (TREE / "packaging/systemd" / source).read_text().replace("/usr/bin/caisson", CAISSON)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    if owner:
        subprocess.run(["chown", "-R", "u:", "/home/u/.config"], check=True)


def units():
    lasting = machine.Lasting()
    pathlib.Path("/etc/caisson").mkdir(exist_ok=True)
    pathlib.Path("/etc/caisson/server.env").write_text(f"CAISSON_API_KEY={KEY}\n")
    install_unit("caisson.service", pathlib.Path("/etc/systemd/system/caisson.service"))
    check_unit("system unit", ["systemctl"], "caisson")
    if SYSTEMD >= 254: # older ones can't restart a unit whose group is divided
        dropin = pathlib.Path("/etc/systemd/system/caisson.service.d/limit.conf")
        dropin.parent.mkdir()
        dropin.write_text("[Service]\nMemoryMax=3G\nDelegate=yes\nDelegateSubgroup=caisson-engine\n")
        check_unit("system unit with a limit, delegated", ["systemctl"], "caisson", "system.slice/caisson.service")
    start_manager()
    pathlib.Path("/home/u/.config/caisson").mkdir(parents=True)
    pathlib.Path("/home/u/.config/caisson/server.env").write_text(f"CAISSON_API_KEY={KEY}\n")
    install_unit("caisson-user.service", pathlib.Path("/home/u/.config/systemd/user/caisson-user.service"), "u")
    check_unit("user unit", user_words("XDG_RUNTIME_DIR=/run/user/1000", "systemctl", "--user"), "caisson-user", MANAGER[1:])
    harm = list(lasting.harm())
    ok(not harm, "the machine's mounts and units are there", *harm)


# ---- our own suites ----

def suites(words, who):
    """The runner's own lines, as they are; its total is one test here, its failures are shown."""
    lasting = machine.Lasting()
    names = os.environ.get("VM_SUITES", "unit story escape")
    last, failed = "nothing was said", []
    with subprocess.Popen([*words, "env", f"CSN_SUITES={names}", "CSN_JOBS=3", "CSN_AS=root", "CSN_TIMES=1", "tests/run", "gcc=build"],
                          cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as child:
        for line in child.stdout:
            print("# " + line, end="", flush=True)
            last, failed = line.strip(), failed + [line] * line.startswith("failed: ")
    ok(child.returncode == 0, f"{names} as {who}: {last}", *failed)
    harm = list(lasting.harm())
    ok(not harm, "the machine's mounts and units are there", *harm)


SETS = {"contexts": contexts, "units": units,
        "suites-root": lambda: suites(["env", "HOME=/root"], "root"),
        "suites-user": lambda: suites(["su", "-", "u", "-c", f"cd {TREE} && exec \"$0\" \"$@\"", "--"], "u")}


def main():
    ok(machine.units(), f"Linux {os.uname().release}, systemd {SYSTEMD}")
    SETS[sys.argv[1]]()
    print(f"1..{N}", flush=True)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
