#!/usr/bin/env python3
"""An endpoint that means harm, or is broken: a clear error each, within the stated limits, and the key goes nowhere."""
import concurrent.futures
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remote import CAISSON, bound, caisson, environment, lib  # noqa: E402

KEY = "dtn_0123456789abcdef_a_key_to_be_kept"
CREATE_LIMIT_S = 60  # of the whole create, its retries included
GRACE_S = 25         # an engine that closes waits for its helper's last requests; a loaded machine


def http(status, body=b"", headers="", kind="application/json"):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return (f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{headers}\r\n").encode() + body


class Endpoint:
    """Answers every request by a function: bytes to send, None to hang up; or the function sends itself."""

    def __init__(self, answer, certificate=None):
        self.tls = None
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate)
        self.answer, self.requests, self.lock = answer, [], threading.Lock()
        self.n_open = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}/api"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        buffer = b""
        with self.lock:
            self.n_open += 1
        try:
            if self.tls:
                conn = self.tls.wrap_socket(conn, server_side=True)
            while True:
                while b"\r\n\r\n" not in buffer:
                    piece = conn.recv(65536)
                    if not piece:
                        return
                    buffer += piece
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                method, path, _ = lines[0].split(" ")
                fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
                length = int(fields.get("content-length", "0"))
                while len(buffer) < length:
                    piece = conn.recv(65536)
                    if not piece:
                        return
                    buffer += piece
                body, buffer = buffer[:length], buffer[length:]
                with self.lock:
                    self.requests.append((method, path, fields, body))
                said = self.answer(self, conn, method, path, body)
                if said is None:
                    return
                conn.sendall(said)
        except OSError:
            pass
        finally:
            conn.close()
            with self.lock:
                self.n_open -= 1

    def close(self):
        self.listener.close()

    def box(self, **more):
        return {"id": "11111111-2222-4333-8444-555555555555", "organizationId": "o", "name": "n", "user": "daytona",
                "env": {}, "labels": {}, "public": False, "networkBlockAll": True, "target": "us", "cpu": 1, "gpu": 0,
                "memory": 1, "disk": 3, "state": "started",
                "toolboxProxyUrl": self.url.replace("/api", "/toolbox"), **more}


def only_create(said):
    """Answers the create by said(endpoint, conn); everything else is 404."""
    def answer(endpoint, conn, method, path, body):
        if method == "POST" and path == "/api/sandbox":
            return said(endpoint, conn)
        return http(404, {"message": "not here"})
    return answer


def until_step(**steps):
    """A service that works, but for the named steps."""
    def answer(endpoint, conn, method, path, body):
        step = ("create" if path == "/api/sandbox" else "delete" if method == "DELETE" else
                "upload" if "bulk-upload" in path else "execute" if "execute" in path else
                "download" if "download" in path else "look")
        if step in steps:
            return steps[step](endpoint, conn)
        return {"create": lambda: http(200, endpoint.box()), "delete": lambda: http(200, endpoint.box(state="destroyed")),
                "upload": lambda: http(200, {"files": []}), "look": lambda: http(200, endpoint.box()),
                "execute": lambda: http(200, {"exitCode": 0, "result": "fine\n"}),
                "download": lambda: http(200, b"an artifact of a kind", kind="application/octet-stream")}[step]()
    return answer


def just(said):
    return lambda endpoint, conn: said


def slow_drip(endpoint, conn):
    for byte in http(200, endpoint.box()):
        conn.sendall(bytes([byte]))
        time.sleep(0.5)


def endless(kind):
    def said(endpoint, conn):
        conn.sendall(f"HTTP/1.1 {kind}\r\nContent-Type: application/json\r\n\r\n".encode())
        try:
            while True:
                conn.sendall(b"[" * 65536)
        except OSError:
            return None
    return said


def too_long(endpoint, conn):
    conn.sendall(b"HTTP/1.1 200 X\r\n")
    try:
        for n in range(20000):
            conn.sendall(f"X-{n}: {'y' * 1000}\r\n".encode())
    except OSError:
        pass


class Once:
    """First this, then that."""

    def __init__(self, first, then):
        self.first, self.then, self.n = first, then, 0

    def __call__(self, endpoint, conn):
        self.n += 1
        return self.first if self.n == 1 else self.then(endpoint, conn)


