#!/usr/bin/env python3
"""Every verb and every helper leaves the machine as it found it.

As root: in a mount namespace whose mounts are shared, as systemd makes them (private ones hide what a helper does to the
host), once as root and once as nobody. As an ordinary user: on the mounts that are there. Compared are mounts, cgroups,
kernel settings, network links, shared memory, temporary files and processes.
"""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

import machine

SOURCE, BUILD = pathlib.Path(os.environ["CSN_SOURCE"]), pathlib.Path(os.environ["CSN_BUILD"])
NOBODY = 65534
PR_SET_CHILD_SUBREAPER = 36
# While a sandbox lives, these differ; when it has ended they don't.
ALIVE = ("mounts", "sysctls", "links")
# What stays today, and is not excused for anything else: the empty group that all sandboxes share at the top of a hierarchy of
# version 1, and what a state directory keeps in memory, which goes with the directory.
STAYS = re.compile(r"^cgroups: (new|gone): \S*/(memory|pids|cpu[a-z,]*|freezer)/caisson $|^(shared memory|leftovers): (new|gone): (/dev/shm|/run|/run/user/\d+)/caisson-")

SERVER = r"""
export CAISSON_API_KEY=0123456789abcdef0123456789abcdef
caisson serve --listen 127.0.0.1:0 --state "$PWD/server" >serve.out 2>&1 &
server=$!
for i in $(seq 600); do url=$(sed -n 's/.*\(http:[^ ]*\)\/api.*/\1/p' serve.out | head -n 1); [ -n "$url" ] && break; sleep 0.1; done
ask() { curl -sS -f -H "Authorization: Bearer $CAISSON_API_KEY" -H 'Content-Type: application/json' "$@"; }
id=$(ask -X POST -d '{}' "$url/api/sandbox" | python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])') || { cat serve.out; exit 1; }
for i in $(seq 300); do ask "$url/api/sandbox/$id" | grep -q '"state":"started"' && break; sleep 0.1; done
answer=$(ask -X POST -d '{"command":"echo served"}' "$url/toolbox/$id/process/execute")
ask -X DELETE "$url/api/sandbox/$id?force=true" >/dev/null
kill "$server"; wait "$server"
CAISSON_STATE=$PWD/server/engine caisson rm --all -q
rm -rf "$(readlink server/engine/run)"
case $answer in *served*) ;; *) echo "$answer"; exit 1 ;; esac
"""

# Name: what runs, line by line; each must end with 0, and leave no trace when all have run.
SCENARIOS = {
    "run": ["caisson run -- true", "caisson run hello.py", "caisson run -m 64m --pids 32 -- sh -c ': >/tmp/x'"],
    "run --net outbound (slirp4netns)": ["caisson run --net outbound -- true"],
    "run --strict disk (mkfs, a loop device)": ["caisson run --disk 64m --strict disk -- true"],
    "a sandbox that stays": [
        "caisson create --net outbound box", "caisson exec box -- echo hi", "caisson exec -d box -- sh -c 'echo logged; sleep 100'",
        "echo 'exit 0' | script -qec 'caisson shell box' /dev/null", "caisson ls", "caisson inspect box", "caisson logs box 1 || caisson logs box 2 || caisson logs box 3", "caisson stats box",
        "caisson cp hello.py box:hello.py", "caisson cp box:hello.py back.py", "caisson stop box", "caisson start box",
        "caisson fork box twin", "caisson snapshot box picture", "caisson rm box twin", "caisson image rm picture",
        "caisson gc"],
    "image import (caisson-unpack)": [
        "caisson image import small tree.tar", "caisson image ls", "caisson image inspect small", "caisson image rm small"],
    "image build (mmdebstrap)": ["caisson image build -q small --debian", "caisson image rm small"],
    "volume": ["caisson volume create v", "caisson run --volume v:/data -- sh -c 'echo x >/data/f'", "caisson volume ls", "caisson volume inspect v",
               "caisson volume cat v f", "caisson volume tree v", "caisson volume rm v"],
    "arena": ["caisson arena --plain --candidates arena.json --artifacts out"],
    "candidate": ["caisson candidate good.py -o x -q"],
    "blocks": ["caisson blocks notes.md"],
    "interp": ["caisson interp -c 'x = 1' -c 'SUBMIT(answer=x)'"],
    "interp --repo (git)": ["caisson interp --repo repo -c 'SUBMIT(answer=1)'"],
    "interp --llm-url (caisson-llm)": ["caisson interp --llm-url \"$MODEL\" --llm-model m -c 'SUBMIT(answer=llm_query(\"hello\"))'"],
    "rlm --llm-cmd (a command of the user's)": [
        "caisson rlm --llm-cmd \"printf 'SUBMIT(answer=1)'\" 'a task'"],
    "session": ["caisson interp --session s -c 'x = 1'", "caisson session ls", "caisson session export s >s.json", "caisson session rm s",
                "caisson session import t s.json", "caisson session rm t"],
    "smoke": ["caisson smoke --repo repo"],
    "diagnose": ["caisson diagnose >/dev/null"],
    "doctor": ["caisson doctor >/dev/null || true"],
    "key": ["caisson key create --state \"$PWD/keys\" >/dev/null", "caisson key ls --state \"$PWD/keys\""],
    "serve (warden, front, slirp4netns)": [SERVER],
}


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def ok(self, is_true, name, *notes):
        self.n += 1
        self.failed += not is_true
        for note in [] if is_true else notes:
            for line in str(note).splitlines():
                print("# " + line)
        print(f"{'ok' if is_true else 'not ok'} {self.n} - {name}", flush=True)

    def skip(self, name, why):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {why}", flush=True)


