#!/usr/bin/env python3
"""candidate and arena in both backends, from one table: same result, same artifacts, same words."""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remote import CAISSON, bound, caisson, environment, left, lib, words  # noqa: E402

SAY = 'import sys\nprint("hello", sys.argv[1])\nopen(sys.argv[2], "w").write("# for " + sys.argv[1] + "\\n")\n'
ECHO = 'import os, sys\nopen(sys.argv[2], "wb").write(os.fsencode(sys.argv[1]))\n'

# name: (script, objective, options). Everything a user could notice must be the same on both.
CANDIDATES = {
    "good.py": (SAY, "it's here", []),
    "quotes.py": (ECHO, "'; rm -rf / $(id) `id` \"x\" \\ \\n $HOME\n\ttab 'end", []),
    "dashes.py": (ECHO, "--help -- -c", []),
    "unicode.py": (ECHO, "grüße ☃ \U0001f980", []),
    "long.py": (ECHO, "q'" * 65535, []),
    "fails.py": ("import sys\nopen(sys.argv[2], 'w').write('why')\nprint('out')\nprint('err', file=sys.stderr)\n"
                 "sys.exit(3)\n", "x", []),
    "crashes.py": ("print('before', flush=True)\n1/0\n", "x", []),
    "nothing.py": ("print('no artifact')\n", "x", []),
    "empty.py": ("import sys\nopen(sys.argv[2], 'w').close()\n", "x", []),
    "bytes.py": ("import sys\nopen(sys.argv[2], 'wb').write(bytes(range(256)) * 300)\n", "x", []),
    "killed.py": ("import os\nprint('soon', flush=True)\nos.kill(os.getpid(), 9)\n", "x", []),
    "segv.py": ("import os\nos.kill(os.getpid(), 11)\n", "x", []),
    "nul.py": ("import sys\nsys.stdout.write('a\\0b\\n')\nopen(sys.argv[2], 'w').write('x')\n", "x", []),
    "stdin.py": ("import sys\nopen(sys.argv[2], 'w').write(repr(sys.stdin.read()))\n", "x", []),
    "arguments.py": ("import os, sys\nopen(sys.argv[2], 'w').write(repr((len(sys.argv), sys.argv[0], os.getcwd())))\n",
                     "x", []),
    "env.py": ("import os, sys\nopen(sys.argv[2], 'w').write(' '.join(os.environ[k] for k in "
               "('HOME', 'LANG', 'TMPDIR', 'PYTHONUNBUFFERED', 'MINE')))\n", "x", ["-e", "MINE=it's $mine"]),
    "shell.sh": ('echo "$1" > "$2"\n', "a shell's", []),
    "tool": ("#!/bin/sh\necho run \"$1\" > \"$2\"\n", "x", []),
    "large.py": ("import sys\nopen(sys.argv[2], 'w').write('x' * 5000)\n", "x", ["--artifact-limit", "1k"]),
    "directory.py": ("import os, sys\nos.mkdir(sys.argv[2])\n", "x", []),
    "fifo.py": ("import os, sys\nos.mkfifo(sys.argv[2])\n", "x", []),
    "elsewhere.py": (ECHO, "there", ["--output-path", "/tmp/deep/../there.txt"]),
    "chatty.py": ("import sys\nprint('y' * 3000000)\nopen(sys.argv[2], 'w').write('x')\n", "x",
                  ["--output-limit", "1m"]),
    "setup.py": ("import sys\nopen(sys.argv[2], 'w').write(open('made').read())\n", "x",
                 ["--setup", "echo 'by setup' > made"]),
    "nosetup.py": (SAY, "x", ["--setup", "echo no; exit 7"]),
    "late.py": ("import time\ntime.sleep(60)\n", "x", ["--timeout", "1s"]),
}
SAME = ("candidate_id", "success", "output", "artifact_content", "artifact_content_base64", "error_message", "exit_code",
        "timed_out", "output_truncated", "output_bytes", "artifact_bytes", "artifact_path", "setup_output", "cancelled")


def candidates_end_alike_in_both_backends(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key(), CAISSON_STATE=str(work / "own"))
    for name, (script, objective, options) in CANDIDATES.items():
        (work / name).write_text(script)
        (work / (name + ".objective")).write_text(objective)
        ran = {}
        for backend in ("local", "daytona"):
            done = caisson("candidate", name, "--id", "one", "-o", f"@{name}.objective", "--json", *options,
                           *(["--daytona"] if backend == "daytona" else []), env=env, cwd=work)
            try:
                result = json.loads(done.stdout)
            except ValueError:
                result = {"candidate_id": done.stdout}
            ran[backend] = (done.returncode, {k: result.get(k) for k in SAME}, words(done.stderr))
        lib.equal(ran["daytona"], ran["local"], f"candidate {name}: daytona as local")