def box(**more):
    return lambda endpoint, conn: http(200, endpoint.box(**more))


def without(name):
    def said(endpoint, conn):
        dto = endpoint.box()
        del dto[name]
        return http(200, dto)
    return said


def cut(n):
    def said(endpoint, conn):
        conn.sendall(http(200, endpoint.box())[:n])
    return said


NOT_AGREED = "is not as agreed"
# name: (how it answers, what the error must say, limit in seconds)
CREATES = {
    "no JSON": (just(http(200, b"<html>")), NOT_AGREED, 10),
    "empty": (just(http(200, b"")), NOT_AGREED, 10),
    "an array": (just(http(200, [])), NOT_AGREED, 10),
    "deep JSON": (just(http(200, b"[" * 100000)), NOT_AGREED, 10),
    "duplicate keys": (just(http(200, b'{"id":"a","id":"b"}')), NOT_AGREED, 10),
    "bad UTF-8": (just(http(200, b'{"id":"\xff"}')), NOT_AGREED, 10),
    "no id": (without("id"), NOT_AGREED, 10),
    "no state": (without("state"), NOT_AGREED, 10),
    "an id that is a number": (box(id=7), NOT_AGREED, 10),
    "an id that is a path": (box(id="../../etc"), NOT_AGREED, 10),
    "an id without end": (box(id="a" * 5000), NOT_AGREED, 10),
    "a state that is a number": (box(state=1), NOT_AGREED, 10),
    "labels that are a list": (box(labels=[]), NOT_AGREED, 10),
    "a label that is a number": (box(labels={"a": 1}), NOT_AGREED, 10),
    "a toolbox that is no URL": (box(toolboxProxyUrl="file:///etc/passwd"), NOT_AGREED, 10),
    "a toolbox with a user part": (box(toolboxProxyUrl="http://127.0.0.1@evil.example/x"), NOT_AGREED, 10),
    "a toolbox elsewhere without TLS": (box(toolboxProxyUrl="http://192.0.2.1/toolbox"), "without TLS no key goes there", 40),
    "an error state": (box(state="error", errorReason="no \x1b[31mroom"), "did not start: no  [31mroom", 40),
    "gone at once": (box(state="destroyed"), "did not start", 40),
    "a message with the key": (just(http(500, {"message": f"Bearer {KEY} is wrong"})), "[REDACTED] is wrong (HTTP 500)", 10),
    "a message that is a list": (just(http(400, {"message": ["first", "second"]})), "first (HTTP 400)", 10),
    "500 without words": (just(http(500, b"oops", kind="text/plain")), "HTTP 500 without a reason", 10),
    "401": (just(http(401, {"message": "Invalid credentials"})), "the key is not accepted", 10),
    "403": (just(http(403, {"message": "no"})), "the key may not create a sandbox", 10),
    "a redirect": (just(http(302, b"", "Location: http://127.0.0.1:9/\r\n")), "redirected elsewhere", 10),
    "429 for ever": (just(http(429, {"message": "slow down"}, "Retry-After: 0\r\n")), "rate limit", 20),
    "429 until tomorrow": (just(http(429, b"", "Retry-After: 86400\r\n")), "rate limit", 10),
    "429, then 400": (Once(http(429, b"", "Retry-After: 1\r\n"), just(http(400, {"message": "after"}))), "after (HTTP 400)", 15),
    "cut at once": (just(None), "connection broken", 20),
    "cut in the status": (cut(7), "Could not create sandbox", 20),
    "cut in the head": (cut(20), "Could not create sandbox", 20),
    "cut in the body": (cut(200), "connection broken", 20),
    "no HTTP": (just(b"220 mail.example ESMTP\r\n"), "no proper HTTP", 20),
    "HTTP/0.9": (just(b"hello\r\n\r\n"), "no proper HTTP", 20),
    "a body without end": (endless("200 X"), "answer too large", 40),
    "an error without end": (endless("500 X"), "HTTP 500", 40),
    "headers without end": (too_long, "Could not create sandbox", 40),
    "a slow drip": (slow_drip, "no answer in time", CREATE_LIMIT_S),
    "starting for ever": ({"create": box(state="starting"), "look": box(state="starting")}, "is still 'starting' after 60 seconds", CREATE_LIMIT_S),
    "silence": (lambda endpoint, conn: time.sleep(100), "no answer in time", CREATE_LIMIT_S),
}
STEPS = {
    "upload: 500": ({"upload": just(http(500, {"message": "full"}))}, "Could not write script: full (HTTP 500)", 1),
    "upload: cut": ({"upload": just(None)}, "Could not write script: connection broken", 1),
    "upload: slow": ({"upload": slow_drip}, "Could not write script: timed out after 2 seconds", 1),
    "execute: wrong type": ({"execute": just(http(200, {"exitCode": "0", "result": ""}))}, NOT_AGREED, 1),
    "execute: a huge code": ({"execute": just(http(200, {"exitCode": 1 << 40, "result": ""}))}, NOT_AGREED, 1),
    "execute: a real code": ({"execute": just(http(200, b'{"exitCode":0.5,"result":""}'))}, NOT_AGREED, 1),
    "execute: no result": ({"execute": just(http(200, {"exitCode": 0}))}, NOT_AGREED, 1),
    "execute: could not run": ({"execute": just(http(200, {"exitCode": -1, "result": "no shell"}))},
                               "the service could not run the command: no shell", 1),
    "execute: without end": ({"execute": endless("200 X")}, "answer too large", 1),
    "execute: 408": ({"execute": just(http(408, {"message": "late"}))}, "Execution timed out after 3 seconds", 1),
    "execute: never": ({"execute": lambda e, c: time.sleep(60)}, "Execution timed out after 3 seconds", 1),
    "execute: cut": ({"execute": just(None)}, "connection broken", 1),
    "execute: 404": ({"execute": just(http(404, {"message": "no such sandbox"}))}, "no such sandbox (HTTP 404)", 1),
    "download: 404": ({"download": just(http(404, {"message": "x"}))}, "Could not read artifact: exit 1", 1),
    "download: too much": ({"download": endless("200 X")}, "Could not read artifact: ", 1),
    "download: cut": ({"download": just(http(200, b"x" * 1000)[:600])}, "Could not read artifact: ", 1),
    "delete: 500": ({"delete": just(http(500, {"message": "stuck"}))}, "[Warn] Cleanup failed: stuck (HTTP 500)", 0),
    "delete: 404": ({"delete": just(http(404, {"message": "gone"}))}, "[Daytona] Cleaning up...", 0),
    "delete: 409 is warned of": ({"delete": just(http(409, {"message": "busy"}))}, "[Warn] Cleanup failed: busy (HTTP 409)", 0),
}


