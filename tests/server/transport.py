#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport in raw bytes: what is refused, what order answers come in, what slow, rude and vanishing clients get.

transport.py [PATTERN]: TAP. Starts the echo server (CSN_ECHO) once as it is and once with short deadlines."""
import atexit
import base64
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ECHO = os.environ["CSN_ECHO"]
IS_SANITIZED = os.environ.get("CSN_SANITIZED") == "1"
WAIT_S = 20  # for anything that should happen at once; a busy machine is no failure
HOST = b"Host: localhost\r\n"
tests = []


def test(fn):
    tests.append(fn)
    return fn


class Server:
    def __init__(self, *args, prefix=()):
        self.process = subprocess.Popen([*prefix, ECHO, *args], stdout=subprocess.PIPE)
        atexit.register(self.process.kill)  # whatever became of its test
        self.lines, self.pending = [], b""
        self.port = int(self.expect("PORT").split()[1])

    def expect(self, start, timeout=WAIT_S):
        """The next line that begins so; lines before it are dropped."""
        end = time.monotonic() + timeout
        while True:
            while self.lines:
                line = self.lines.pop(0)
                if line.startswith(start):
                    return line
            left = end - time.monotonic()
            assert left > 0 and select.select([self.process.stdout], [], [], left)[0], f"no line '{start}'"
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, f"the server ended before '{start}'"
            *whole, self.pending = (self.pending + data).split(b"\n")
            self.lines += [line.decode() for line in whole]

    def connect(self, rcvbuf=None, address=None):
        sock = socket.socket()
        if address:
            sock.bind((address, 0))
        if rcvbuf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        sock.settimeout(WAIT_S)
        sock.connect(("127.0.0.1", self.port))
        return Client(sock)

    def ask(self, data):
        with self.connect() as client:
            client.send(data)
            return client.answer()

    def stats(self):
        return json.loads(self.ask(get("/stats")).body)

    def wait_open(self, n):
        """Until n connections are open besides the one that asks."""
        end = time.monotonic() + WAIT_S
        while self.stats()["open"] != n + 1:
            assert time.monotonic() < end, f"{self.stats()} instead of {n + 1} open"

    def wait_working(self, n):
        """Until n requests are being worked on besides the one that asks."""
        end = time.monotonic() + WAIT_S
        while self.stats()["waiting"] != n + 1:
            assert time.monotonic() < end, f"{self.stats()} instead of {n + 1} waiting"

    def memory(self, key="VmRSS"):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(key)

    def cpu_s(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT_S)
        assert code == 0, f"exit {code}"


class Answer:
    def __init__(self, head, body):
        lines = head.split(b"\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {}
        for line in lines[1:]:
            name, value = line.split(b":", 1)
            self.headers[name.decode().lower()] = value.strip().decode("latin-1")
        self.body = body

    def json(self):
        return json.loads(self.body)


class Client:
    def __init__(self, sock):
        self.sock, self.buf = sock, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def more(self):
        data = self.sock.recv(1 << 16)
        self.buf += data
        return data

    def take(self, n):
        while len(self.buf) < n:
            assert self.more(), f"end after {len(self.buf)} of {n} bytes"
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def until(self, mark):
        while mark not in self.buf:
            assert self.more(), f"end before {mark!r}: {self.buf[:200]!r}"
        out, self.buf = self.buf.split(mark, 1)
        return out

    def chunks(self):
        body = b""
        while True:
            size = int(self.until(b"\r\n"), 16)
            body += self.take(size)
            assert self.take(2) == b"\r\n"
            if size == 0:
                return body

    def answer(self, is_head=False):
        head = Answer(self.until(b"\r\n\r\n"), b"")
        if head.headers.get("transfer-encoding") == "chunked":
            head.body = self.chunks()
        elif not is_head and head.status >= 200:
            head.body = self.take(int(head.headers.get("content-length", 0)))
        return head

    def is_closed(self):
        """True once the server ended; False if it sends something else."""
        try:
            return not self.buf and not self.more()
        except ConnectionResetError:
            return True


def get(path, extra=b""):
    return b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + extra + b"\r\n"


def post(path, body, extra=b""):
    return (b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + extra +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


def post_head(path, extra):
    return b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + extra + b"\r\n"


CHUNKED = b"Transfer-Encoding: chunked\r\n"

# ---- strictness ------------------------------------------------------------------------------------------------------

REFUSED = {
    "two different lengths": post_head("/echo", b"Content-Length: 2\r\nContent-Length: 3\r\n") + b"abc",
    "the same length twice": post_head("/echo", b"Content-Length: 2\r\nContent-Length: 2\r\n") + b"ab",
    "length and chunked": post_head("/echo", b"Content-Length: 2\r\n" + CHUNKED) + b"0\r\n\r\n",
    "chunked and length": post_head("/echo", CHUNKED + b"Content-Length: 2\r\n") + b"0\r\n\r\n",
    "xchunked": post_head("/echo", b"Transfer-Encoding: xchunked\r\n"),
    "gzip, chunked": post_head("/echo", b"Transfer-Encoding: gzip, chunked\r\n"),
    "encoding twice": post_head("/echo", CHUNKED + CHUNKED),
    "space before the colon": get("/echo", b"A : b\r\n"),
    "space before the name": get("/echo", b" A: b\r\n"),
    "folded line": get("/echo", b"A: b\r\n c\r\n"),
    "bare LF": b"GET /echo HTTP/1.1\nHost: localhost\n\n",
    "bare LF between headers": b"GET /echo HTTP/1.1\r\nHost: localhost\nA: b\r\n\r\n",
    "bare CR in a value": get("/echo", b"A: b\rc\r\n"),
    "length +2": post_head("/echo", b"Content-Length: +2\r\n") + b"ab",
    "length -2": post_head("/echo", b"Content-Length: -2\r\n") + b"ab",
    "length 2, 2": post_head("/echo", b"Content-Length: 2, 2\r\n") + b"ab",
    "length 0x2": post_head("/echo", b"Content-Length: 0x2\r\n") + b"ab",
    "empty length": post_head("/echo", b"Content-Length:\r\n"),
    "huge length": post_head("/echo", b"Content-Length: 99999999999999999999\r\n"),
    "chunk size 0x2": post_head("/echo", CHUNKED) + b"0x2\r\nab\r\n0\r\n\r\n",
    "chunk size +2": post_head("/echo", CHUNKED) + b"+2\r\nab\r\n0\r\n\r\n",
    "chunk size with space": post_head("/echo", CHUNKED) + b"2 \r\nab\r\n0\r\n\r\n",
    "chunk size of 17 digits": post_head("/echo", CHUNKED) + b"00000000fffffffff\r\n",
    "chunk longer than it said": post_head("/echo", CHUNKED) + b"2\r\nabc\r\n0\r\n\r\n",
    "chunk with bare LF": post_head("/echo", CHUNKED) + b"2\nab\n0\n\n",
    "empty chunk size": post_head("/echo", CHUNKED) + b"\r\nab\r\n",
    "no Host": b"GET /echo HTTP/1.1\r\n\r\n",
    "two Hosts": get("/echo", HOST),
    "NUL in a value": get("/echo", b"A: b\0c\r\n"),
    "NUL in the target": b"GET /ec\0ho HTTP/1.1\r\n" + HOST + b"\r\n",
    "control character": get("/echo", b"A: b\x01c\r\n"),
    "method GE(T": b"GE(T /echo HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces": b"GET  /echo HTTP/1.1\r\n" + HOST + b"\r\n",
    "no version": b"GET /echo\r\n" + HOST + b"\r\n",
    "version http/1.1": b"GET /echo http/1.1\r\n" + HOST + b"\r\n",
    "no colon": get("/echo", b"nothing\r\n"),
    "empty name": get("/echo", b": b\r\n"),
    "a target without slash": b"GET echo HTTP/1.1\r\n" + HOST + b"\r\n",
    "raw UTF-8 in the target": "GET /é HTTP/1.1\r\n".encode() + HOST + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "chunked in HTTP/1.0": b"POST /echo HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n",
    "broken escape in the path": get("/item/%zz"),
    "encoded NUL in the path": get("/item/a%00b"),
    "encoded NUL in the query": get("/echo?q=%00"),
    "cut escape": get("/echo?q=%4"),
}
OTHERS = {
    "HTTP/2.0": (505, b"GET /echo HTTP/2.0\r\n" + HOST + b"\r\n"),
    "request line over 8 KiB": (414, get("/" + "a" * 9000)),
    "endless request line": (414, b"GET /" + b"a" * 9000),
    "headers over 64 KiB": (431, get("/echo", b"".join(b"A%d: %s\r\n" % (i, b"x" * 8000) for i in range(9)))),
    "101 headers": (431, get("/echo", b"A: b\r\n" * 101)),
    "unknown expectation": (417, get("/echo", b"Expect: tea\r\n")),
    "body over its limit, known": (413, post_head("/echo", b"Content-Length: 1048577\r\n")),
    "body over its limit, chunked": (413, post_head("/echo", CHUNKED) + b"100001\r\n" + b"x" * 0x100001),
    "a body where none is taken": (413, post_head("/none", b"Content-Length: 1000000\r\n")),
}


@test
def every_malformed_request_is_answered_400_and_closed(server, _):
    for name, data in REFUSED.items():
        with server.connect() as c:
            c.send(data)
            a = c.answer()
            assert a.status == 400, f"{name}: {a.status}"
            assert a.json()["statusCode"] == 400 and isinstance(a.json()["message"], str), name
            if "escape" not in name and "NUL in the" not in name:
                assert a.headers["connection"] == "close" and c.is_closed(), f"{name}: stays open"


@test
def what_is_too_long_or_unknown_has_its_own_status(server, _):
    for name, (status, data) in OTHERS.items():
        with server.connect() as c:
            try:
                c.send(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            a = c.answer()
            assert a.status == status, f"{name}: {a.status}"
            assert c.is_closed(), f"{name}: stays open"


@test
def exactly_the_limits_are_served(server, _):
    assert server.ask(get("/echo?q=" + "a" * 8000)).status == 200
    assert server.ask(get("/echo", b"A: b\r\n" * 99)).status == 200
    assert server.ask(post("/echo", b"x" * (1 << 20))).status == 200


# ---- framing -----------------------------------------------------------------------------------------------------------


@test
def pipelined_requests_are_answered_in_order(server, _):
    with server.connect() as c:
        c.send(b"".join(get(f"/echo?q={i}") for i in range(500)))
        for i in range(500):
            assert c.answer().json()["q"] == str(i)


@test
def a_request_behind_a_waiting_one_waits_too(server, _):
    with server.connect() as c:
        c.send(get("/park") + post("/echo", b"second") + get("/echo?q=third"))
        server.expect("parked")
        assert server.ask(get("/release")).status == 204
        assert c.answer().json() == {"released": True}
        assert c.answer().json()["body"] == "second"
        assert c.answer().json()["q"] == "third"


@test
def a_request_may_come_byte_by_byte(server, _):
    whole = post_head("/echo", CHUNKED) + b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n" + get("/echo?q=1")
    with server.connect() as c:
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(whole)):
            c.send(whole[i:i + 1])
        assert c.answer().json()["body"] == "abcde"
        assert c.answer().json()["q"] == "1"
    for i in range(1, len(whole)):
        with server.connect() as c:
            c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            c.send(whole[:i])
            c.send(whole[i:])
            assert c.answer().json()["body"] == "abcde", i
            assert c.answer().json()["q"] == "1", i


@test
def empty_lines_before_a_request_are_skipped(server, _):
    assert server.ask(b"\r\n\r\n" + get("/echo")).status == 200


@test
def a_stream_has_chunks_or_a_length(server, _):
    with server.connect() as c:
        c.send(get("/stream?bytes=300000") + get("/stream?bytes=300000&length=1") + get("/stream?bytes=0"))
        a = c.answer()
        assert a.headers["transfer-encoding"] == "chunked" and a.body == bytes(300000)
        a = c.answer()
        assert "transfer-encoding" not in a.headers and a.body == bytes(300000)
        assert c.answer().body == b""


@test
def http_1_0_gets_a_plain_stream_and_the_end(server, _):
    with server.connect() as c:
        c.send(b"GET /stream?bytes=100000 HTTP/1.0\r\n\r\n")
        a = c.answer()
        assert "transfer-encoding" not in a.headers and a.headers["connection"] == "close"
        n = len(c.buf)
        while data := c.sock.recv(1 << 16):
            n += len(data)
        assert n == 100000


@test
def connection_close_is_honoured(server, _):
    with server.connect() as c:
        c.send(get("/echo", b"Connection: close\r\n") + get("/echo"))
        assert c.answer().headers["connection"] == "close"
        assert c.is_closed()


@test
def head_and_204_have_no_body(server, _):
    with server.connect() as c:
        c.send(b"HEAD /echo HTTP/1.1\r\n" + HOST + b"\r\n" + get("/status/204") + b"HEAD /stream HTTP/1.1\r\n" + HOST + b"\r\n")
        a = c.answer(is_head=True)
        assert a.status == 200 and int(a.headers["content-length"]) > 10
        a = c.answer()
        assert a.status == 204 and "content-length" not in a.headers
        assert c.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK")
        c.send(get("/echo?q=still"))
        assert c.answer().json()["q"] == "still"


@test
def a_client_that_half_closes_gets_what_is_ready(server, _):
    with server.connect() as c:
        c.send(get("/echo?q=1") + get("/stream?bytes=2000000") + get("/echo?q=2"))
        c.sock.shutdown(socket.SHUT_WR)
        assert c.answer().json()["q"] == "1"
        # The stream is work in progress: whether it is completed depends on how much the socket takes at once.


# ---- routes ------------------------------------------------------------------------------------------------------------


@test
def paths_are_split_first_and_decoded_then(server, _):
    a = server.ask(get("/api/item/a%2Fb%3Ac?q=x+y%2Bz&q=%2Fp")).json()
    assert (a["param"], a["q"], a["q1"]) == ("a/b:c", "x y+z", "/p")
    a = server.ask(get("/item/x/of/%C3%A4/")).json()
    assert (a["param"], a["param1"]) == ("x", "ä")
    assert server.ask(get("/item/literal")).json()["pattern"] == "/item/literal"
    assert server.ask(get("/item/other")).json()["pattern"] == "/item/{}"
    assert server.ask(get("/item//of/x")).status == 404


@test
def the_planes_are_found_under_all_their_names(server, _):
    for path, box in (("/toolbox/b1/process/x", "b1"), ("/api/toolbox/b1/toolbox/process/x", "b1"),
                      ("/toolbox/b%201/toolbox/process/x", "b 1"), ("/process/x", None)):
        a = server.ask(get(path)).json()
        assert a["pattern"] == "/process/{}" and a["box"] == box and a["param"] == "x", path
    assert server.ask(get("/metrics")).status == 200
    assert server.ask(get("/api/metrics")).status == 404


@test
def errors_have_the_shape_of_their_plane(server, _):
    a = server.ask(get("/api/nothing?x=y"))
    assert a.status == 404 and a.headers["content-type"] == "application/json; charset=utf-8"
    e = a.json()
    assert (e["statusCode"], e["error"], e["path"]) == (404, "Not Found", "/api/nothing") and e["message"] and e["timestamp"]
    e = server.ask(get("/toolbox/b1/nothing")).json()
    assert (e["statusCode"], e["code"], e["source"], e["path"], e["method"]) == (
        404, "NOT_FOUND", "DAYTONA_DAEMON", "/nothing", "GET")
    a = server.ask(b"PUT /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n{}")
    assert a.status == 405 and a.headers["allow"] == "GET, HEAD, POST"
    assert server.ask(post("/json", b"[1]")).status == 400
    assert server.ask(post("/json", b'{"a":1,"a":2}')).status == 400
    assert server.ask(post("/json", b"")).json() == {}
    e = server.ask(get("/forget"))
    assert e.status == 500
    server.expect("done 500 /forget")


@test
def no_page_of_another_site_gets_in(server, _):
    assert server.ask(b"GET /echo HTTP/1.1\r\nHost: evil.example\r\n\r\n").status == 421
    assert server.ask(b"GET /echo HTTP/1.1\r\nHost: local host\r\n\r\n").status == 421
    for name in (b"127.0.0.1:1", b"[::1]:80", b"LOCALHOST", b"x.localhost:3", b"10.1.2.3"):
        assert server.ask(b"GET /echo HTTP/1.1\r\nHost: " + name + b"\r\n\r\n").status == 200, name
    a = server.ask(b"OPTIONS /echo HTTP/1.1\r\n" + HOST + b"Origin: http://evil.example\r\n\r\n")
    assert a.status == 405 and not [h for h in a.headers if h.startswith("access-control")]
    assert server.ask(get("/status/200?header=a%0d%0aB:+c")).status == 500


@test
def names_come_from_the_proxy_only_if_it_is_trusted(server, _):
    extra = b"X-Forwarded-Proto: https\r\nX-Forwarded-Host: box.example\r\nX-Forwarded-For: 9.9.9.9, 10.0.0.1\r\n"
    a = server.ask(get("/echo", extra)).json()
    assert (a["origin"], a["peer"]) == ("http://localhost", "127.0.0.1")
    other = Server("--trust-proxy")
    a = other.ask(get("/echo", extra)).json()
    assert (a["origin"], a["peer"]) == ("https://box.example", "10.0.0.1")
    for forged in (b"9.9.9.9, not-an-address, 10.0.0.1", b"not-an-address, 10.0.0.1", b"9.9.9.9\r\nX-Forwarded-For: 10.0.0.1"):
        assert other.ask(get("/echo", b"X-Forwarded-For: " + forged + b"\r\n")).json()["peer"] == "10.0.0.1", forged
    for unknown in (b"9.9.9.9, unknown", b"9.9.9.9\r\nX-Forwarded-For: unknown"):
        assert other.ask(get("/echo", b"X-Forwarded-For: " + unknown + b"\r\n")).json()["peer"] == "127.0.0.1", unknown
    other.stop()
    other = Server("--public-url", "https://pub.example/")
    assert other.ask(get("/echo")).json()["origin"] == "https://pub.example"
    assert other.ask(b"GET /echo HTTP/1.1\r\nHost: pub.example\r\n\r\n").status == 200
    other.stop()


# ---- bodies ------------------------------------------------------------------------------------------------------------


@test
def continue_is_said_only_when_the_request_was_accepted(server, _):
    for path in ("/echo", "/sink"):
        with server.connect() as c:
            c.send(post_head(path, b"Expect: 100-continue\r\nContent-Length: 5\r\n"))
            assert c.answer().status == 100
            c.send(b"hello")
            assert c.answer().status == 200
    for extra in (b"Authorization: Bearer no\r\n",):
        with server.connect() as c:
            c.send(post_head("/sink", b"Expect: 100-continue\r\nContent-Length: 5\r\n" + extra))
            assert c.answer().status == 401 and c.is_closed()
    with server.connect() as c:
        c.send(post("/echo", b"hello", b"Expect: 100-continue\r\n"))
        a = c.answer()
        assert (a if a.status != 100 else c.answer()).json()["body"] == "hello"


@test
def auth_may_take_its_time(server, _):
    with server.connect() as c:
        c.send(post("/echo", b"hello", b"Authorization: Bearer later\r\n") + get("/echo?q=2"))
        assert c.answer().json()["body"] == "hello"
        assert c.answer().json()["q"] == "2"
    with server.connect() as c:
        c.send(post("/sink", b"hello", b"Authorization: Bearer later\r\n"))
        assert c.answer().json()["bytes"] == 5


@test
def an_answer_before_the_body_arrives_and_the_connection_ends(server, _):
    with server.connect() as c:
        c.send(post_head("/early", b"Content-Length: 1000000000\r\n"))
        sent = 0
        try:
            while sent < 64 << 20:
                c.send(bytes(1 << 20))
                sent += 1 << 20
        except (BrokenPipeError, ConnectionResetError):
            pass
        a = c.answer()
        assert a.status == 413 and a.headers["connection"] == "close"
    server.wait_open(0)


@test
def a_body_that_goes_on_after_the_answer_is_not_read_without_end(server, _):
    with server.connect() as c:
        c.send(post_head("/early", CHUNKED))
        sent, end = 0, time.monotonic() + 30
        try:
            while sent < 256 << 20 and time.monotonic() < end:
                c.send(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
                sent += 1 << 20
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        assert sent < 64 << 20, sent  # what the sockets' buffers hold, and a little more
    server.wait_open(0)


@test
def a_small_body_nobody_wanted_does_not_cost_the_connection(server, _):
    with server.connect() as c:
        c.send(post("/nothing", b"x" * 1000) + post("/early", b"y" * 60000) + post("/none", b"{}") + get("/echo?q=on"))
        assert c.answer().status == 404
        assert c.answer().status == 413
        assert c.answer().status == 200
        assert c.answer().json()["q"] == "on"


@test
def a_sink_that_pauses_gets_every_byte_once(server, _):
    data = bytes(range(256)) * 8192
    want = 0
    for b in data:
        want = (want * 31 + b) & 0xFFFFFFFF
    for query in ("", "?pause=1"):
        with server.connect() as c:
            c.send(post("/sink" + query, data) + get("/echo?q=next"))
            a = c.answer().json()
            assert (a["bytes"], a["sum"]) == (len(data), want)
            assert c.answer().json()["q"] == "next"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(data[i:i + 777]), data[i:i + 777]) for i in range(0, 1 << 18, 777))
    with server.connect() as c:
        c.send(post_head("/sink?pause=1", CHUNKED) + chunks + b"0\r\n\r\n")
        n = len(range(0, 1 << 18, 777)) * 777
        assert c.answer().json()["bytes"] == min(n, len(data))


@test
def the_bodies_of_all_requests_together_are_bounded(_, fast):
    clients = [fast.connect() for _ in range(3)]
    for c in clients:
        c.send(post_head("/echo", b"Content-Length: 1048576\r\n") + bytes(900000))
    refused = select.select([c.sock for c in clients], [], [], WAIT_S)[0]
    assert len(refused) == 1  # whoever came last
    for c in clients:
        if c.sock in refused:
            a = c.answer()
            assert a.status == 503 and a.headers["retry-after"] == "1"
        else:
            c.send(bytes(1048576 - 900000))
            assert c.answer().status == 200
    assert fast.ask(post("/echo", bytes(1 << 20))).status == 200
    for c in clients:
        c.sock.close()


@test
def multipart_comes_back_as_it_went(server, _):
    body = (b"--BB\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\n/a\r\n"
            b"--BB\r\nContent-Disposition: form-data; name=\"files[0].file\"; filename=\"x\"\r\n\r\n\r\n--B\r\n--BB\r\n"
            b"Content-Disposition: form-data; name=\"e\"; filename*=utf-8''%E2%82%AC\r\n\r\n\r\n--BB--\r\n")
    a = server.ask(post("/mirror", body, b"Content-Type: multipart/form-data; boundary=BB\r\n"))
    mark = b"--" + a.headers["content-type"].split("=")[1].encode()
    parts = a.body.split(mark)
    assert len(parts) == 5 and parts[4] == b"--\r\n", a.body
    assert parts[1].endswith(b"\r\n\r\n/a\r\n") and parts[2].endswith(b"\r\n\r\n\r\n--B\r\n")
    assert b"filename=\"_\"; filename*=utf-8''%E2%82%AC\r\n" in parts[3]
    bad = post("/mirror", body[:-10], b"Content-Type: multipart/form-data; boundary=BB\r\n")
    assert server.ask(bad).status == 400
    assert server.ask(post("/mirror", body, b"Content-Type: multipart/mixed; boundary=BB\r\n")).status == 400


@test
def files_are_sent_whole_or_the_connection_is_cut(server, _):
    with tempfile.NamedTemporaryFile() as f:
        data = os.urandom(3 << 20)
        f.write(data)
        f.flush()
        with server.connect() as c:
            c.send(get(f"/file?path={f.name}") + get(f"/file?path={f.name}&chunked=1") + get("/echo?q=after"))
            assert c.answer().body == data
            assert c.answer().body == data
            assert c.answer().json()["q"] == "after"
        with server.connect() as c:
            c.send(get(f"/file?path={f.name}&claim={len(data) + 1}"))
            c.until(b"\r\n\r\n")
            c.take(len(data))
            assert c.is_closed()
    with server.connect() as c:
        c.send(get("/abort"))
        c.until(b"half\r\n")
        assert c.is_closed()


# ---- clients that leave ------------------------------------------------------------------------------------------------


@test
def a_client_that_leaves_is_noticed_at_once(server, _):
    for data, word in ((get("/park"), "park"), (post("/park", b"{}"), "park"), (get("/follow"), "follow"),
                       (get("/echo", b"Authorization: Bearer never\r\n"), "auth"),
                       (post_head("/sink", b"Content-Length: 100\r\n") + b"some", "sink"),
                       (post_head("/sink?pause=1", b"Content-Length: 100\r\n") + b"some", "sink"),
                       (post_head("/sink", CHUNKED) + b"4\r\nso", "sink"),
                       (get("/stream?bytes=1000000000"), "stream")):
        for is_rude in (False, True):
            c = server.connect()
            if is_rude:
                c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.send(data)
            if word in ("follow", "stream"):
                c.until(b"\r\n\r\n")
            server.wait_working(1)
            before = time.monotonic()
            c.sock.close()
            server.expect(f"gone {word}")
            assert time.monotonic() - before < 5, word
    server.wait_open(0)
    assert server.stats()["waiting"] == 1  # the one that asks


@test
def a_download_that_is_broken_off_leaves_nothing(server, _):
    with tempfile.NamedTemporaryFile() as f:
        f.truncate(1 << 30)
        fds = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        for _ in range(5):
            c = server.connect()
            c.send(get(f"/file?path={f.name}"))
            c.take(100000)
            c.sock.close()
        server.wait_open(0)
        now = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        assert now <= fds + 1, f"{fds} descriptors became {now}"  # the one that just asked may not be gone yet


# ---- slow clients ------------------------------------------------------------------------------------------------------


@test
def a_client_that_does_not_read_costs_little(server, _):
    server.ask(get("/stream?bytes=10000000"))
    before = server.memory()
    clients = []
    for _ in range(20):
        c = server.connect(rcvbuf=4096)
        c.send(get("/stream?bytes=100000000") * 10)
        clients.append(c)
    assert server.ask(get("/echo")).status == 200
    grown = server.memory() - before
    for c in clients:
        c.sock.close()
    server.wait_open(0)
    assert grown < 8 << 20 or IS_SANITIZED, f"{grown} bytes for 20 slow readers"


@test
def one_slow_client_does_not_slow_another(server, _):
    slow = server.connect()
    slow.send(post_head("/sink", b"Content-Length: 1000000\r\n") + b"x")
    half = server.connect()
    half.send(b"GET /echo HTTP/1.1\r\nHo")
    worst = 0
    for _ in range(200):
        start = time.monotonic()
        assert server.ask(get("/echo")).status == 200
        worst = max(worst, time.monotonic() - start)
    slow.sock.close()
    half.sock.close()
    server.expect("gone sink")
    assert worst < 2, worst


@test
def deadlines_pass(_, fast):
    idle, used, head, body, raw, reader = (fast.connect() for _ in range(6))
    reader.sock.close()
    reader = fast.connect(rcvbuf=4096)
    used.send(get("/echo"))
    used.answer()
    head.send(b"GET /echo HTTP/1.1\r\nHost: local")
    body.send(post_head("/sink", b"Content-Length: 100000\r\n") + b"some")
    raw.send(post_head("/echo", b"Content-Length: 1000\r\n") + b"some")
    reader.send(get("/stream?bytes=1000000000"))
    a = head.answer()
    assert a.status == 408 and head.is_closed()
    a = body.answer()
    assert a.status == 408 and body.is_closed()
    assert raw.answer().status == 408
    assert idle.is_closed() and used.is_closed()
    words = {fast.expect("gone").split()[1] for _ in range(2)}
    assert words == {"sink", "stream"}, words
    for c in (idle, used, head, body, raw, reader):
        c.sock.close()


@test
def a_slow_but_steady_body_is_taken(_, fast):
    with fast.connect() as c:
        c.send(post_head("/sink", b"Content-Length: 16000\r\n"))
        pause = threading.Event()
        for _ in range(16):  # 1,000 bytes each 0.2 s: five times the least
            c.send(bytes(1000))
            pause.wait(0.2)
        assert c.answer().json()["bytes"] == 16000


# ---- many --------------------------------------------------------------------------------------------------------------


def crowd(server, n):
    """So many clients that were answered; they stay connected as long as the server is known."""
    server.crowd = [server.connect() for _ in range(n)]
    for c in server.crowd:
        c.send(get("/echo"))
        assert c.answer().status == 200


@test
def too_many_connections_are_refused_politely(_, __):
    server = Server("--max", "10", "--per-address", "10")
    crowd(server, 10)
    with server.connect() as c:
        a = c.answer()
        assert a.status == 503 and a.json()["message"] and c.is_closed()
    server.crowd.pop().sock.close()
    end = time.monotonic() + WAIT_S
    while server.ask(get("/echo")).status != 200:
        assert time.monotonic() < end
    server.stop()
    server = Server("--per-address", "3")
    crowd(server, 3)
    assert server.connect().answer().status == 503
    server.stop()


@test
def no_address_alone_shuts_out_the_others(_, __):
    server = Server("--max", "8")
    crowd(server, 6)
    assert server.connect().answer().status == 503
    with server.connect(address="127.0.0.2") as c:
        c.send(get("/echo"))
        assert c.answer().status == 200
    server.stop()
    server = Server("--max", "8", "--trust-proxy")  # all come from the proxy's address
    crowd(server, 8)
    assert server.connect().answer().status == 503
    server.stop()


@test
def no_descriptor_left_is_a_503_and_not_an_end(_, __):
    server = Server(prefix=("prlimit", "--nofile=40:40"))
    clients, n_refused = [], 0
    for _ in range(60):
        c = server.connect()
        c.send(get("/echo"))
        try:
            n_refused += c.answer().status == 503
        except ConnectionResetError:
            n_refused += 1
        clients.append(c)
    assert n_refused >= 20, n_refused
    for c in clients:
        c.sock.close()
    end = time.monotonic() + WAIT_S
    while True:
        try:
            if server.ask(get("/echo")).status == 200:
                break
        except (ConnectionResetError, AssertionError):
            pass
        assert time.monotonic() < end
    server.stop()


@test
def ten_thousand_idle_connections_fit_in_30_mb(_, __):
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    n = min(10000, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = Server()
    server.ask(get("/echo"))
    before = server.memory()
    clients = []
    for _ in range(n):
        c = server.connect()
        c.send(get("/echo"))
        c.answer()
        clients.append(c)
    grown = server.memory() - before
    times = []
    with server.connect() as c:
        for _ in range(200):
            start = time.perf_counter()
            c.send(get("/echo"))
            c.answer()
            times.append(time.perf_counter() - start)
    print(f"# {n} idle connections: {grown / n:.0f} bytes each, {server.memory() / 1e6:.1f} MB in all; "
          f"GET beside them p50 {sorted(times)[100] * 1e6:.0f} us")
    for c in clients:
        c.sock.close()
    server.wait_open(0)
    assert server.memory("VmHWM") < 30e6 or IS_SANITIZED
    server.stop()


# ---- WebSockets ----------------------------------------------------------------------------------------------------------


def frame(op, payload, fin=1, mask=b"\x11\x22\x33\x44"):
    n = len(payload)
    head = bytes([fin << 7 | op])
    if n < 126:
        head += bytes([0x80 | n])
    else:
        head += bytes([0x80 | (126 if n < 65536 else 127)]) + n.to_bytes(2 if n < 65536 else 8, "big")
    whole = int.from_bytes(payload, "little") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "little")
    return head + mask + whole.to_bytes(n, "little")


class Socket(Client):
    def __init__(self, server, path="/ws", extra=b"", tail=b"", rcvbuf=None):
        super().__init__(server.connect(rcvbuf).sock)
        key = base64.b64encode(os.urandom(16))
        self.send(get(path, b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                            b"Sec-WebSocket-Key: " + key + b"\r\n" + extra) + tail)
        self.hello = self.answer()

    def frame(self):
        op, n = self.take(2)
        assert not n & 0x80
        if n >= 126:
            n = int.from_bytes(self.take(2 if n == 126 else 8), "big")
        return op, self.take(n)

    def is_closed_with(self, code):  # 0: no code given
        op, data = self.frame()
        assert (op, int.from_bytes(data[:2], "big")) == (0x88, code), (op, data)
        return True


@test
def a_websocket_echoes_whole_messages(server, _):
    with Socket(server, tail=frame(1, b"early")) as ws:
        assert ws.hello.status == 101 and "sec-websocket-protocol" not in ws.hello.headers
        assert "sec-websocket-extensions" not in ws.hello.headers
        assert ws.frame() == (0x81, b"early")
        for op, data in ((1, b""), (1, "grüße".encode()), (2, os.urandom(300)), (2, os.urandom(70000)),
                         (2, os.urandom(3 << 20))):
            ws.send(frame(op, data))
            assert ws.frame() == (0x80 | op, data)
        ws.send(frame(1, b"hel", 0) + frame(9, b"are you there") + frame(0, b"l", 0) + frame(0, b"", 0) + frame(0, b"o"))
        assert ws.frame() == (0x8A, b"are you there")
        assert ws.frame() == (0x81, b"hello")
        for byte in frame(1, b"byte by byte"):
            ws.send(bytes([byte]))
        assert ws.frame() == (0x81, b"byte by byte")
        ws.send(frame(8, struct.pack(">H", 4001) + b"bye"))
        assert ws.is_closed_with(4001) and ws.is_closed()
        server.expect("closed 4001")


@test
def a_websocket_is_closed_with_the_right_code(server, _):
    with Socket(server) as ws:
        ws.send(frame(1, b"close") + frame(1, b"ignored"))
        op, data = ws.frame()
        assert (op, data) == (0x88, struct.pack(">H", 4008) + b"as asked")
        ws.send(frame(8, data))
        assert ws.is_closed()
        server.expect("closed 4008")
    for name, data, code in (("bad UTF-8", frame(1, b"\xff\xfe"), 1007), ("split bad UTF-8", frame(1, b"\xc3", 0) + frame(0, b"("), 1007),
                             ("not masked", b"\x81\x02hi", 1002), ("reserved bit", b"\xf1\x80\1\2\3\4", 1002),
                             ("reserved opcode", frame(3, b"x"), 1002), ("long ping", frame(9, bytes(126)), 0),
                             ("continuation of nothing", frame(0, b"x"), 1002),
                             ("too large", b"\x82\xff\x00\x00\x00\x00\x01\x00\x00\x01\1\2\3\4abc", 1009)):
        with Socket(server) as ws:
            ws.send(data)
            try:
                ws.is_closed_with(code)
            except (AssertionError, OSError) as e:
                raise AssertionError(f"{name}: {e}") from None
        server.expect("closed")
    with Socket(server) as ws:  # too large only together
        ws.send(frame(2, bytes(12 << 20), 0))
        ws.send(frame(0, bytes(8 << 20)))
        assert ws.is_closed_with(1009)
    server.expect("closed")
    with Socket(server, path="/ws?max=1") as ws:
        ws.send(frame(1, b"x" * 100))
        assert ws.frame() == (0x81, b"x" * 100)
        ws.send(frame(1, b"x" * 60, 0) + frame(0, b"x" * 41))
        assert ws.is_closed_with(1009)
    server.expect("closed")
    ws = Socket(server)
    ws.sock.close()
    server.expect("closed 1006")
    server.wait_open(0)
    assert server.stats()["sockets"] == 0


@test
def a_close_that_is_not_answered_ends_all_the_same(_, fast):
    with Socket(fast) as ws:
        ws.send(frame(1, b"close"))
        assert ws.is_closed_with(4008)
        fast.expect("closed 4008")
        assert ws.is_closed()


@test
def a_handshake_is_checked(server, _):
    def with_headers(**changes):
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        headers.update({k.replace("_", "-"): v for k, v in changes.items()})
        return server.ask(get("/ws", b"".join(f"{k}: {v}\r\n".encode() for k, v in headers.items() if v)))

    a = with_headers()
    assert a.status == 101 and a.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert with_headers(Upgrade=None).status == 426
    assert with_headers(Connection="keep-alive").status == 426
    a = with_headers(Sec_WebSocket_Version="8")
    assert a.status == 426 and a.headers["sec-websocket-version"] == "13"
    assert with_headers(Sec_WebSocket_Key="short").status == 400
    assert with_headers(Sec_WebSocket_Key=None).status == 400
    assert with_headers(Origin="http://evil.example").status == 403
    assert with_headers(Origin="null").status == 403
    assert with_headers(Origin="http://localhost:5173").status == 101
    with Socket(server, extra=b"Sec-WebSocket-Protocol: one, two\r\n") as ws:
        assert ws.hello.headers["sec-websocket-protocol"] == "one"
    with Socket(server, path="/ws?proto=two", extra=b"Sec-WebSocket-Protocol: one\r\nSec-WebSocket-Protocol: two\r\n") as ws:
        assert ws.hello.headers["sec-websocket-protocol"] == "two"
    begun = server.cpu_s()
    with Socket(server, extra=b"Sec-WebSocket-Protocol: " + b"a," * 30000 + b"\r\n") as ws:
        assert ws.hello.headers["sec-websocket-protocol"] == "a"
    assert server.cpu_s() - begun < 0.3, "a long list of offers takes the time of all others"
    server.wait_open(0)


@test
def a_websocket_that_does_not_read_is_not_read_from(server, _):
    server.ask(get("/echo"))
    before = server.memory()
    sockets = []
    for kind in (frame(2, bytes(60000)), frame(9, b""), frame(9, bytes(125)), frame(1, b"x")):
        ws = Socket(server, rcvbuf=4096)
        ws.sock.setblocking(False)
        end, sent = time.monotonic() + 10, 0
        while time.monotonic() < end and sent < 64 << 20:
            try:
                sent += ws.sock.send(kind * (1 + 65536 // len(kind)))
            except BlockingIOError:
                if not select.select([], [ws.sock], [], 0.5)[1]:
                    break  # it is stuck, as it should be
        sockets.append(ws)
    grown = server.memory() - before
    with Socket(server) as ws:  # fragments of one byte
        ws.send(b"".join([frame(2, b"a", 0)] + [frame(0, b"b", 0)] * 300000))
        ws.send(frame(0, b"c"))
        op, data = ws.frame()
        assert len(data) == 300002
    grown = max(grown, server.memory() - before)
    for ws in sockets:
        ws.sock.close()
    server.wait_open(0)
    assert grown < 12 << 20 or IS_SANITIZED, f"{grown} bytes"


@test
def a_sender_is_told_to_wait_and_to_go_on(server, _):
    with Socket(server, rcvbuf=4096) as ws:
        ws.send(frame(1, b"flood"))
        n = 0
        while (got := ws.frame())[0] == 0x82:
            n += len(got[1])
        assert got == (0x81, b"drained") and n >= 256 << 10


@test
def rude_clients_of_every_kind_leave_nothing_behind(server, _):
    import random
    draw = random.Random(7)
    upgrade = (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
    beginnings = [get("/echo"), get("/stream?bytes=3000000"), get("/stream?bytes=3000000&length=1"), get("/follow"), get("/park"),
                  get("/release"), get("/abort"), get("/forget"), get("/echo", b"Authorization: Bearer never\r\n"),
                  post("/sink", bytes(100000)), post("/sink?pause=1", bytes(300000)), post("/echo", bytes(50000)),
                  post_head("/sink?pause=1", CHUNKED) + b"100\r\n" + bytes(256) + b"\r\n", post("/early", bytes(90000)),
                  get("/ws", upgrade) + frame(1, b"flood") + frame(9, b"x") * 50, get("/ws", upgrade) + frame(2, bytes(9000), 0),
                  get("/ws", upgrade) + frame(1, b"close"), *REFUSED.values()]
    clients = []
    for _ in range(1500):
        c = server.connect(rcvbuf=draw.choice((None, 4096)))
        c.sock.setblocking(False)
        data = b"".join(draw.choices(beginnings, k=draw.randint(1, 4)))
        try:
            c.sock.send(data[:draw.choice((len(data), draw.randint(1, len(data))))])
        except OSError:
            pass
        clients.append(c)
        while len(clients) > draw.randint(0, 60):
            c = clients.pop(draw.randrange(len(clients)))
            end = draw.randrange(4)
            try:
                if end == 0:
                    c.sock.shutdown(socket.SHUT_WR)
                    clients.append(c)
                    break
                if end == 1:
                    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if end == 2:
                    c.sock.recv(1 << 20)
            except OSError:
                pass
            c.sock.close()
    for c in clients:
        c.sock.close()
    server.wait_open(0)
    stats = server.stats()
    assert stats["waiting"] == 1 and stats["sockets"] == 0, stats
    server.lines, server.pending = [], b""


# ---- the end -----------------------------------------------------------------------------------------------------------


@test
def a_graceful_end_tells_everybody(_, __):
    server = Server()
    idle, parked, part, follow = (server.connect() for _ in range(4))
    parked.send(get("/park"))
    server.expect("parked")
    part.send(b"GET /ec")
    follow.send(get("/follow"))
    follow.until(b"first\n\r\n")
    ws = Socket(server)
    assert ws.hello.status == 101
    server.wait_open(5)
    before = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    a = parked.answer()
    assert a.status == 503 and a.headers["connection"] == "close"
    server.expect("gone park")
    assert ws.is_closed_with(1001)
    ws.send(frame(8, struct.pack(">H", 1001)))
    assert ws.is_closed() and idle.is_closed() and follow.is_closed()
    assert part.answer().status == 503
    for c in (idle, parked, part, follow, ws):
        c.sock.close()
    assert server.process.wait(WAIT_S) == 0
    assert time.monotonic() - before < 5


@test
def a_stubborn_client_does_not_hold_up_the_end(_, __):
    server = Server()
    ws = Socket(server)
    reader = server.connect(rcvbuf=4096)
    reader.send(get("/stream?bytes=1000000000"))
    reader.take(10)
    before = time.monotonic()
    server.stop()
    assert time.monotonic() - before < 10
    ws.sock.close()
    reader.sock.close()


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [t for t in tests if pattern in t.__name__]
    server, fast = Server(), Server("--fast")
    print(f"1..{len(chosen) + 1}")
    n_failed = 0
    for i, fn in enumerate(chosen, 1):
        try:
            fn(server, fast)
            print(f"ok {i} - {fn.__name__}")
        except Exception as e:  # the next test tells whether the server still lives
            import traceback
            n_failed += 1
            where = traceback.extract_tb(e.__traceback__)
            line = [f for f in where if f.name == fn.__name__][-1].lineno
            print(f"not ok {i} - {fn.__name__}\n# line {line}: {type(e).__name__}: {e}")
        sys.stdout.flush()
    try:
        server.stop()
        fast.stop()
        print(f"ok {len(chosen) + 1} - the_servers_end_well")
    except Exception as e:
        n_failed += 1
        print(f"not ok {len(chosen) + 1} - the_servers_end_well\n# {e}")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