def lines_of(log, name):
    """The candidate's block: its name, and the indented lines below it."""
    lines = words(log).splitlines()
    at = lines.index(f"[{name}]")
    return list(itertools.takewhile(lambda line: line.startswith("  "), lines[at + 1:]))


def an_arena_has_the_same_winner_and_artifacts(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key(), CAISSON_STATE=str(work / "own"))
    source = pathlib.Path(os.environ["CSN_SOURCE"], "examples", "arena", "candidates.json")
    ran, said = {}, {}
    for backend in ("local", "daytona"):
        done = caisson("arena", "--candidates", source, "--artifacts", work / backend, "--plain",
                       *(["--daytona"] if backend == "daytona" else []), env=env, cwd=work)
        result = json.loads((work / backend / "results.json").read_bytes())
        files = {p.relative_to(work / backend).as_posix(): p.read_bytes()
                 for p in sorted((work / backend).rglob("*")) if p.is_file() and p.name != "results.json"}
        ran[backend] = (done.returncode, result["winner_id"], files,
                        [s["quality_score"] for s in result["scores"]], [s["success"] for s in result["scores"]])
        said[backend] = done.stdout
        lib.equal((result["execution_mode"], result["fell_back"]), (backend, False), f"arena: mode {backend}")
    lib.equal(ran["daytona"], ran["local"], "arena: the same winner, artifacts and scores")
    for name in ("Alpha", "Beta", "Gamma", "Delta", "Epsilon"):
        lib.equal(lines_of(said["daytona"], name), lines_of(said["local"], name), f"arena: the words of {name}")
        lib.ok(len(lines_of(said["local"], name)) >= 8, f"arena: … of {name} are whole", said["local"])
    lib.has(said["daytona"].decode(), "\nExecution: DAYTONA\n", "arena: the banner says where")
    lib.has(said["local"].decode(), "\nExecution: LOCAL\n", "arena: … and here")


def a_scorer_judges_there_too(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key())
    (work / "judge.py").write_text("import json, sys\nprint('a warning', file=sys.stderr)\n"
                                   "print(json.dumps({'quality': len(open(sys.argv[1]).read())}))\n")
    done = caisson("arena", "-c", "a=good.py", "objective of some length", "--scorer", "judge.py", "--daytona",
                   "--artifacts", work / "judged", "--json", env=env, cwd=work)
    result = json.loads(done.stdout or b"{}")
    lib.equal([s["quality_score"] for s in result.get("scores", [])], [31.0], "arena: a scorer's verdict")


def trials_say_what_is_not_known(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key())
    done = caisson("arena", "-c", "a=good.py", "objective", "--daytona", "--trials", "3", "--artifacts", work / "trials",
                   "--report", "t.html", "--report", "t.md", env=env, cwd=work)
    result = json.loads((work / "trials" / "results.json").read_bytes())
    lib.equal(done.returncode, 0, "trials: they run")
    lib.equal(result["candidates"][0]["receipt"]["peak_memory_bytes"], None, "trials: memory is not known, and said so")
    lib.equal(result["candidates"][0]["receipt"]["limits"]["rung"], "remote", "trials: … by the receipt's rung")
    lib.ok("nan" not in (work / "t.html").read_text() + (work / "t.md").read_text() + done.stdout.decode(),
           "trials: no number that is none")


