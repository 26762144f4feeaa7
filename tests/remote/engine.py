#!/usr/bin/env python3
"""Starts a server for a program of tests and runs it there; its TAP is ours."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remote import environment, lib  # noqa: E402

with lib.Work() as work:
    server = lib.Server(work).start()
    env = environment(f"http://127.0.0.1:{server.port}/api", server.key())
    done = subprocess.run([os.environ["CSN_REMOTE_ENGINE"], *sys.argv[1:]], env=env, stdin=subprocess.DEVNULL,
                          timeout=880, check=False)
    server.stop()
sys.exit(done.returncode)