def attempt(answer, work, *options, certificate=None, **variables):
    endpoint = Endpoint(answer, certificate)
    begun = time.monotonic()
    done = caisson("candidate", "s.py", "-o", "x", "--daytona", "--output", f"out-{endpoint.port}", *options,
                   env=environment(endpoint.url, KEY, **variables), cwd=work, seconds=200)
    took = time.monotonic() - begun
    endpoint.close()
    return endpoint, done, took


def judge(name, endpoint, done, took, status, words, limit):
    text = done.stderr.decode(errors="replace")
    said = (done.stdout + done.stderr)
    good = done.returncode == status and words in text and took < limit + GRACE_S
    good = good and KEY.encode() not in said and b"Sanitizer" not in said and b"runtime error" not in said
    good = good and b"\x1b" not in said
    return good, name, f"status {done.returncode}, {took:.1f} s of {limit} + {GRACE_S}", f"wanted: {words}", text


def hostile_creates(work, pool):
    asked = {name: pool.submit(attempt, until_step(**said) if isinstance(said, dict) else only_create(said), work)
             for name, (said, _, _) in CREATES.items()}
    for name, (_, words, limit) in CREATES.items():
        endpoint, done, took = asked[name].result()
        good, *notes = judge(name, endpoint, done, took, 3, words, limit)
        lib.ok(good, f"create: {name}", *notes)


