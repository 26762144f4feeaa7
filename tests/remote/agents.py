#!/usr/bin/env python3
"""interp, rlm, smoke, session and blocks in both backends, from one table: same output, same status, same words."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remote import CAISSON, bound, caisson, environment, left, lib  # noqa: E402

MODEL = """p=$(cat)
case "$p" in
*"Task: leaf"*) echo 'SUBMIT(answer="leaf" + str(get_workspace_context()["depth"]) + context[:3])';;
*"Task: top"*) echo 'print("on the way")
SUBMIT(answer=sub_rlm("leaf", "abcdef") + "/" + llm_query("q") + context[-3:])';;
*"Task: never"*) echo 'print(1)';;
*) printf said;;
esac
"""

# name: (files, commands; each a list of arguments). The commands of a case run one after another.
CASES = {
    "values": ({}, [["interp", "-c", "x = 2", "-c", 'print("working"); SUBMIT(answer=x + 40, status="ok")']]),
    "every kind of value": ({}, [["interp", "-c", "SUBMIT(a=10**40, b=float('nan'), c='ü☃', d=None, e=[1, (2,)], f={'k': True})"]]),
    "streams": ({}, [["interp", "-c", "import os, sys\nprint('o')\nprint('e', file=sys.stderr)\nos.system('echo c; echo d >&2')"]]),
    "bytes": ({}, [["interp", "-c", "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 1000)"]]),
    "marks": ({}, [["interp", "-c", "print('\\1\\1\\1x\\2\\2\\2y\\0')"]]),
    "an error": ({}, [["interp", "-c", "def f():\n    return 1/0\nf()"], ["interp", "-c", "x = ("]]),
    "json": ({}, [["interp", "--json", "-c", "print(1)\nSUBMIT(2)", "-c", "1/0"]]),
    "json of an error": ({}, [["interp", "--json", "-c", "raise KeyError('k')"]]),
    "buffers": ({}, [["interp", "-c", 'add_buffer("f", "1")\nadd_buffer("f", "2")\nSUBMIT(step="c")',
                      "-c", 'items = get_buffer("f")\nSUBMIT(count=len(items), items=items)']]),
    "fields": ({}, [["interp", "--field", "a", "--field", "b:int", "-c", "SUBMIT(a=1)"],
                    ["interp", "--field", "a", "-c", "SUBMIT(3)"]]),
    "variables": ({}, [["interp", "--vars", '{"n": 12345678901234567890123, "t": "ü"}', "-c", "SUBMIT(n + 1, t)"]]),
    "files": ({"one.py": "y = 5\n", "two.py": "SUBMIT(y)\n"}, [["interp", "-f", "one.py", "-f", "two.py"]]),
    "environment": ({}, [["interp", "-e", "MINE=it's $x", "-c", "import os\nSUBMIT(os.environ['MINE'], os.getcwd(), REPO_PATH)"]]),
    "a limit": ({}, [["interp", "--execute-timeout", "1s", "-c", "x = 1", "-c", "while True: pass"]]),
    "a limit that is ignored": ({}, [["interp", "--execute-timeout", "1s", "-c",
                                      "import signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass"]]),
    "a dead process": ({}, [["interp", "-c", "import os\nos._exit(3)"]]),
    "a model": ({}, [["interp", "--llm-cmd", "tr a-z A-Z", "-c", 'SUBMIT(llm_query("anybody?"), llm_query_batched(["a", "b"]))'],
                     ["interp", "--llm-cmd", "echo no >&2; exit 3", "-c", 'llm_query("x")'],
                     ["interp", "--llm-cmd", "cat", "--max-llm-calls", "1", "-c", 'llm_query("a")\nllm_query("b")']]),
    "context": ({"notes.txt": "kept\n"}, [["interp", "--context", "notes.txt", "-c",
                                           "s = context['context_sources'][0]\nSUBMIT(open(s['staged_path']).read(), s['file_count'])"],
                                          ["interp", "--context", "none.txt", "-c", "1"]]),
    "a repository": ({}, [["interp", "--repo", "repo", "-c", "SUBMIT(open('README.md').read(), REPO_PATH)"],
                          ["interp", "--repo", "repo", "--ref", "feature/x/tree", "-c", "SUBMIT(open('README.md').read())"],
                          ["interp", "--repo", "repo", "--ref", "none", "-c", "1"]]),
    "large values": ({}, [["interp", "-c", "v = 'x' * 20000000", "-c", "SUBMIT(len(v), v[:3000000])"]]),
    "a loop": ({"model.sh": MODEL, "in.txt": "some text"},
               [["rlm", "-q", "--llm-cmd", "sh model.sh", "--input", "in.txt", "top"],
                ["rlm", "-q", "--json", "--llm-cmd", "sh model.sh", "--child-isolation", "context", "--input", "in.txt", "top"],
                ["rlm", "-q", "--llm-cmd", "sh model.sh", "--max-iterations", "2", "never"]]),
    "smoke": ({}, [["smoke", "--repo", "repo"], ["smoke", "--repo", "repo", "--ref", "none"], ["smoke", "--repo", "nowhere"]]),
    "sessions": ({}, [["interp", "--session", "s", "-c", "x = 41"], ["interp", "--session", "s", "-c", "x += 1; SUBMIT(x)"],
                      ["session", "ls", "-q"], ["session", "export", "s"], ["session", "rm", "s"], ["session", "rm", "s"],
                      ["session", "rm", "-f", "s"], ["session", "ls"]]),
    "a session and its time": ({}, [["interp", "--session", "t", "-c", "x = 1"],
                                    ["interp", "--session", "t", "--execute-timeout", "1s", "-c",
                                     "import signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass"],
                                    ["interp", "--session", "t", "-c", "SUBMIT('x' in globals())"], ["session", "rm", "t"]]),
    "blocks": ({"n.md": "```python\nopen('g', 'w').write('hello')\nprint('written')\n```\nthen\n```bash\ncat g\n```\n"},
               [["blocks", "n.md"], ["blocks", "--reply", "n.md"]]),
    "blocks that fail": ({}, [["blocks", "--lang", "py", "--code", "print(1)\n1/0", "--lang", "sh", "--code", "echo never"],
                              ["blocks", "--reply", "--lang", "sh", "--code", "echo no; exit 3"],
                              ["blocks", "--lang", "bash", "--code", "exit 127"],
                              ["blocks", "--lang", "rust", "--code", "fn main() {}"],
                              ["blocks", "--lang", "python", "--code", ""],
                              ["blocks", "--timeout=-5", "--lang", "sh", "--code", "true"]]),
    "a block's stdin": ({}, [["blocks", "--lang", "python", "--code",
                              "import sys\nprint(sys.argv, repr(sys.stdin.read()))\ninput()"],
                             ["blocks", "--lang", "sh", "--code", "cat; ls -a /tmp | grep -c py"]]),
    "a block without a program": ({}, [["blocks", "-e", "PATH=/nowhere", "--lang", "bash", "--code", "echo hi"],
                                       ["blocks", "-e", "PATH=/nowhere", "--lang", "python", "--code", "print(1)"]]),
    "a block's language": ({"m.md": "```\nprint('told')\n```\n```\nno python at all\n```\n"}, [["blocks", "--extract-only", "m.md"]]),
    "a block without end": ({}, [["blocks", "--timeout", "1", "--lang", "sh", "--code", "sleep 60"]]),
    "a block's daemon": ({}, [["blocks", "--lang", "sh", "--code", "sleep 600 &\necho $! > pid",
                               "--lang", "sh", "--code", "kill -0 $(cat pid) && echo lives"]]),
    "a snapshot that is not there": ({}, [["blocks", "--snapshot", "none-such", "--lang", "sh", "--code", "true"]]),
}


def same_words(data):
    """Without ids and times, which are each run's own, and without what to do about it, which is each place's."""
    text = data.decode("utf-8", "surrogateescape")
    text = re.sub(r"^  try: .*\n", "", text, flags=re.M)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b", "ID", text)
    text = re.sub(r"ag2_[0-9a-f]{32}", "FILE", text)
    text = re.sub(r'("(?:duration_ms|seconds|context_id)": )("?)[0-9.]+', r"\1\2N", text)
    text = re.sub(r'("(?:config|sandbox_create|repo_clone|driver_start|exec_step_.|cleanup|context_stage)": )\d+', r"\1N", text)
    return re.sub(r"(line \d+, in .*: line |File \")[^\"]*", r"\1", text)


def make_repository(work):
    repo = work / "repo"
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    repo.mkdir()
    for command in (["init", "-q", "-b", "main"], None, ["add", "."], ["commit", "-q", "-m", "one"],
                    ["checkout", "-q", "-b", "feature/x"], None, ["commit", "-q", "-a", "-m", "two"], ["checkout", "-q", "main"]):
        if command:
            subprocess.run(git + command, check=True)
        else:
            (repo / "README.md").write_text("one\n" if not (repo / "README.md").exists() else "two\n")


def here_as_there(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key(), CAISSON_STATE=str(work / "own"))
    make_repository(work)
    for name, (files, commands) in CASES.items():
        ran = {}
        for file, text in files.items():
            (work / file).write_text(text)
        for backend in ("local", "daytona"):
            ran[backend] = []
            for command in commands:
                done = caisson(*command[:2] if command[0] == "session" else command[:1], "--backend", backend,
                               *(command[2:] if command[0] == "session" else command[1:]), env=env, cwd=work)
                ran[backend].append((done.returncode, same_words(done.stdout), same_words(done.stderr)))
        lib.equal(ran["daytona"], ran["local"], f"{name}: daytona as local")
    lib.equal(left(server), [], "nothing is left there")


def a_session_outlives_a_killed_program(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key(), CAISSON_STATE=str(work / "own"))
    caisson("interp", "--daytona", "--session", "k", "-c", "x = 7", env=env, cwd=work)
    child = subprocess.Popen([CAISSON, "interp", "--daytona", "--session", "k", "-c", "print('in', flush=True)\nwhile True: pass"],
                             env=env, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    lib.equal(child.stdout.readline(), b"in\n", "a session: its code runs")
    child.kill()
    child.wait(10)
    child.stdout.close()
    done = caisson("interp", "--daytona", "--session", "k", "-c", "SUBMIT(x)", env=env, cwd=work)
    lib.equal((done.returncode, done.stdout), (0, b'{"output":7}\n'), "… after a kill -9 the next program finds it")
    lib.equal(len(left(server)), 1, "… in its sandbox")
    lib.equal(caisson("session", "rm", "--daytona", "k", env=env, cwd=work).returncode, 0, "… which goes with it")
    lib.equal(left(server), [], "… and nothing is left")


def a_session_is_for_one_at_a_time(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key(), CAISSON_STATE=str(work / "own"))
    caisson("interp", "--daytona", "--session", "w", "-c", "log = []", env=env, cwd=work)
    code = "import time\nlog.append('{0}1')\ntime.sleep(0.3)\nlog.append('{0}2')"
    children = [subprocess.Popen([CAISSON, "interp", "--daytona", "--session", "w", "-c", code.format(who)], env=env, cwd=work,
                                 stdin=subprocess.DEVNULL) for who in "ab"]
    lib.equal([child.wait(60) for child in children], [0, 0], "two programs, one session: both come to their turn")
    done = caisson("interp", "--daytona", "--session", "w", "-c", "SUBMIT([l[0] for l in log])", env=env, cwd=work)
    lib.ok(json.loads(done.stdout)["output"] in (list("aabb"), list("bbaa")), "… one after the other", done.stdout)
    caisson("session", "rm", "--daytona", "w", env=env, cwd=work)


def a_killed_client_leaves_nothing(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key(), CAISSON_STATE=str(work / "own"))
    (work / "hang.sh").write_text('case "$(cat)" in *"Task: hang"*) echo "import time; time.sleep(600)";; *) '
                                  "echo 'sub_rlm(\"hang\")';; esac\n")
    commands = {
        "interp": ["interp", "--daytona", "-c", "import time; time.sleep(600)"],
        "rlm with a child": ["rlm", "--daytona", "--llm-cmd", "sh hang.sh", "go"],
        "blocks": ["blocks", "--daytona", "--lang", "sh", "--code", "sleep 600"],
    }
    for name, command in commands.items():
        for n in range(4):
            child = subprocess.Popen([CAISSON, *command], env=env, cwd=work, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            came = lib.until(lambda: len(left(server)) > (name != "blocks" and n > 1 and "child" in name), 30)
            time.sleep(0.1 * n)  # the moment is what is tried
            child.kill()
            child.wait(10)
            if not came or not lib.until(lambda: not left(server), 60):
                break
        lib.equal((came, left(server)), (True, []), f"kill -9 of {name}: nothing is left there")


TESTS = [here_as_there, a_session_outlives_a_killed_program, a_session_is_for_one_at_a_time, a_killed_client_leaves_nothing]

if __name__ == "__main__":
    with lib.Work() as directory:
        its_server = lib.Server(directory).start()
        lib.main(bound(TESTS, pathlib.Path(directory), its_server))
