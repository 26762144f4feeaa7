"""A WebSocket client in a few lines: enough to see every frame and how it ended."""
import base64
import os
import socket
import struct


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body[:200]!r}")
        self.status, self.body = status, body


class WebSocket:
    def __init__(self, port, path, key, offers=(), headers=None, timeout=60):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        head = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade",
                "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Version": "13",
                "Authorization": f"Bearer {key}", **(headers or {})}
        if offers:
            head["Sec-WebSocket-Protocol"] = ", ".join(offers)
        text = f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in head.items()) + "\r\n"
        self.sock.sendall(text.encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            piece = self.sock.recv(65536)
            if not piece:
                raise Refused(0, self.rest)
            self.rest += piece
        answer, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = answer.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        if self.status != 101:
            while len(self.rest) < int(self.headers.get("content-length", 0)):
                self.rest += self.sock.recv(65536)
            raise Refused(self.status, self.rest)
        self.code = self.reason = None

    def _read(self, n):
        while len(self.rest) < n:
            piece = self.sock.recv(65536)
            if not piece:
                raise EOFError("the server left without a word")
            self.rest += piece
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def _send(self, opcode, data):
        mask = os.urandom(4)
        n = len(data)
        head = bytes([0x80 | opcode])
        head += bytes([0x80 | n]) if n < 126 else bytes([0xFE]) + struct.pack(">H", n) if n < 65536 else \
            bytes([0xFF]) + struct.pack(">Q", n)
        key = int.from_bytes((mask * (n // 4 + 1))[:n], "big") if n else 0
        body = (int.from_bytes(data, "big") ^ key).to_bytes(n, "big") if n else b""
        self.sock.sendall(head + mask + body)

    def send(self, data):
        self._send(1 if isinstance(data, str) else 2, data.encode() if isinstance(data, str) else data)

    def receive(self):
        """The next message, str or bytes; None when the server closed (code and reason say how)."""
        while True:
            first, second = self._read(2)
            n = second & 127
            n = struct.unpack(">H", self._read(2))[0] if n == 126 else struct.unpack(">Q", self._read(8))[0] \
                if n == 127 else n
            data = self._read(n)
            opcode = first & 15
            if opcode == 8:
                self.code = struct.unpack(">H", data[:2])[0] if n >= 2 else 1005
                self.reason = data[2:].decode()
                try:
                    self._send(8, data[:2])
                except OSError:
                    pass
                self.sock.close()
                return None
            if opcode == 9:
                self._send(10, data)
            elif opcode in (1, 2):
                return data.decode() if opcode == 1 else data

    def all(self):
        messages = []
        while True:
            message = self.receive()
            if message is None:
                return messages
            messages.append(message)

    def leave(self):
        self.sock.close()
