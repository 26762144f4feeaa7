#!/usr/bin/env python3
"""The command line in both backends, from one table: the same output, the same status, the same words."""
import json
import os
import re
import shlex
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remote import bound, caisson, environment, left, lib  # noqa: E402

# Each row is a story: commands one after another, in the directory of the test. "BOX" is a sandbox that the story makes.
# "where" stands for the backend's option; "here" begins a command of this machine. A line that begins with "~" ends alike, but a service has words of its own for why.
STORIES = {
    "a file": ["run where hello.py a 'b c'"],
    "a command": ["run where -- echo one two"],
    "a status": ["run where -- sh -c 'echo before; exit 7'"],
    "both streams in one": ["run where --merge -- sh -c 'echo out; echo err >&2; echo out'"],
    "no stdin": ["run where -- cat"],
    "words": ["run where -- printf '%s.' '' 'a b' '$HOME' \"it's\" '--help' '*'"],
    "the environment": ["run where -e A=1 -e 'B=x y' -- sh -c 'echo $A.$B.$HOME.$PWD'"],
    "a directory": ["run where --cwd /tmp -- pwd"],
    "a time limit": ["run where --timeout 1s -- sleep 60"],
    "quiet": ["run where -q -- sh -c 'exit 3'"],
    "a document": ["run where --json --merge -- sh -c 'echo text; exit 5'"],
    "nothing to run": ["run where"],
    "two that exclude each other": ["run where --keep --rm -- true"],
    "a life": ["create where BOX", "exec where BOX -- sh -c 'echo kept > file'", "exec where BOX cat file",
               "ls where --names", "rm where BOX", "ls where --names"],
    "a life as documents": ["create where --json --label a=b BOX", "ls where --json", "inspect where --json BOX",
                            "rm where -q BOX"],
    "the same name twice": ["create where -q BOX", "~create where -q BOX", "rm where BOX"],
    "one that isn't there": ["~exec where nobody true", "~rm where nobody", "rm where -f nobody", "~inspect where nobody"],
    "one that stays": ["run where -q --keep --name BOX -- sh -c 'echo here > note'", "exec where BOX cat note",
                       "rm where BOX"],
    "an exec's own": ["create where -q -e A=box BOX", "exec where -e B=exec -w /tmp BOX -- sh -c 'echo $A $B $PWD; exit 9'",
                      "rm where BOX"],
    "all of them": ["create where -q BOX", "rm where --all -q", "ls where -q"],
    "a file in and out": ["create where -q BOX", "cp where hello.py BOX:", "exec where BOX python3 hello.py in",
                          "exec where BOX sh -c 'echo out > out; chmod 640 out'", "cp where BOX:out got", "here cat got",
                          "cp where BOX:out -", "~cp where BOX:none got", "here cat got", "~cp where none BOX:", "rm where BOX"],
    "a tree in and out": ["create where -q BOX", "here sh -c 'mkdir -p tree/sub; echo a > tree/a; echo b > tree/sub/b'",
                          "here ln -sfn sub tree/way", "here ln -sfn tree tree/round", "cp where tree BOX:",
                          "exec where BOX sh -c 'cd tree && find . | sort && cat way/b && readlink round'",
                          "exec where BOX mkfifo tree/pipe", "cp where BOX:tree back", "here sh -c 'cd back && find . | sort'",
                          "here readlink back/round", "here rm -r back tree", "rm where BOX"],
    "a volume": ["volume create where BOX", "~volume create where BOX", "volume ls where --json",
                 "volume inspect where --json BOX", "run where -q -v BOX:/data -- sh -c 'echo kept > /data/f; mkdir /data/d'",
                 "run where -q -v BOX/d:/data -- sh -c 'echo deep > /data/g'", "run where -q -v BOX:/home/daytona/v -- cat v/f v/d/g",
                 "volume tree where BOX", "volume cat where BOX f", "create where -q -v BOX:/data BOX", "~volume rm where BOX",
                 "rm where BOX", "volume rm where BOX", "~volume rm where BOX", "volume rm where -f BOX",
                 "volume inspect where BOX", "volume ls where -q", "~run where -q -v none:/data -- true"],
    "an image": ["create where -q BOX", "exec where BOX sh -c 'echo of an image > note'", "snapshot where BOX BOX",
                 "rm where BOX", "image inspect where --json BOX", "run where -q --image BOX -- cat note", "image rm where BOX",
                 "image rm where BOX", "image rm where -f BOX", "image inspect where BOX"],
    "in the background": ["create where -q BOX", "exec where -d BOX sh -c 'echo out; echo err >&2; read x; exit 3'",
                          "logs where -f BOX", "logs where --stream stderr -f BOX 1", "logs where --offset 2 BOX 1", "logs where BOX",
                          "~logs where BOX 7", "~exec where -d BOX none-such", "logs where -f BOX", "rm where BOX"],
    "in the background for long": ["create where -q BOX", "exec where -d BOX sh -c 'seq 200000; sleep 100'",
                                   "exec where BOX sh -c 'until pgrep -x sleep >/dev/null; do sleep 0.1; done'",
                                   "logs where BOX", "exec where BOX pkill -x sleep", "logs where -f --offset 1288000 BOX",
                                   "run where -q -d --name BOXb -- sh -c 'echo $0 here'", "logs where -f BOXb", "rm where BOX BOXb"],
    "a limit in the background": ["create where -q BOX", "exec where -q -d --timeout 1s BOX sh -c 'echo begun; sleep 100; echo never'",
                                  "logs where -f BOX", "rm where BOX"],
    "a terminal": ["create where -q BOX", "exec where -t BOX sh -c 'test -t 0 && test -t 1 && stty size; echo $A; pwd; exit 4'",
                   "exec where -t -e A=b -e 'B=$x \"q\"' -w /tmp BOX sh -c 'echo \"$A $B\"; pwd'",
                   "~exec where -t BOX none-such", "exec where -t --timeout 1s BOX sleep 100",
                   "exec where -t BOX sh -c 'kill -9 $$'", "exec where -t BOX env -i /bin/echo ok", "rm where BOX"],
    "nothing to sweep": ["gc where", "gc where --json"],
}
SAME_OF_A_BOX = ("name", "state", "image", "user", "network", "ephemeral", "labels")
SAME_OF_AN_IMAGE = ("name", "source", "cwd", "entrypoint", "cmd", "user", "env")
SAME_OF_A_RUN = ("status", "stdout", "stderr", "output")


