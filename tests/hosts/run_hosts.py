#!/usr/bin/env python3
"""tests/hosts/run_hosts.py [MACHINE…]: holds the program to the table in machines.py, machine by machine, verb by verb.

Prints TAP: one line for each verb of each machine. CSN_HOSTS_SHOW=1 also shows what each verb said.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import machines  # noqa: E402
import make  # noqa: E402

PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
AT_ONCE = 3  # one of them waits for something
LATE_S = 240


class Report:
    def __init__(self):
        self.n = self.failed = 0

    def line(self, is_ok, text, said=""):
        self.n += 1
        self.failed += not is_ok
        print(f"{'' if is_ok else 'not '}ok {self.n} - {text}", flush=True)
        if said and (not is_ok or os.environ.get("CSN_HOSTS_SHOW") == "1"):
            for part in said.strip().splitlines()[-40:]:
                print("#   " + part, flush=True)


def copy_programs(place):
    """Where every user of every machine can read them."""
    build = pathlib.Path(os.environ["CSN_BUILD"])
    os.chmod(place, 0o755)
    for path in build.glob("caisson*"):
        if path.is_file() and os.access(path, os.X_OK):
            shutil.copy2(path, place)
    for name in ("verbs.py",):
        shutil.copy2(HERE / name, place)
    subprocess.run(["chmod", "-R", "a+rX", place], check=True)


def try_machine(row, programs):
    """What every verb did: {verb: {status, out, err}}, and what the machine itself could not do."""
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "USER": "nobody", "TERM": "dumb",
           "CAISSON_LIBEXEC": str(programs), "HOME": "/"}
    # the program is named by what the machine makes of CAISSON_LIBEXEC: its programs may lie elsewhere
    command = ["sh", "-c", 'exec "$0" "$1/verbs.py" "$CAISSON_LIBEXEC/caisson" "$2" $3', PYTHON, str(programs), row.options,
               " ".join(row.verbs)]
    job = make.Job(row.job) if row.job else None
    try:
        done = make.run_on(row, command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                           timeout=LATE_S)
        said, result = done.stderr, json.loads(done.stdout) if done.stdout.startswith("{") else {}
    except subprocess.TimeoutExpired as late:
        said, result = f"not done after {LATE_S} s: {late.stderr}", {}
    left = job.remove() if job else []
    return result, said, left


def said_by(done):
    return f"status {done['status']}\n{done['out']}{done['err']}"


def check_refusal(report, row, verb, done, cause):
    """It fails, names the cause, and says where to look."""
    text = done["out"] + done["err"]
    report.line(done["status"] not in (0, "late") and re.search(cause, text, re.S) is not None,
                f"{row.name}: {verb} refuses and names the cause", said_by(done))
    if verb == "doctor":
        walls = text.split("Limits (")[0]
        crosses = [line for line in walls.splitlines() if line.lstrip().startswith("✗")]
        report.line(len(crosses) <= 1, f"{row.name}: doctor names one cause, once", said_by(done))
        report.line(row.user != "root" or "sudo " not in text, f"{row.name}: doctor tells no root to sudo", text)
    else:
        report.line(row.remedy in text, f"{row.name}: {verb} says where to look", said_by(done))
        report.line("check the key" not in text and "Daytona sandbox" not in text,
                    f"{row.name}: {verb} speaks of this machine only", said_by(done))


def check_machine(report, row, result, said, left):
    if not result:
        report.line(False, f"{row.name}: the machine can be made", said)
        return
    for verb in row.verbs:
        done = result.get(verb, {"status": "none", "out": "", "err": ""})
        cause = row.cause or row.refuses.get(verb, "")
        if cause:
            check_refusal(report, row, verb, done, cause)
        else:
            report.line(done["status"] == 0, f"{row.name}: {verb} works", said_by(done))
        if verb == "doctor" and row.seen:
            report.line(re.search(row.seen, done["out"], re.M) is not None, f"{row.name}: doctor says what is different",
                        said_by(done))
        if verb == "run_sh" and row.receipt:
            report.line(re.search(row.receipt, done["err"]) is not None, f"{row.name}: the receipt says it", said_by(done))
    if row.job:
        report.line(not left, f"{row.name}: the job's groups can be removed", "\n".join(left))


def check_document(report):
    tool = HERE.parents[1] / "tools/make-machines"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    report.line(done.returncode == 0, "docs/machines.md is what tools/make-machines makes of the table", done.stdout + done.stderr)


def main():
    wanted = sys.argv[1:]
    rows = [machines.find(name) for name in wanted] or machines.MACHINES
    report = Report()
    if not wanted:
        check_document(report)
    if os.geteuid() != 0:
        report.n += 1
        print(f"ok {report.n} - machines # SKIP user: only root can make other machines out of this one\n1..{report.n}")
        return report.failed > 0
    with tempfile.TemporaryDirectory(prefix="csn-hosts-programs-", dir="/var/tmp") as place:
        programs = pathlib.Path(place)
        copy_programs(programs)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            tried = [(row, pool.submit(try_machine, row, programs)) for row in rows]
            for row, future in tried:
                check_machine(report, row, *future.result())
    print(f"1..{report.n}")
    return report.failed > 0


if __name__ == "__main__":
    sys.exit(main())
