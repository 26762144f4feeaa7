"""A real `caisson serve` for tests: a port of its own, a state directory of its own, a log that is kept."""
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, work, extra=()):
        self.work = pathlib.Path(work)
        self.build = pathlib.Path(os.environ.get("CSN_BUILD") or "build").resolve()
        self.state = self.work / "state"
        self.key = "dtn_" + secrets.token_hex(32)
        self.extra = list(extra)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.child = None

    def start(self, deadline=60):
        key_file = self.work / "key"
        key_file.write_text(self.key + "\n")
        key_file.chmod(0o600)
        env = dict(os.environ)
        env["CAISSON_LIBEXEC"] = str(self.build)
        with open(self.work / "server.log", "ab") as log:
            self.child = subprocess.Popen(
                [self.build / "caisson", "serve", "--listen", f"127.0.0.1:{self.port}", "--state", str(self.state),
                 "--key-file", str(key_file), *self.extra],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        until = time.monotonic() + deadline
        while True:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                    if json.load(answer)["status"] == "ok":
                        return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            if self.child.poll() is not None:
                raise RuntimeError(f"caisson serve ended with status {self.child.returncode}:\n{self.log()}")
            if time.monotonic() > until:
                raise RuntimeError(f"caisson serve did not come up in {deadline} s:\n{self.log()}")
            time.sleep(0.02)

    def log(self):
        path = self.work / "server.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return re.sub(re.escape(self.key), "<key>", text)

    def stop(self):
        """Ends it politely. Returns what is wrong with the way it ended, or None."""
        if self.child.poll() is not None:
            return f"it was gone already, with status {self.child.returncode}"
        self.child.send_signal(signal.SIGTERM)
        try:
            status = self.child.wait(30)
        except subprocess.TimeoutExpired:
            return "it was still there 30 s after SIGTERM"
        return f"status {status}" if status else None

    def end(self):
        """Ends it in any case, with the sandboxes it left."""
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        env = dict(os.environ, CAISSON_STATE=str(self.state / "engine"), CAISSON_LIBEXEC=str(self.build))
        subprocess.run([self.build / "caisson", "rm", "--all", "-q"], env=env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
        link = self.state / "engine" / "run"
        if link.is_symlink():
            subprocess.run(["rm", "-rf", "--one-file-system", os.readlink(link)], check=False)
