#!/usr/bin/env python3
"""Runs the examples of the papers and compares what they print.

A fenced block that begins with "```sh test" is run by bash, with the built program first in PATH, in a fresh directory
and with a state directory of its own. Directly after it may follow "```text output" (all of stdout) and "```text stderr"
(lines that must appear on stderr, in this order). "…" in a line stands for any text. "```sh test net" needs the network and
is skipped unless CSN_NET=1. Reports in TAP.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(.*)$")
TIMEOUT_S = 120


def blocks(path):
    """(line number, info string, text) of every fenced block."""
    info, start, lines = None, 0, []
    for number, line in enumerate(path.read_text().split("\n"), 1):
        fence = FENCE.match(line)
        if fence and info is None:
            info, start, lines = fence.group(1).strip(), number, []
        elif fence:
            yield start, info, "\n".join(lines)
            info = None
        elif info is not None:
            lines.append(line)


def examples(path):
    """(line number, words of the info string, script, output or None, stderr or None)."""
    current = None
    for number, info, text in blocks(path):
        if info.startswith("sh test"):
            if current:
                yield current
            current = [number, info.split()[2:], text, None, None]
        elif current and info == "text output":
            current[3] = text
        elif current and info == "text stderr":
            current[4] = text
        elif current:
            yield current
            current = None
    if current:
        yield current


def fits(pattern, line):
    parts = [re.escape(part) for part in pattern.split("…")]
    return re.fullmatch(".*".join(parts), line) is not None


def difference(wanted, got):
    wanted, got = wanted.split("\n"), got.rstrip("\n").split("\n")
    for i in range(max(len(wanted), len(got))):
        w = wanted[i] if i < len(wanted) else None
        g = got[i] if i < len(got) else None
        if w is None or g is None or not fits(w, g):
            return f"line {i + 1}: wanted {w!r}, got {g!r}"
    return None


def missing_line(wanted, got):
    lines = iter(got.split("\n"))
    for pattern in wanted.split("\n"):
        if not any(fits(pattern, line) for line in lines):
            return f"stderr lacks {pattern!r}; it was {got!r}"
    return None


def run(script, build):
    where = tempfile.mkdtemp(prefix="csn-docs.")
    env = {
        "PATH": f"{build}:{os.environ['PATH']}",
        "HOME": where,
        "CAISSON_STATE": os.path.join(where, "state"),
        "LANG": "C.UTF-8",
    }
    work = os.path.join(where, "work")
    os.mkdir(work)
    child = subprocess.Popen(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=work, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = child.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        err += b"\n(killed: it took too long)"
    subprocess.run([f"{build}/caisson", "rm", "--all", "-q"], env=env, check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    in_memory = os.path.join(where, "state", "run")
    if os.path.islink(in_memory):
        shutil.rmtree(os.readlink(in_memory), ignore_errors=True)
    shutil.rmtree(where, ignore_errors=True)
    return child.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def check(example, build):
    _, _, script, output, stderr = example
    status, out, err = run(script, build)
    if status != 0:
        return f"exit status {status}; stdout {out!r}; stderr {err!r}"
    problem = difference(output, out) if output is not None else None
    if not problem and stderr is not None:
        problem = missing_line(stderr, err)
    return problem and f"{problem}; stderr {err!r}"


def main():
    source, build = pathlib.Path(os.environ["CSN_SOURCE"]), os.environ["CSN_BUILD"]
    papers = [source / "README.md", *sorted((source / "docs").glob("*.md"))]
    wanted = [(paper, example) for paper in papers for example in examples(paper)]
    print(f"1..{len(wanted)}")
    failed = 0
    for number, (paper, example) in enumerate(wanted, 1):
        name = f"{paper.relative_to(source)}:{example[0]}"
        if "net" in example[1] and os.environ.get("CSN_NET") != "1":
            print(f"ok {number} - {name} # SKIP net: needs the network (CSN_NET=1)")
            continue
        problem = check(example, build)
        print(f"{'not ok' if problem else 'ok'} {number} - {name}", flush=True)
        if problem:
            failed += 1
            for line in problem.split("\n"):
                print(f"# {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