def what_was_made_is_deleted(work, pool):
    """A create whose answer is no use: it may have come to be, and is deleted by the name we gave it."""
    for name in ("no JSON", "cut in the body", "an id that is a path", "an error state"):
        endpoint, done, took = attempt(only_create(CREATES[name][0]), work)
        made = [json.loads(body)["name"] for method, path, _, body in endpoint.requests if method == "POST"]
        gone = [path for method, path, _, _ in endpoint.requests if method == "DELETE"]
        wanted = {f"/api/sandbox/{n}" for n in made} | {"/api/sandbox/11111111-2222-4333-8444-555555555555"}
        lib.ok(bool(gone) and set(gone) <= wanted, f"after '{name}' what may be there is deleted", made, gone)
    endpoint, _, _ = attempt(only_create(just(http(400, {"message": "no"}))), work)
    lib.equal([r for r in endpoint.requests if r[0] == "DELETE"], [], "after a 400 there is nothing to delete")


def hostile_steps(work, pool):
    asked = {name: pool.submit(attempt, until_step(**steps), work, "--upload-timeout", "2s", "--timeout", "3s",
                               "--artifact-timeout", "5s", "--artifact-limit", "1m")
             for name, (steps, _, _) in STEPS.items()}
    for name, (steps, words, status) in STEPS.items():
        endpoint, done, took = asked[name].result()
        good, *notes = judge(name, endpoint, done, took, status, words, 20 + 60 * ("delete" in steps))
        deleted = any(method == "DELETE" for method, _, _, _ in endpoint.requests)
        lib.ok(good and deleted, name, f"deleted: {deleted}", *notes)


def a_cut_anywhere_is_an_error(work, pool):
    """Every ninth byte of the create's answer, and all of the first and last ones."""
    whole = len(http(200, Endpoint(just(None)).box()))
    points = sorted(set(range(0, whole, 9)) | set(range(20)) | set(range(whole - 5, whole)))
    asked = {n: pool.submit(attempt, only_create(cut(n)), work) for n in points}
    bad = [(n, a.result()[1].stderr) for n, a in asked.items()
           if a.result()[1].returncode != 3 or b"Could not create sandbox" not in a.result()[1].stderr]
    lib.equal(bad, [], f"the create's answer, cut at {len(points)} places")


def the_key_goes_to_the_service_alone(work, pool):
    other = Endpoint(until_step())
    other.url = other.url.replace("127.0.0.1", "localhost")
    first, done, _ = attempt(only_create(just(http(302, b"", f"Location: {other.url}/sandbox\r\n"))), work)
    lib.equal(other.requests, [], "a redirect is not followed")
    first, done, _ = attempt(until_step(create=lambda e, c: http(200, e.box(
        toolboxProxyUrl=f"http://localhost:{other.port}/toolbox"))), work)
    lib.ok(any("upload" in r[1] for r in other.requests) and
           all(r[2].get("authorization") == f"Bearer {KEY}" for r in other.requests),
           "a toolbox on this machine that the service names gets it", done.stderr)
    lib.ok(all(r[2].get("authorization") == f"Bearer {KEY}" for r in first.requests), "the service has it")
    other.close()


def certificate_of(work, name, subject):
    """Signs itself; key and certificate in one file."""
    path = pathlib.Path(work, name)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext",
                    f"subjectAltName={subject}", "-keyout", f"{path}.key", "-out", f"{path}.crt"], check=True,
                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path.write_text(pathlib.Path(f"{path}.key").read_text() + pathlib.Path(f"{path}.crt").read_text())
    return str(path)


def a_certificate_is_verified(work, pool):
    ours = certificate_of(work, "ours.pem", "IP:127.0.0.1")
    others = certificate_of(work, "others.pem", "DNS:elsewhere.example")
    endpoint, done, took = attempt(until_step(), work, certificate=ours)
    good, *notes = judge("nobody vouches", endpoint, done, took, 3, "can't be trusted", 20)
    lib.ok(good and endpoint.requests == [], "TLS: a certificate that nobody vouches for, and no request is sent", *notes)
    endpoint, done, took = attempt(until_step(), work, certificate=others, SSL_CERT_FILE=others + ".crt")
    good, *notes = judge("another name", endpoint, done, took, 3, "can't be trusted", 20)
    lib.ok(good and endpoint.requests == [], "TLS: a certificate of another name", *notes)
    endpoint, done, took = attempt(until_step(), work, certificate=ours, SSL_CERT_FILE=ours + ".crt")
    lib.equal(done.returncode, 0, "TLS: SSL_CERT_FILE names whom to trust")
    endpoint, done, took = attempt(until_step(create=lambda e, c: http(200, e.box(
        toolboxProxyUrl="http://192.0.2.1/toolbox"))), work, certificate=ours, SSL_CERT_FILE=ours + ".crt")
    lib.has(done.stderr.decode(), "without TLS no key goes there", "TLS: and no key goes from there to where there is none")


