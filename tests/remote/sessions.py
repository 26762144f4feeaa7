#!/usr/bin/env python3
"""A service that is broken or means harm on the routes of sessions: a clear end each, in time, and the session is deleted."""
import base64
import concurrent.futures
import hashlib
import json
import os
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hostile import KEY, Endpoint, endless, http, just  # noqa: E402
from remote import environment, lib  # noqa: E402

GRACE_S = 20


def frame(data, opcode=2, fin=True):
    n = len(data)
    head = bytes([(0x80 if fin else 0) | opcode])
    head += bytes([n]) if n < 126 else bytes([126]) + struct.pack(">H", n) if n < 65536 else bytes([127]) + struct.pack(">Q", n)
    return head + data


def close(code=1000, reason=b""):
    return frame(struct.pack(">H", code) + reason, 8)


class Service:
    """Sessions that work, but for the named steps: functions (service, endpoint, conn) that answer themselves."""

    def __init__(self, log=b"", code=0, socket=True, **steps):
        self.log, self.code, self.socket, self.steps = log, code, socket, steps
        self.id, self.n_dials, self.n_states, self.deleted, self.split = None, 0, 0, 0, None
        self.is_running = False

    def whole_log(self):
        return b"\x01\x01\x01" + self.id.encode() + b" 4711\n" + self.log

    def upgrade(self, conn, fields):
        key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        conn.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())

    def follow(self, endpoint, conn, fields):
        self.n_dials += 1
        if "follow" in self.steps:
            return self.steps["follow"](self, endpoint, conn)
        if not self.socket:
            return http(426, {"message": "no WebSocket here"})
        self.upgrade(conn, fields)
        log = self.whole_log()
        conn.sendall(b"".join(frame(log[i:i + 50]) for i in range(0, len(log), 50)) + close())
        return None

    def step_of(self, method, path, fields):
        if path == "/api/sandbox" and method == "POST":
            return "create"
        if path.endswith("/process/execute"):
            return "kill"
        if method == "DELETE":
            return "delete" if "/process/session/" in path else "other"
        if path.endswith("/process/session"):
            return "session"
        if path.endswith("/exec"):
            return "exec"
        if path.endswith("/logs"):
            return "logs"
        return "state" if "/command/" in path else "other"

    def answer(self, endpoint, conn, method, path, body):
        fields = endpoint.requests[-1][2]
        if "follow=true" in path:
            self.fields = fields
            return self.follow(endpoint, conn, fields)
        step = self.step_of(method, path, fields)
        if step == "session":
            self.id = json.loads(body)["sessionId"]
        self.n_states += step == "state"
        self.deleted += method == "DELETE"  # the session, or its sandbox
        if step == "logs":
            self.split = fields.get("x-daytona-split-output")
        if step in self.steps:
            return self.steps[step](self, endpoint, conn)
        return {"create": lambda: http(200, endpoint.box()), "other": lambda: http(200, endpoint.box(state="destroyed")),
                "session": lambda: http(201), "exec": lambda: http(202, {"cmdId": "c-1"}), "delete": lambda: http(204),
                "kill": lambda: http(200, {"exitCode": 0, "result": ""}),
                "logs": lambda: http(200, self.whole_log(), kind="text/plain"),
                "state": lambda: http(200, {"id": "c-1", "command": "x"} | ({} if self.is_running else
                                                                           {"exitCode": self.code}))}[step]()


def attempt(service, timeout_ms=0):
    endpoint = Endpoint(service.answer)
    begun = time.monotonic()
    done = subprocess.run([os.environ["CSN_REMOTE_ONE"], str(timeout_ms), "echo x"], env=environment(endpoint.url, KEY),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=200, check=False)
    endpoint.close()
    return done, time.monotonic() - begun


def with_socket(*pieces):
    """Opens the WebSocket, sends the word of the start, then these; hangs up."""
    def said(service, endpoint, conn):
        service.upgrade(conn, service.fields)
        conn.sendall(frame(service.whole_log()))
        for piece in pieces:
            conn.sendall(piece)
    return said


def flood(service, endpoint, conn):
    service.upgrade(conn, service.fields)
    service.is_running = True
    try:
        conn.sendall(frame(service.whole_log()))
        while True:
            conn.sendall(frame(b"y" * 60000))
    except OSError:
        return None


def silent(service, endpoint, conn):
    service.is_running = True
    service.upgrade(conn, service.fields)
    conn.sendall(frame(service.whole_log()))
    time.sleep(60)


