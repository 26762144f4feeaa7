#!/usr/bin/env python3
"""Previews: what listens on a port of a sandbox is reached through the server, whoever may, and nothing it says hurts."""
import hashlib
import http.client
import json
import os
import pathlib
import socket
import threading
import time
import urllib.error
import urllib.request

from lib import Server, Work, equal, main, ok, run, until
from websocket import Refused, WebSocket

APP = pathlib.Path(__file__).with_name("preview_app.py")


class Scene:
    """A server, two organisations, a sandbox with the app in it."""

    def __init__(self, work, *options):
        state = ("--state", str(work / "state"))
        _, first, _ = run("key", "create", "ours", *state)
        _, second, _ = run("key", "create", "theirs", "--org", "others", *state)
        self.server = Server(work, *options).start()
        self.port = self.server.port
        self.key, self.other_key = first.strip(), second.strip()
        self.client = self.server.client(self.key)
        made = self.client.ask("POST", "/api/sandbox", {"name": "shown", "autoStopInterval": 0})
        self.box = made.json["id"]
        self.client.upload(self.box, "app.py", APP.read_bytes())
        self.client.ask("POST", f"/toolbox/{self.box}/process/session", {"sessionId": "app"})
        self.client.ask("POST", f"/toolbox/{self.box}/process/session/app/exec",
                        {"command": "python3 app.py", "runAsync": True})
        link = self.client.ask("GET", f"/api/sandbox/{self.box}/ports/3000/preview-url").json
        self.url, self.token = link["url"], link["token"]
        self.tokens = {3000: self.token}
        ok(until(lambda: self.get("/health")[0] == 200), "a preview answers once its port is there")

    def token_of(self, port):
        """Each port has its own."""
        if port not in self.tokens:
            self.tokens[port] = self.client.ask("GET", f"/api/sandbox/{self.box}/ports/{port}/preview-url").json["token"]
        return self.tokens[port]

    def get(self, path, port=3000, token=True, method="GET", data=None, headers=None, timeout=60):
        """status, headers, bytes: with urllib, as fleet-rlm asks."""
        head = dict(headers or {})
        if token:
            head["x-daytona-preview-token"] = self.token_of(port) if token is True else token
        url = self.url.replace("/3000", f"/{port}") + path
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, head, method=method), timeout=timeout) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def raw(self, text, seconds=60):
        """All bytes that come back on a connection of its own."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=seconds)
        sock.sendall(text)
        got = b""
        while piece := sock.recv(65536):
            got += piece
        sock.close()
        return got


def messages_of(data):
    return json.loads(data)["message"]


def plain(s):
    status, headers, data = s.get("/mirror?max=5&lease_seconds=60")
    told = json.loads(data)
    equal((status, told["method"], told["path"]), (200, "GET", "/mirror?max=5&lease_seconds=60"), "a path and its query arrive")
    equal(headers["X-App"], "yes", "and the answer's headers come back")
    equal(headers.get_all("Set-Cookie"), [f"a=1; Path=/preview/{s.box}/3000/", f"b=2; HttpOnly; Path=/preview/{s.box}/3000/"],
          "cookies for this preview alone")
    got = {k.lower(): v for k, v in told["headers"]}
    equal((got.get("host"), got.get("connection")), ("localhost:3000", "close"), "it is called by a name it knows")
    equal((got.get("x-forwarded-host"), got.get("x-forwarded-proto"), got.get("x-forwarded-for"), got.get("x-forwarded-prefix")),
          (f"127.0.0.1:{s.port}", "http", "127.0.0.1", f"/preview/{s.box}/3000"), "and told where it was asked for")
    ok("x-daytona-preview-token" not in got, "but not the token")
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        _, _, data = s.get("/mirror/a%2Fb//c/../d", method=method, data=b'{"answer": 42}')
        told = json.loads(data)
        equal((told["method"], told["path"], told["n"]), (method, "/mirror/a%2Fb//c/../d", 14), f"{method}, and an odd path as it is")
    status, headers, data = s.get("/health", method="HEAD")
    equal((status, headers["Content-Length"], data), (200, "2", b""), "HEAD")
    status, headers, data = s.get("/nothing")
    equal((status, headers["Content-Length"], headers["Transfer-Encoding"], data), (204, None, None, b""), "204")
    status, _, data = s.get("/nowhere")
    equal((status, data), (404, b"no such thing"), "an error of the app is the app's own")
    sock = http.client.HTTPConnection("127.0.0.1", s.port)
    sock.request("GET", f"/preview/{s.box}/3000/redirect", headers={"x-daytona-preview-token": s.token})
    equal(sock.getresponse().headers["Location"], f"/preview/{s.box}/3000/elsewhere?x=1", "a redirect stays below the preview")
    sock.close()
    _, headers, _ = s.get("/origin")
    equal([headers.get(h) for h in ("Strict-Transport-Security", "Service-Worker-Allowed", "Alt-Svc", "X-Kept")],
          [None, None, None, "kept"], "what would speak for all of the server's origin is not passed on")


def by_host(s):
    def ask(host, path="/mirror", token=True):
        text = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        text += f"x-daytona-preview-token: {s.token}\r\n\r\n" if token else "\r\n"
        return s.raw(text.encode())

    got = ask(f"3000-{s.box}.localhost:{s.port}", "/mirror/x?y=z")
    ok(b" 200 " in got and b'"path": "/mirror/x?y=z"' in got, "by name: {port}-{id}.localhost", got[:500])
    ok(b"Set-Cookie: b=2; path=/; HttpOnly\r\n" in got, "its cookies are not its neighbours'", got[:500])
    ok(b" 403 " in ask(f"2280-{s.box}.localhost", "/work-dir"), "port 2280 is the toolbox, and another port's token not its key")
    ok(b" 401 " in ask(f"3000-{s.box}.localhost", token=False), "not without the token")
    ok(b" 421 " in ask(f"3000-{s.box}.elsewhere.example"), "nor by a name that is not ours")


def who_may(s):
    mine, theirs = {"Authorization": f"Bearer {s.key}"}, {"Authorization": f"Bearer {s.other_key}"}
    status, _, data = s.get("/mirror", token=None, headers=mine)
    equal(status, 200, "a key of the organisation opens it")
    ok(s.key not in data.decode(), "and is not told to the sandbox")
    _, _, data = s.get("/mirror", headers={"Authorization": "Bearer the-apps-own"})
    ok('"Bearer the-apps-own"' in data.decode(), "another Authorization is the app's own")
    _, _, data = s.get("/mirror", headers=mine)
    ok(s.key not in data.decode(), "a key beside a token isn't told either")
    status, _, data = s.get(f"/mirror?a=1&DAYTONA_SANDBOX_AUTH_KEY={s.token}&b=2", token=None)
    equal((status, json.loads(data)["path"]), (200, "/mirror?a=1&b=2"), "the token in the query opens it, and stays here")
    equal(s.get("/health", token=None)[0], 401, "nothing: 401")
    equal(s.get("/health", token="0" * 32)[0], 401, "a wrong token: 401")
    equal(s.get("/health", token=None, headers=theirs)[0], 404, "another organisation's key: 404")
    equal(s.get("/work-dir", port=2280, token=None)[0], 401, "the toolbox's port asks as well")
    equal(s.get("/work-dir", port=2280, token=None, headers=mine)[0], 200, "and is the toolbox")
    for port in ("0", "65536", "x", "-1"):
        equal(s.get("/health", port=port, token=None, headers=mine)[0], 400, f"port {port}: 400")
    equal(s.client.ask("POST", f"/api/sandbox/{s.box}/public/true").status, 200, "made public")
    equal(s.get("/health", token=None)[0], 200, "a public one needs nothing")
    equal(s.get("/health", token="0" * 32)[0], 200, "and minds nothing")
    _, _, data = s.get("/mirror", token=None, headers=theirs)
    ok(s.other_key not in data.decode(), "whoever comes with a key does not lose it")
    for port in ("2280", "22222", "33333", "022222"):
        equal(s.get("/work-dir", port=port, token=None)[0], 401, f"but port {port} does")
    s.client.ask("POST", f"/api/sandbox/{s.box}/public/false")
    equal(s.get("/health", token=None)[0], 401, "and no longer")


def bodies(s):
    data = os.urandom(1 << 20) * 48
    _, _, told = s.get("/mirror", method="POST", data=data)
    told = json.loads(told)
    equal((told["n"], told["sha256"]), (len(data), hashlib.sha256(data).hexdigest()), "48 MiB there")
    conn = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    conn.request("POST", f"/preview/{s.box}/3000/mirror", body=(data[i:i + 70000] for i in range(0, 7000000, 70000)),
                 headers={"x-daytona-preview-token": s.token}, encode_chunked=True)
    told = json.loads(conn.getresponse().read())
    equal((told["n"], told["sha256"]), (7000000, hashlib.sha256(data[:7000000]).hexdigest()), "7 MB there in chunks")
    conn.request("GET", f"/preview/{s.box}/3000/health", headers={"x-daytona-preview-token": s.token})
    equal(conn.getresponse().read(), b"ok", "the connection goes on")
    conn.close()
    _, headers, data = s.get("/big")
    equal((headers["Content-Length"], hashlib.sha256(data).hexdigest()),
          (str(64 << 20), hashlib.sha256(bytes(range(256)) * (64 << 12)).hexdigest()), "64 MiB back")
    _, headers, data = s.get("/chunks")
    equal((headers["Transfer-Encoding"], data), ("chunked", b"".join(bytes([i]) * 100000 for i in range(64))), "chunks back")
    equal(s.get("/old")[2], b"until the end " * 1000, "an answer that ends with its connection")


def events(s):
    conn = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    conn.request("GET", f"/preview/{s.box}/3000/events", headers={"x-daytona-preview-token": s.token})
    answer = conn.getresponse()
    equal((answer.headers["Content-Type"], answer.read1(100)), ("text/event-stream", b"data: first\n\n"), "an event arrives when it is sent")
    s.get("/go")
    equal(answer.read(), b"data: second\n\n", "and the next one when that is")
    conn.close()


def websockets(s):
    path = f"/preview/{s.box}/3000/ws"
    ws = WebSocket(s.port, path, s.key)
    for message in ("hello", os.urandom(100), os.urandom(70000), os.urandom(3 << 20)):
        ws.send(message)
        if not equal(ws.receive() == message, True, f"a WebSocket's {len(message)} bytes there and back"):
            break
    ws.leave()
    ws = WebSocket(s.port, f"{path}?DAYTONA_SANDBOX_AUTH_KEY={s.token}", "none", headers={"Authorization": ""})
    ws.send("again")
    equal(ws.receive(), "again", "with the token in the query, as browsers do")
    ws._send(8, b"\x03\xe8")
    equal((ws.receive(), ws.code), (None, 1000), "and an orderly end")
    try:
        WebSocket(s.port, path, "nobody", headers={"Authorization": ""})
        ok(False, "not without a token")
    except Refused as error:
        equal(error.status, 401, "not without a token")
    try:
        WebSocket(s.port, f"/preview/{s.box}/3000/mirror", s.key)
        ok(False, "what refuses an upgrade answers as usual")
    except Refused as error:
        equal(error.status, 200, "what refuses an upgrade answers as usual")


def signed(s):
    def sign(query="", port=3000, client=None):
        return (client or s.client).ask("GET", f"/api/sandbox/{s.box}/ports/{port}/signed-preview-url{query}")

    def get(url):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    made = sign().json
    equal((made["sandboxId"], made["port"], len(made["token"])), (s.box, 3000, 16), "a URL is signed")
    equal(get(made["url"] + "/health"), (200, b"ok"), "and needs nothing else")
    equal(get(made["url"].replace("/3000", "/3001") + "/interim")[0], 401, "it is for its port alone")
    host = f"GET /health HTTP/1.1\r\nHost: 3000-{made['token']}.localhost\r\nConnection: close\r\n\r\n"
    ok(s.raw(host.encode()).endswith(b"ok"), "it works by name, too")
    equal(get(sign("?expiresInSeconds=86400", 2280).json["url"] + "/work-dir")[0], 401, "it does not open the toolbox")
    for query in ("0", "86401", "x", "-5"):
        equal(sign(f"?expiresInSeconds={query}").status, 400, f"not for {query} seconds")
    theirs = s.server.client(s.other_key)
    equal(sign(client=theirs).status, 404, "another organisation signs nothing")
    path = f"/api/sandbox/{s.box}/ports/3000/signed-preview-url/{made['token']}/expire"
    equal(theirs.ask("POST", path).status, 404, "nor does it end one")
    equal(get(made["url"] + "/health")[0], 200, "which goes on")
    equal(s.client.ask("POST", path).status, 200, "until it is expired")
    equal(get(made["url"] + "/health")[0], 401, "and is no more")
    short = sign("?expiresInSeconds=1").json["url"]
    ok(until(lambda: get(short + "/health")[0] == 401, 10), "one ends with its time")


def pace(s):
    """Neither side is read faster than the other one takes it."""
    def settled(read):
        before = -1
        while (now := read()) != before:
            before = now
            time.sleep(0.2)
        return now

    head = f"HTTP/1.1\r\nHost: localhost\r\nx-daytona-preview-token: {s.token}\r\n"
    sock = socket.create_connection(("127.0.0.1", s.port), timeout=60)
    sock.sendall(f"GET /preview/{s.box}/3000/forever {head}\r\n".encode())
    ok(until(lambda: int(s.get("/sent")[2]) > 0), "an endless answer begins")
    n = settled(lambda: int(s.get("/sent")[2]))
    ok(n < 64 << 20, "and waits for a client that does not read", n)
    sock.close()
    sock = socket.create_connection(("127.0.0.1", s.port), timeout=1)
    head = head.replace(s.token, s.token_of(3001))
    sock.sendall(f"POST /preview/{s.box}/3001/deaf {head}Content-Length: {1 << 40}\r\n\r\n".encode())
    n = 0
    try:
        while n < 1 << 30:
            n += sock.send(b"x" * 65536)
    except TimeoutError:
        pass
    ok(n < 64 << 20, "so does an endless body for an app that does not read", n)
    sock.close()


def unaudited(s):
    log = (s.server.state / "front" / "audit.log").read_text()
    ok("/toolbox/" in log and "/preview/{}/{}" not in log and "signed-preview-url" in log,
       "previews don't fill the audit log; who signs a URL is in it")


def leaving(s):
    sock = socket.create_connection(("127.0.0.1", s.port), timeout=60)
    sock.sendall(f"GET /preview/{s.box}/3000/forever HTTP/1.1\r\nHost: localhost\r\nx-daytona-preview-token: {s.token}\r\n\r\n".encode())
    n = 0
    while n < 4 << 20:
        n += len(sock.recv(1 << 20))
    sock.close()
    equal(s.get("/left")[2], b"yes", "a client that leaves ends what was written for it")


def nobody_there(s):
    begin = time.monotonic()
    answers = [s.get("/health", port=4444) for _ in range(20)]
    equal({a[0] for a in answers}, {502}, "a port where nothing listens: 502")
    ok(time.monotonic() - begin < 10, "at once")
    equal(messages_of(answers[0][2]), "Port 4444 of the sandbox: nothing listens there", "as JSON, with a message")


def hostile(s):
    bad = ("garbage", "ssh", "bare-lf", "two-lengths", "both", "folded", "huge-line", "huge-head", "many-headers",
           "interim-for-ever", "unasked-switch", "closed", "half-a-head")
    for name in bad:
        status, _, data = s.get(f"/{name}", port=3001)
        ok(status == 502 and messages_of(data), f"an answer that is none: {name}", status, data)
    equal(s.get("/interim", port=3001)[2], b"hi", "hints before the answer are passed over")
    for name in ("short", "bad-chunk", "cut-chunk"):
        try:
            got = s.get(f"/{name}", port=3001)
            ok(False, f"an answer that breaks off is seen to: {name}", got)
        except (http.client.IncompleteRead, OSError):
            ok(True, f"an answer that breaks off is seen to: {name}")
    head = f"GET /preview/{s.box}/3001/more HTTP/1.1\r\nHost: localhost\r\nx-daytona-preview-token: {s.token_of(3001)}\r\n"
    got = s.raw((head + "\r\n" + head + "Connection: close\r\n\r\n").encode())
    ok(got.count(b"HTTP/1.1 200") == 2 and b"evil" not in got, "what follows an answer is nobody's", got)


def previews():
    with Work() as work:
        s = Scene(work)
        silent = {}

        def wait_for_silent():
            silent["answer"] = s.get("/silent", port=3001, timeout=120)

        waiting = threading.Thread(target=wait_for_silent, daemon=True)
        waiting.start()
        begin = time.monotonic()
        idle = WebSocket(s.port, f"/preview/{s.box}/3000/ws", s.key)
        for part in (plain, by_host, who_may, bodies, events, websockets, signed, pace, leaving, nobody_there, hostile,
                     unaudited):
            try:
                part(s)
            except Exception as error:  # noqa: BLE001 the others go on
                ok(False, part.__name__, repr(error))
        waiting.join(120)
        ok(silent.get("answer", [0])[0] == 504, "what never answers is not waited for for ever", silent, time.monotonic() - begin)
        idle.send("still there")
        equal(idle.receive(), "still there", "a WebSocket may be silent for a minute")
        s.client.ask("POST", f"/api/sandbox/{s.box}/stop")
        try:
            equal(idle.receive(), None, "it ends with the sandbox")
        except (EOFError, OSError):
            ok(True, "it ends with the sandbox")
        equal(s.get("/health", token=None, headers={"Authorization": f"Bearer {s.key}"})[0], 400, "a stopped sandbox has no ports")
        equal(s.server.stop(), 0, "the server ends well")


if __name__ == "__main__":
    main([previews])