def documents(text):
    """What both backends must say of the same thing; None: no document."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    boxes = found if isinstance(found, list) else [found]
    if not all(isinstance(box, dict) for box in boxes):
        return None
    for box in boxes:
        box["labels"] = {k: v for k, v in box.get("labels", {}).items() if not k.startswith("caisson.")}
    if boxes and "source" in boxes[0]:
        return [{k: box.get(k) for k in SAME_OF_AN_IMAGE} for box in boxes]
    if boxes and "users" in boxes[0]:
        return [box["name"] for box in boxes]
    same = SAME_OF_A_RUN if boxes and "receipt" in boxes[0] and "status" in boxes[0] else SAME_OF_A_BOX
    return [{k: box.get(k) for k in same} for box in boxes] if "removed" not in str(text) else found


def words_of(done, has_own_words):
    out = done.stdout.decode(errors="replace")
    shown = documents(out)
    ids = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
    return (done.returncode, shown if shown is not None else ids.sub("ID", out),
            bool(done.stderr) if has_own_words else
            ids.sub("ID", done.stderr.decode(errors="replace")).replace(" ls --daytona\n", " ls\n"))


def split(line, backend, box):
    words = [re.sub("^BOX(?=$|[:/b])", box, word) for word in shlex.split(line.lstrip("~"))]
    at = words.index("where")
    return words[:at] + (["--daytona"] if backend == "daytona" else []) + words[at + 1:]


def do(line, backend, box, env, work):
    """A command of ours; "here …" is one of this machine's own."""
    if line.startswith("here "):
        return subprocess.run(shlex.split(line[5:]), cwd=work, capture_output=True, timeout=60, check=False)
    return caisson(*split(line, backend, box), env=env, cwd=work)


def service(server, work, **more):
    return environment(f"http://127.0.0.1:{server.port}/api", server.key(), CAISSON_STATE=str(work / "own"), **more)


ONLY = os.environ.get("CSN_STORY", "") # of these names, for whoever works on one


def every_story_ends_alike_in_both_backends(work, server):
    (work / "hello.py").write_text("import sys\nprint('hello', sys.argv[1:])\n")
    env = service(server, work)
    for number, (name, lines) in enumerate(STORIES.items()):
        if ONLY not in name:
            continue
        told = {}
        for backend in ("local", "daytona"):
            told[backend] = [words_of(do(line, backend, f"box{number}", env, work), line.startswith("~"))
                             for line in lines]
        lib.equal(told["daytona"], told["local"], f"{name}: daytona as local")
        lib.equal(left(server), [], f"{name}: nothing is left")


# One of each command that has sandboxes, without what it works on: the door comes first.
DOORS = ["run -- true", "create", "exec x true", "ls", "inspect x", "logs x", "stats", "cp x:a b", "start x", "stop x",
         "rm x", "fork x", "snapshot x y", "image ls", "image inspect x", "image rm x", "image import x .", "volume ls",
         "volume create x", "volume rm x", "gc"]