def what_can_not_be_had_says_why(work, server):
    url = f"http://127.0.0.1:{server.port}/api"
    cases = {
        "a wrong key": (environment(url, "dtn_wrong"), "the key is not accepted by", "HTTP 401"),
        "nobody there": (environment(f"http://127.0.0.1:{lib.free_port()}/api", "dtn_x"), "no connection to", "connect"),
        "no such host": (environment("http://no.such.host.invalid/api", "dtn_x"), "no such host", "invalid"),
        "no URL": (environment("ftp://x/api", "dtn_x"), "is no URL of a service", "ftp"),
        "no key": (environment(url), "Daytona API key not configured", "set DAYTONA_API_KEY"),
        "a placeholder": (environment(url, "your_key"), "Daytona API key not configured", "set DAYTONA_API_KEY"),
    }
    for name, (env, first, second) in cases.items():
        begun = time.monotonic()
        done = caisson("candidate", "good.py", "-o", "x", "--daytona", env=env, cwd=work)
        text = done.stderr.decode()
        lib.ok(done.returncode == 3 and first in text and second in text and time.monotonic() - begun < 30,
               f"candidate: {name} is told, status 3", done.returncode, text)
    done = caisson("arena", "-c", "a=good.py", "x", "--daytona", "--artifacts", work / "w",
                   env=environment(url, "dtn_wrong"), cwd=work)
    lib.ok(done.returncode == 3 and b"the key is not accepted" in done.stderr, "arena: a wrong key is no fallback",
           done.stdout, done.stderr)
    done = caisson("arena", "-c", "a=good.py", "an objective", "--daytona", "--artifacts", work / "w",
                   env=environment(url, CAISSON_STATE=str(work / "own")), cwd=work)
    lib.has(done.stdout.decode(), "Execution: LOCAL\n  (Daytona not configured, falling back to local)\n"
            "  (Daytona API key not configured)\n", "arena: without a key it falls back, and says so")
    lib.equal(done.returncode, 0, "arena: … and that is not its status")
    done = caisson("arena", "-c", "a=good.py", "x", "--daytona", "--memory", "2g", "--artifacts", work / "w",
                   env=environment(url, server.key()), cwd=work)
    lib.has(done.stderr.decode(), "can't limit memory", "arena: a limit that can't be passed on is refused")


def readable(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def the_key_is_nowhere_to_be_seen(work, server):
    """While a candidate runs: not in any command line, not in the helper's environment; after: not in what was written."""
    key = server.key()
    env = environment(f"http://127.0.0.1:{server.port}/api", key)
    (work / "slow.py").write_text("import sys, time\nprint(open('/proc/self/environ').read())\ntime.sleep(3)\n"
                                  "open(sys.argv[2], 'w').write('x' * 20)\n")
    child = subprocess.Popen([CAISSON, "arena", "-c", "a=slow.py", "-c", "b=no.py", "x", "--daytona", "--plain",
                              "--artifacts", str(work / "secret"), "--report", "secret.html", "--json"],
                             env=env, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    helper = lib.until(lambda: [p for p in os.listdir("/proc") if p.isdigit() and
                                readable(f"/proc/{p}/comm").strip() == b"caisson-remote"], 20)
    lib.until(lambda: left(server), 20)
    seen = [p for p in os.listdir("/proc") if p.isdigit() and key.encode() in readable(f"/proc/{p}/cmdline")]
    lib.ok(bool(helper), "the key: there is a helper to look at")
    lib.equal(seen, [], "the key: in no command line")
    lib.equal([p for p in helper if key.encode() in readable(f"/proc/{p}/environ")], [],
              "the key: not in the helper's environment")
    out, err = child.communicate(timeout=60)
    written = out + err + b"".join(p.read_bytes() for p in (work / "secret").rglob("*") if p.is_file())
    written += (work / "secret.html").read_bytes()
    lib.equal(child.returncode, 0, "the key: the run itself is fine")
    lib.ok(key.encode() not in written, "the key: in nothing that was printed or written")
    lib.ok(key not in server.logged(), "the key: not in the server's log")


def an_interrupt_leaves_nothing(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key())
    (work / "sleeper.sh").write_text("sleep 100\n")
    child = subprocess.Popen([CAISSON, "arena", "-c", "a=sleeper.sh", "-c", "b=sleeper.sh", "x", "--daytona", "--plain",
                              "--artifacts", str(work / "int")], env=env, cwd=work, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lib.until(lambda: len(left(server)) == 2, 30)
    child.send_signal(2)
    child.communicate(timeout=60)
    lib.equal(child.returncode, 130, "interrupt: exit status")
    result = json.loads((work / "int" / "results.json").read_bytes())
    lib.equal({c["error_message"] for c in result["candidates"]}, {"Cancelled"}, "interrupt: everybody is marked")
    lib.equal(left(server), [], "interrupt: nothing is left on the server")


def nothing_is_left(work, server):
    lib.equal(left(server), [], "nothing is left on the server")


TESTS = [candidates_end_alike_in_both_backends, an_arena_has_the_same_winner_and_artifacts, a_scorer_judges_there_too,
         trials_say_what_is_not_known, what_can_not_be_had_says_why, the_key_is_nowhere_to_be_seen,
         an_interrupt_leaves_nothing]
TESTS = [step for test in TESTS for step in (test, nothing_is_left)]

if __name__ == "__main__":
    with lib.Work() as directory:
        its_server = lib.Server(directory).start()

        (directory / "good.py").write_text(SAY)
        try:
            lib.main(bound(TESTS, directory, its_server))
        finally:
            its_server.stop()