def killed_before_its_answer(work, status):
    """A client that is killed while its create waits; which DELETEs come after the answer."""
    asked, is_killed, lock = threading.Event(), threading.Event(), threading.Lock()
    deleted = []

    def answer(endpoint, conn, method, path, body):
        if method == "DELETE":
            with lock:
                deleted.append(path)
        elif method == "POST" and path == "/api/sandbox":
            asked.set()
            is_killed.wait(60)
            return http(status, endpoint.box() if status == 200 else {"message": "taken"})
        return http(200, endpoint.box())

    endpoint = Endpoint(answer)
    child = subprocess.Popen([CAISSON, "run", "--daytona", "--name", "chosen", "--", "true"], cwd=work, stdin=subprocess.DEVNULL,
                             env=environment(endpoint.url, KEY), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    came = asked.wait(30)
    child.kill()
    child.wait(10)
    is_killed.set()
    is_over = lib.until(lambda: endpoint.n_open == 0, 60)  # the helper has ended
    endpoint.close()
    return came and is_over, deleted


def a_name_that_was_chosen_is_deleted_if_it_became_ours(work, pool):
    is_whole, deleted = killed_before_its_answer(work, 200)
    lib.ok(is_whole and deleted == ["/api/sandbox/chosen"], "killed before the answer: what was made is deleted by its name",
           deleted)
    is_whole, deleted = killed_before_its_answer(work, 409)
    lib.ok(is_whole and deleted == [], "… and one that had the name before stays", deleted)


def a_request_is_as_the_sdks_send_it(work, pool):
    endpoint, done, _ = attempt(until_step(), work)
    by = {path.rsplit("/", 1)[-1].partition("?")[0]: (method, path, head, body)
          for method, path, head, body in endpoint.requests}
    create = json.loads(by["sandbox"][3])
    lib.equal((create["autoDeleteInterval"], create["autoStopInterval"], create["networkBlockAll"], "cpu" in create,
               "snapshot" in create), (0, 15, True, False, False), "create: ephemeral, stopped when idle, no network")
    lib.ok({"caisson.machine", "caisson.boot", "caisson.program"} <= set(create["labels"]), "create: labels say whose it is",
           create["labels"])
    machine = pathlib.Path("/etc/machine-id")
    own = machine.read_text().strip() if machine.exists() else "" # empty: an image that was never booted
    lib.ok(not own or own not in json.dumps(create), "create: not the machine's id itself")
    _, _, head, body = by["bulk-upload"]
    lib.ok(b'name="files[0].path"\r\n\r\n/home/daytona/s.py\r\n' in body and b'name="files[0].file"' in body and
           head["content-type"].startswith("multipart/form-data; boundary="), "upload: path and file as parts", body)
    run = json.loads(by["execute"][3])
    lib.equal((run["cwd"], run["timeout"]), ("/home/daytona", 60), "execute: where and how long")
    lib.has(by["download"][1], "path=%2Fhome%2Fdaytona%2Fs_output.md", "download: the path is escaped")
    lib.equal(done.returncode, 0, "and all is well")


TESTS = [hostile_creates, hostile_steps, what_was_made_is_deleted, a_cut_anywhere_is_an_error,
         a_name_that_was_chosen_is_deleted_if_it_became_ours, the_key_goes_to_the_service_alone, a_certificate_is_verified, a_request_is_as_the_sdks_send_it]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(12) as its_pool:
        pathlib.Path(directory, "s.py").write_text("print('never run')\n")
        lib.main(bound(TESTS, directory, its_pool))