def each_command_says_why_there_is_no_service(work, server):
    url = f"http://127.0.0.1:{server.port}/api"
    cases = {
        "no key": (environment(url), "Daytona API key not configured\n  try: set DAYTONA_API_KEY"),
        "no helper": (environment(url, "dtn_x", CAISSON_LIBEXEC="/nonexistent"),
                      "Daytona backend not available in this build\n  try: "),
        "no URL": (environment("ftp://x/api", "dtn_x"), "'ftp://x/api' is no URL of a service"),
    }
    for line in DOORS:
        for name, (env, wanted) in cases.items():
            at = 2 if line.split()[0] in ("image", "volume") else 1
            done = caisson(*line.split()[:at], "--daytona", *line.split()[at:],
                           env={**env, "CAISSON_STATE": str(work / "own")}, cwd=work)
            lib.ok(done.returncode == 125 and wanted in done.stderr.decode() and done.stdout == b"",
                   f"{line}: {name} is told", done.returncode, done.stderr.decode())
    for name, env, wanted in (
            ("a wrong key", environment(url, "dtn_wrong"), "the key is not accepted by '.*' .HTTP 401.*\n  try: check DAYTONA_API_KEY"),
            ("nobody there", environment(f"http://127.0.0.1:{lib.free_port()}/api", "dtn_x"),
             "no connection to .*\n  try: check DAYTONA_API_URL"),
            ("no such host", environment("http://no.such.host.invalid/api", "dtn_x"),
             "no such host: .*\n  try: check DAYTONA_API_URL")):
        for line in (["ls"], ["run", "--", "true"], ["rm", "x"], ["gc"]):
            begun = time.monotonic()
            done = caisson(line[0], "--daytona", *line[1:], env=env, cwd=work)
            lib.ok(done.returncode == 125 and re.search(wanted, done.stderr.decode()) and
                   time.monotonic() - begun < 40, f"{line[0]}: {name} is told", done.returncode, done.stderr)


def what_only_this_machine_has_is_refused(work, server):
    env = service(server, work)
    for line in ("run --strict all", "run --optional landlock", "run --pids 9", "create --ptrace x", "create --inodes 99",
                 "run --tmp-size 1m", "run --shm-size 1m", "shell --open-files 99", "blocks --optional keeper",
                 "arena --pids 9"):
        verb, option, *value = line.split()
        done = caisson(verb, option, *value, "--daytona", env=env, cwd=work)
        lib.ok(done.returncode in (2, 125) and f"caisson: {verb}: {option} is for sandboxes of this machine" in
               done.stderr.decode(), f"{line}: refused by name", done.returncode, done.stderr)
    done = caisson("run", "--daytona", "--memory", "2g", "--", "true", env=env, cwd=work)
    lib.has(done.stderr.decode(), "can't limit memory", "run --memory: refused by the backend")
    lib.equal(left(server), [], "refusals: nothing was made")


def settings_come_in_their_order(work, server):
    """Flag, variable; and for the service's own: the environment, .env.local, .env, or the file named."""
    url, key, here = f"http://127.0.0.1:{server.port}/api", server.key(), work / "settings"
    here.mkdir()
    bare = environment(CAISSON_STATE=str(work / "own"))

    def where(env, *options):
        done = caisson("run", *options, "--json", "--", "true", env=env, cwd=here)
        if done.returncode:
            return done.stderr.decode()
        return "daytona" if json.loads(done.stdout)["receipt"]["limits"]["rung"] == "remote" else "local"

    full = {**bare, "DAYTONA_API_URL": url, "DAYTONA_API_KEY": key}
    lib.equal(where(full), "local", "settings: a key alone changes nothing")
    lib.equal(where({**full, "CAISSON_BACKEND": "daytona"}), "daytona", "settings: CAISSON_BACKEND")
    lib.equal(where({**full, "CAISSON_BACKEND": "daytona"}, "--backend", "local"), "local", "settings: a flag before it")
    lib.equal(where(full, "--backend=daytona"), "daytona", "settings: --backend")
    (here / ".env").write_text(f"export DAYTONA_API_URL='{url}/' # ours\nDAYTONA_API_KEY=\"{key}\"\nCAISSON_BACKEND=daytona\n")
    lib.equal(where(bare, "--daytona"), "daytona", "settings: .env")
    lib.equal(where(bare), "local", "settings: a file never chooses the backend")
    (here / ".env.local").write_text("DAYTONA_API_KEY=dtn_wrong\n")
    lib.has(where(bare, "--daytona"), "the key is not accepted", "settings: .env.local comes before .env")
    lib.equal(where({**bare, "DAYTONA_API_KEY": key}, "--daytona"), "daytona", "settings: the environment comes first")
    (here / ".env.local").write_text("DAYTONA_API_KEY=your_key_here\n")
    lib.has(where(bare, "--daytona"), "API key not configured", "settings: a sample's key is none")
    (here / "named").write_text(f"DAYTONA_BASE_URL={url}\nDAYTONA_API_KEY={key}\n")
    lib.equal(where(bare, "--daytona", "--daytona-env", "named"), "daytona", "settings: a file by name")
    lib.has(where(bare, "--daytona", "--daytona-env", "missing"), "'missing'", "settings: which must be there")
    lib.has(where({**bare, "DAYTONA_API_BASE_URL": url}, "--daytona", "--daytona-env", "/dev/null"),
            "rename it to DAYTONA_API_URL", "settings: a name that is often mistaken")
    lib.equal(left(server), [], "settings: nothing is left")


TESTS = [every_story_ends_alike_in_both_backends, each_command_says_why_there_is_no_service,
         what_only_this_machine_has_is_refused, settings_come_in_their_order]

if __name__ == "__main__":
    with lib.Work() as directory:
        its_server = lib.Server(directory).start()
        try:
            lib.main(bound(TESTS, directory, its_server))
        finally:
            its_server.stop()
