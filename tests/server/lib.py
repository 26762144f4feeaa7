"""A real `caisson serve` for the tests of its life: started, asked, stopped, killed. And TAP."""
import http.client
import json
import os
import pathlib
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = pathlib.Path(os.environ["CSN_BUILD"])
WAIT_S = 60

_n = 0
_failed = 0
_servers = []


def ok(is_true, name, *notes):
    global _n, _failed
    _n += 1
    _failed += not is_true
    print(f"{'ok' if is_true else 'not ok'} {_n} - {name}", flush=True)
    if not is_true:
        for note in notes:
            for line in str(note).splitlines():
                print("# " + line, flush=True)
    return is_true


def equal(got, wanted, name):
    return ok(got == wanted, name, f"got:    {got!r}", f"wanted: {wanted!r}")


def has(text, part, name):
    return ok(part in text, name, f"{part!r} is not in:", text)


def main(tests):
    """Runs the functions; a test that throws has failed."""
    for test in tests:
        if len(sys.argv) > 1 and not any(word in test.__name__ for word in sys.argv[1:]):
            continue
        try:
            test()
        except Exception:  # noqa: BLE001 whatever it was, the others go on
            ok(False, test.__name__, traceback.format_exc())
    print(f"1..{_n}", flush=True)
    sys.exit(1 if _failed else 0)


def until(what, seconds=WAIT_S):
    """Waits until what() is true: its value. Looked at often, bounded by a deadline."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.01)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pids_of(program):
    """Every live process of this program of our build."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.readlink(f"/proc/{entry}/exe") == str(BUILD / program):
                    found.append(int(entry))
            except OSError:
                pass
    return found


def has_sanitizer():
    return b"__asan_init" in (BUILD / "caisson-serve").read_bytes()


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


class Work:
    """A directory of ours alone: the front's user can't walk into it, as it can't into root's home."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="csn-server-"))
        return self.path

    def __exit__(self, *exc):
        for server in _servers:
            server.kill()
        _servers.clear()
        log = self.path / "server.log"
        found = [line for line in log.read_text(errors="replace").splitlines() if "Sanitizer" in line or
                 "runtime error:" in line] if log.exists() else []
        if found:
            ok(False, "no sanitizer has something to say", log.read_text(errors="replace")[-6000:])
        state = self.path / "state"
        env = dict(os.environ, CAISSON_STATE=str(state / "engine"), CAISSON_LIBEXEC=str(BUILD))
        if (state / "engine").exists():
            subprocess.run([BUILD / "caisson", "rm", "--all", "-q"], env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False)
            link = state / "engine" / "run"
            if link.is_symlink():
                subprocess.run(["rm", "-rf", "--one-file-system", os.readlink(link)], check=False)
        self.unmount()
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.path)], check=False)

    def unmount(self):
        """What the test mounted in it."""


class Answer:
    def __init__(self, status, headers, data):
        self.status, self.headers, self.data = status, headers, data

    @property
    def json(self):
        return json.loads(self.data)

    def __repr__(self):
        return f"{self.status} {self.data[:300]!r}"


class Client:
    """One keep-alive connection with one key."""

    def __init__(self, port, key, timeout=WAIT_S):
        self.port, self.key, self.timeout = port, key, timeout
        self.conn = None

    def ask(self, method, path, body=None, headers=None, data=None):
        head = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            data = json.dumps(body).encode()
            head["Content-Type"] = "application/json"
        head.update(headers or {})
        if self.conn is None:
            self.conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        try:
            self.conn.request(method, path, body=data, headers=head)
            answer = self.conn.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        except Exception:
            self.close()
            raise

    def close(self):
        if self.conn:
            self.conn.close()
        self.conn = None

    def execute(self, box, command):
        return self.ask("POST", f"/toolbox/{box}/process/execute", {"command": command})

    def upload(self, box, path, content):
        border = secrets.token_hex(16)
        data = (f"--{border}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n"
                f"Content-Type: application/octet-stream\r\n\r\n").encode() + content + f"\r\n--{border}--\r\n".encode()
        return self.ask("POST", f"/toolbox/{box}/files/upload?path={path}", data=data,
                        headers={"Content-Type": f"multipart/form-data; boundary={border}"})

    def download(self, box, path):
        return self.ask("GET", f"/toolbox/{box}/files/download?path={path}")


class Server:
    def __init__(self, work, *options, env=None, port=None):
        self.work, self.options = pathlib.Path(work), list(options)
        self.state = self.work / "state"
        self.port = port or free_port()
        self.env = {**os.environ, "CAISSON_LIBEXEC": str(BUILD), **(env or {})}
        self.child = self.prepare = None
        self.out = ""

    def command(self):
        return [str(BUILD / "caisson"), "serve", "--listen", f"127.0.0.1:{self.port}", "--state", str(self.state),
                *self.options]

    def start(self, seconds=WAIT_S):
        """Until it has said what to paste."""
        self.log = open(self.work / "server.log", "ab")
        self.child = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=self.log, env=self.env, preexec_fn=self.prepare)
        self.out = ""
        _servers.append(self)
        end = time.monotonic() + seconds
        fd = self.child.stdout.fileno()
        while "export DAYTONA_API_KEY" not in self.out or not self.out.endswith(".\n"):
            ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
            piece = os.read(fd, 65536) if ready else b""
            if not piece:
                if ready:
                    self.child.wait(10)
                status = self.child.poll() if ready else "none: it is late"
                raise RuntimeError(f"the server did not come up, status {status}:\n{self.out}\n{self.logged()}")
            self.out += piece.decode()
        return self

    def key(self):
        for line in self.out.splitlines():
            if line.strip().startswith("export DAYTONA_API_KEY=dtn_"):
                return line.split("=", 1)[1]
        return None

    def client(self, key=None):
        return Client(self.port, key or self.key())

    def logged(self):
        return (self.work / "server.log").read_text(errors="replace")

    def front(self):
        """The front's pid."""
        for task in pathlib.Path(f"/proc/{self.child.pid}/task").iterdir():
            for pid in (task / "children").read_text().split():
                try:  # its link `exe` is not for us: it is undumpable
                    if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "caisson-serve":
                        return int(pid)
                except OSError:
                    pass
        return None

    def stop(self, number=signal.SIGTERM):
        self.child.send_signal(number)
        return self.wait()

    def wait(self, seconds=30):
        status = self.child.wait(seconds)
        self.child.stdout.close()
        self.log.close()
        return status

    def kill(self):
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.wait()


def run(*command, env=None, seconds=WAIT_S):
    """status, stdout, stderr of `caisson …`."""
    done = subprocess.run([str(BUILD / "caisson"), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=dict(os.environ, CAISSON_LIBEXEC=str(BUILD), **(env or {})), timeout=seconds, check=False)
    return done.returncode, done.stdout, done.stderr


def threads(functions):
    started = [threading.Thread(target=f, daemon=True) for f in functions]
    for t in started:
        t.start()
    return started