def first_cut(service, endpoint, conn):
    """Cut in the middle the first time, whole the next."""
    log = service.whole_log()
    service.upgrade(conn, service.fields)
    service.is_running = service.n_dials == 1
    conn.sendall(frame(log[:len(log) // 2]) if service.is_running else frame(log) + close())


def running(said):
    def step(service, endpoint, conn):
        service.is_running = True
        return said(service, endpoint, conn)
    return step


def plain(said):
    return lambda service, endpoint, conn: said(endpoint, conn)


NOT_AGREED = "is not as agreed"
LOG = b"out\n\x02\x02\x02err\n\x01\x01\x01more\n"
SAID = "ended 1 exit 3"  # CSN_ENDED_EXIT
LOST = "ended 9 "  # CSN_ENDED_LOST
# name: (service, words on stderr, stdout, limit in seconds, the command's own limit in ms)
CASES = {
    "a good one": (Service(LOG, 3), SAID, b"out\nmore\n", 10, 0),
    "no WebSocket": (Service(LOG, 3, socket=False), SAID, b"out\nmore\n", 10, 0),
    "a WebSocket that is cut once": (Service(LOG, 3, follow=first_cut), SAID, b"out\nmore\n", 15, 0),
    "one that is always cut": (Service(LOG, follow=running(with_socket())), "ended 3 ", b"out\nmore\n", 20, 9000),
    "frames that are none": (Service(LOG, 3, follow=with_socket(b"\xff\xff\xff\xff")), SAID, b"out\nmore\n", 15, 0),
    "a masked frame": (Service(LOG, 3, follow=with_socket(b"\x82\x81abcdx")), SAID, None, 15, 0),
    "a huge length": (Service(LOG, 3, follow=with_socket(b"\x82\x7f" + b"\xff" * 8)), SAID, b"out\nmore\n", 15, 0),
    "a wrong accept": (Service(LOG, 3, follow=lambda s, e, c: (
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")), SAID, None, 30, 0),
    "a flood, until the limit": (Service(b"", follow=flood), "ended 3 ", None, 10, 1500),
    "silence, until the limit": (Service(b"out\n", follow=silent), "ended 3 ", b"out\n", 10, 1500),
    "a session that is refused": (Service(session=plain(just(http(500, {"message": "full"})))), "full (HTTP 500)", b"", 10, 0),
    "a session cut off": (Service(session=plain(just(None))), "connection broken", b"", 10, 0),
    "a session that is there": (Service(LOG, 3, session=plain(just(http(409, {"message": "again"})))), SAID, b"out\nmore\n", 10, 0),
    "an exec without JSON": (Service(exec=plain(just(http(202, b"<html>")))), NOT_AGREED, b"", 10, 0),
    "an exec with a path": (Service(exec=plain(just(http(202, {"cmdId": "../../x"})))), NOT_AGREED, b"", 10, 0),
    "an exec cut off": (Service(exec=plain(just(None))), "connection broken", b"", 10, 0),
    "an endless exec": (Service(exec=plain(endless("202 X"))), "answer too large", b"", 30, 0),
    "a state of another type": (Service(LOG, state=plain(just(http(200, {"exitCode": "3"})))), LOST, b"out\nmore\n", 10, 0),
    "a state that is gone": (Service(LOG, state=plain(just(http(404, {"message": "gone"})))), LOST, b"out\nmore\n", 10, 0),
    "an endless log": (Service(LOG, socket=False, logs=plain(endless("200 X"))), "answer too large", None, 60, 0),
    "no word": (Service(follow=lambda s, e, c: s.upgrade(c, s.fields) or c.sendall(frame(b"hello\n") + close())),
                "could not run the command", b"", 15, 0),
    "a word that does not come": (Service(follow=lambda s, e, c: s.upgrade(c, s.fields) or c.sendall(
        frame(b"x" * 70000))), "no word of the command's start", b"", 15, 0),
}


def sessions_of_a_hostile_service():
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        asked = {name: pool.submit(attempt, case[0], case[4]) for name, case in CASES.items()}
        for name, (service, words, stdout, limit, _) in CASES.items():
            done, took = asked[name].result()
            said = done.stdout + done.stderr
            good = words in done.stderr.decode(errors="replace") and took < limit + GRACE_S and KEY.encode() not in said
            good = good and b"Sanitizer" not in said and b"runtime error" not in said
            good = good and (stdout is None or done.stdout == stdout)
            lib.ok(good, name, f"{took:.1f} s of {limit} + {GRACE_S}", f"wanted: {words}", done.stderr[-400:], done.stdout[:100])
            lib.ok(service.deleted > 0 or service.id is None, f"{name}: nothing is left")


def a_log_that_is_polled_is_asked_for_with_marks():
    service = Service(LOG, 3, socket=False)
    done, _ = attempt(service)
    lib.equal(service.split, "true", "the header that asks for marks")
    lib.equal(done.stderr, b"err\nended 1 exit 3\n", "and the streams are told apart")


if __name__ == "__main__":
    lib.main([sessions_of_a_hostile_service, a_log_that_is_polled_is_asked_for_with_marks])
