"""What the test of previews runs in a sandbox: an honest HTTP server on port 3000, and one on 3001 that says whatever its
path asks for."""
import base64
import hashlib
import http.server
import json
import socket
import struct
import sys
import threading

left = threading.Event()
sent = 0
go = threading.Event()


class Honest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            n = int(self.headers.get("Content-Length", 0))
            while n > 0:
                piece = self.rfile.read(min(n, 1 << 16))
                n -= len(piece)
                yield piece
            return
        while n := int(self.rfile.readline(), 16):
            yield self.rfile.read(n)
            self.rfile.readline()
        self.rfile.readline()

    def say(self, data, status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def stream(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def mirror(self):
        digest, n = hashlib.sha256(), 0
        for piece in self.body():
            digest.update(piece)
            n += len(piece)
        told = {"method": self.command, "path": self.path, "headers": self.headers.items(), "n": n,
                "sha256": digest.hexdigest()}
        self.say(json.dumps(told).encode(), headers=[("Content-Type", "application/json"), ("X-App", "yes"),
                                                     ("Set-Cookie", "a=1"),
                                                     ("Set-Cookie", "b=2; path=/; Domain=localhost; HttpOnly")])

    def websocket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while len(head := self.rfile.read(2)) == 2:
            n = head[1] & 127
            if n > 125:
                n = struct.unpack(">H" if n == 126 else ">Q", self.rfile.read(2 if n == 126 else 8))[0]
            mask, data = self.rfile.read(4), self.rfile.read(n)
            data = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "big")).to_bytes(n, "big")
            size = bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 65536 else b"\x7f" + struct.pack(">Q", n)
            self.wfile.write(head[:1] + size + data)
            if head[0] & 15 == 8:
                return

    def handle_any(self):
        path = self.path.split("?")[0]
        if path == "/health":
            self.say(b"ok")
        elif path == "/mirror" or path.startswith("/mirror/"):
            self.mirror()
        elif path == "/big":
            self.say(bytes(range(256)) * (64 << 12))  # 64 MiB
        elif path == "/chunks":
            self.stream("application/octet-stream")
            for i in range(64):
                self.chunk(bytes([i]) * 100000)
            self.chunk(b"")
        elif path == "/old":
            self.close_connection = True
            self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"until the end " * 1000)
        elif path == "/events":
            self.stream("text/event-stream")
            self.chunk(b"data: first\n\n")
            go.wait(30)
            self.chunk(b"data: second\n\n")
            self.chunk(b"")
        elif path == "/go":
            go.set()
            self.say(b"gone")
        elif path == "/forever":
            self.stream("application/octet-stream")
            try:
                global sent
                while True:
                    self.chunk(b"x" * 65536)
                    sent += 65536
            except OSError:
                left.set()
                raise
        elif path == "/sent":
            self.say(str(sent).encode())
        elif path == "/left":
            self.say(b"yes" if left.wait(30) else b"no")
        elif path == "/redirect":
            self.say(b"", 302, [("Location", "/elsewhere?x=1")])
        elif path == "/nothing":
            self.send_response(204)
            self.end_headers()
        elif path == "/origin":
            self.say(b"", 200, [("Strict-Transport-Security", "max-age=1"), ("Service-Worker-Allowed", "/"),
                                ("Alt-Svc", 'h2="elsewhere:1"'), ("X-Kept", "kept")])
        elif path == "/ws":
            self.websocket()
        else:
            self.say(b"no such thing", 404)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any


SAYS = {
    "garbage": b"\x00\x01\x02 what is this\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded": b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n\r\n",
    "huge-line": b"HTTP/1.1 200 " + b"x" * (1 << 20),
    "huge-head": b"HTTP/1.1 200 OK\r\n" + b"X-A: %s\r\n" % (b"y" * 7000) * 100 + b"\r\n",
    "many-headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 5000 + b"\r\n",
    "interim-for-ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
    "unasked-switch": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    "closed": b"",
    "half-a-head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhi",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n",
    "cut-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    "more": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
}


def say(conn):
    head = b""
    while b"\r\n\r\n" not in head and (piece := conn.recv(65536)):
        head += piece
    name = head.split(b" ")[1].decode().strip("/") if b" " in head else ""
    if name == "silent":
        conn.recv(1)  # until the other side ends it
    if name == "deaf":
        threading.Event().wait(60)
    try:
        conn.sendall(SAYS.get(name, b""))
        conn.shutdown(socket.SHUT_WR)
        while conn.recv(65536):
            pass
    except OSError:
        pass
    conn.close()


def hostile():
    listener = socket.create_server(("127.0.0.1", 3001))
    while True:
        threading.Thread(target=say, args=(listener.accept()[0],), daemon=True).start()


threading.Thread(target=hostile, daemon=True).start()
print("there", flush=True)
http.server.ThreadingHTTPServer.request_queue_size = 64
http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1]) if len(sys.argv) > 1 else 3000), Honest).serve_forever()