def enter_shared_mounts():
    """As systemd leaves a machine: every mount shared; here in a namespace of our own, apart from the real ones."""
    os.environ["CSN_SHARED_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                          "mount --make-rshared / && exec \"$@\"", "sh", sys.executable, __file__, *sys.argv[1:]])


def write(path, text):
    path.write_text(text, encoding="utf-8")


def prepare(work):
    """Programs that every user can reach, and what the scenarios use."""
    programs = work / "bin"
    programs.mkdir()
    for file in BUILD.glob("caisson*"):
        if file.is_file() and os.access(file, os.X_OK):
            shutil.copy(file, programs)
    (work / "src").mkdir()
    write(work / "src/hello.py", "print('hello')\n")
    write(work / "src/good.py", "import sys\nopen(sys.argv[2], 'w').write('# fine, and long enough\\n')\n")
    write(work / "src/arena.json", '{"objective": "x", "candidates": [{"id": "a", "name": "A", "script": "good.py"}, {"id": "b", "name": "B", "script": "good.py"}]}')
    write(work / "src/notes.md", "```python\nprint(6 * 7)\n```\n\n```bash\necho hi\n```\n")
    root = work / "tree"
    for name in ("bin", "etc", "usr", "tmp", "proc", "dev", "sys"):
        (root / name).mkdir(parents=True)
    subprocess.run(["tar", "-cf", work / "src/tree.tar", "-C", root, "."], check=True)
    shutil.rmtree(root)
    script = work / "src/script.json"
    write(script, '[{"text": "an answer"}]')


