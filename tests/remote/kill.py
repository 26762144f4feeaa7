#!/usr/bin/env python3
"""kill -9 of the client at random moments: the helper sees its end and deletes what the client made."""
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remote import CAISSON, bound, environment, left, lib  # noqa: E402

KILLS = int(os.environ.get("CSN_KILLS", "25"))
SCRIPT = "import sys, time\ntime.sleep(0.3)\nopen(sys.argv[2], 'w').write('an artifact')\n"


def start(work, server):
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key())
    (work / "short.py").write_text(SCRIPT)
    return subprocess.Popen([CAISSON, "arena", "-c", "a=short.py", "-c", "b=short.py", "-c", "c=short.py", "x",
                             "--daytona", "--plain", "-q", "--artifacts", str(work / "out")], env=env, cwd=work,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def a_client_killed_at_any_moment_leaves_nothing(work, server):
    begun = time.monotonic()
    start(work, server).wait(60)
    whole = time.monotonic() - begun
    seed = random.randrange(1 << 30)
    chosen = random.Random(seed)
    cut_short = 0
    for n in range(KILLS):
        child = start(work, server)
        time.sleep(chosen.uniform(0, whole))  # the moment is what is tried
        cut_short += child.poll() is None and bool(left(server))
        child.kill()
        child.wait(10)
        gone = lib.until(lambda: not left(server), 60)
        if not gone:
            lib.ok(False, f"kill {n} of {KILLS} (seed {seed}): nothing is left", left(server))
            return
    lib.ok(True, f"{KILLS} kills: nothing is left on the server")
    lib.ok(cut_short > 0, f"… and some had sandboxes when they were killed ({cut_short}, seed {seed})")


def helpers():
    found = []
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and open(f"/proc/{pid}/comm").read().strip() == "caisson-remote" and \
                    os.stat(f"/proc/{pid}").st_uid in (0, os.getuid()):
                found.append(int(pid))
        except OSError:
            pass
    return found


def no_helper_outlives_its_work(work, server):
    before = set(helpers())
    child = start(work, server)
    ours = lib.until(lambda: set(helpers()) - before, 20)
    lib.until(lambda: left(server), 20)
    child.kill()
    child.wait(10)
    lib.ok(bool(ours) and lib.until(lambda: not set(helpers()) & ours, 60), "the helper ends when its work is done")
    lib.equal(left(server), [], "… which was to delete what the client made")


def a_server_that_is_gone_keeps_no_helper(work, server):
    before = set(helpers())
    child = start(work, server)
    ours = lib.until(lambda: set(helpers()) - before, 20)
    lib.until(lambda: left(server), 20)
    server.kill()
    child.kill()
    child.wait(10)
    lib.ok(bool(ours) and lib.until(lambda: not set(helpers()) & ours, 60), "nobody to speak to: the helper ends, too")


TESTS = [a_client_killed_at_any_moment_leaves_nothing, no_helper_outlives_its_work, a_server_that_is_gone_keeps_no_helper]

if __name__ == "__main__":
    with lib.Work() as directory:
        its_server = lib.Server(directory).start()
        lib.main(bound(TESTS, directory, its_server))