def make_repo(place):
    write(place / "README.md", "# A repository\n")
    git = ["git", "-C", str(place), "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "README.md"], ["commit", "-q", "-m", "first"]):
        subprocess.run(git + words, check=True)


class User:
    """Whose commands run: a home, a state directory, the words that become this user."""

    def __init__(self, work, uid):
        self.uid = uid
        self.name = "root" if uid == 0 else "nobody" if uid == NOBODY else "the user"
        self.home = work / f"home-{uid}"
        shutil.copytree(work / "src", self.home)
        (self.home / "repo").mkdir()
        make_repo(self.home / "repo")
        (self.home / "tmp").mkdir()
        self.prefix = []
        if uid != os.geteuid():
            for path in [self.home, *self.home.rglob("*")]:
                os.chown(path, uid, uid)
            self.prefix = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--"]
        self.env = {"PATH": f"{work}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home),
                    "CAISSON_STATE": str(self.home / "state"), "CAISSON_LIBEXEC": str(work / "bin"), "LC_ALL": "C.UTF-8",
                    "TMPDIR": str(self.home / "tmp"),
                    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                    "ASAN_OPTIONS": "detect_leaks=0"}
        self.env.update({k: v for k, v in os.environ.items() if re.match(r".*_(proxy|PROXY)$", k)})

    def run(self, line, seconds=300):
        child = subprocess.Popen(self.prefix + ["bash", "-c", line], env=self.env, cwd=self.home, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            text, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            text, _ = child.communicate()
        return child.returncode, text.decode("utf-8", "replace")

    def start_model(self):
        model = subprocess.Popen([sys.executable, SOURCE / "tests/interp/model_server.py", self.home / "script.json"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.env["MODEL"] = f"http://127.0.0.1:{model.stdout.readline().strip()}/v1"
        return model

    def clean(self):
        self.run("caisson rm --all -q; rm -rf \"$(readlink state/run)\"")


def play(tap, user, name, lines):
    """The lines one by one; the host is compared after each, and wholly at the end."""
    before = machine.Snapshot()
    alive = machine.Snapshot(ALIVE)
    problems, status = [], 0
    for line in lines:
        status, text = user.run(line)
        if status != 0:
            problems += [f"{line.strip().splitlines()[-1]}: status {status}", *text.splitlines()[-12:]]
        problems += [f"after '{line.strip().splitlines()[0]}': {change}" for change in machine.settle(alive, 2)]
        if problems:
            break
    problems += machine.settle(before, ignore=STAYS) if status == 0 else []
    tap.ok(not problems, f"{name}, as {user.name}: the machine is as before", *problems)
    if problems:
        user.clean()


def reason_to_skip(user, name):
    if "mkfs" in name and user.uid != 0:
        return "user: a file system of its own needs root"
    if "mmdebstrap" in name and user.uid != 0:
        return "user: without privilege it makes its own user namespace, where the host's mounts can't be changed"
    if "mmdebstrap" in name and not shutil.which("mmdebstrap"):
        return "mmdebstrap is missing"
    if ("slirp" in name or "stays" in name) and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "kernel: no /dev/net/tun"
    return None


def one_user(tap, work, uid):
    user = User(work, uid)
    model = user.start_model()
    wanted = sys.argv[1:]
    try:
        user.run("caisson run -- true") # what a state directory keeps is there from now on
        for name, lines in SCENARIOS.items():
            if wanted and not any(word in name for word in wanted):
                continue
            why = reason_to_skip(user, name)
            if why:
                tap.skip(f"{name}, as {user.name}", why)
                continue
            try:
                play(tap, user, name, lines)
            except Exception: # noqa: BLE001 whatever it was, the others go on
                tap.ok(False, f"{name}, as {user.name}", traceback.format_exc())
    finally:
        user.clean()
        model.stdin.close()
        model.wait()


def as_on_debian_13(tap, work):
    """There /tmp is a file system of its own, and slirp4netns mounts another one over it."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp"], check=True)
    try:
        user = User(work, 0)
        play(tap, user, "run --net outbound, with a /tmp of its own", SCENARIOS["run --net outbound (slirp4netns)"])
        user.clean()
    finally:
        subprocess.run(["umount", "-l", "/tmp"], check=False)


def main():
    is_root = os.geteuid() == 0
    if is_root and "CSN_SHARED_MOUNTS" not in os.environ:
        enter_shared_mounts()
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        print("Bail out! no subreaper")
        return 1
    tap = Tap()
    work = pathlib.Path(tempfile.mkdtemp(prefix="csn-host-", dir="/var/tmp"))
    work.chmod(0o711) # nobody's programs and home are in it
    try:
        prepare(work)
        for uid in (0, NOBODY) if is_root else (os.geteuid(),):
            one_user(tap, work, uid)
        if is_root and not sys.argv[1:]:
            shutil.rmtree(work / "home-0")
            as_on_debian_13(tap, work)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", work], check=False)
    print(f"1..{tap.n}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
