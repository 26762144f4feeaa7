"""The host's side of the driver's channel, for tests: starts driver.py as the engine does and speaks its frames."""
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src" / "interp" / "driver.py"
DOCUMENTS = SOURCE.with_name("documents.py")
BOOT = ("import builtins,sys;sys.path[:]=[p for p in sys.path if p];"
        "exec(compile(sys.argv[1],'<caisson-driver>','exec'),"
        "{'__name__':'caisson_driver','__builtins__':dict(vars(builtins))})")
PACKET = 32 * 1024 - 16
DEADLINE_S = 120


class Driver:
    def __init__(self, directory, **config):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.out, out_end = os.pipe()
        self.err, err_end = os.pipe()
        self.output = {self.out: bytearray(), self.err: bytearray()}

        def child():
            os.dup2(theirs.fileno(), 3)

        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", BOOT, SOURCE.read_text(encoding="utf-8"),
             DOCUMENTS.read_text(encoding="utf-8")], stdin=subprocess.DEVNULL,
            stdout=out_end, stderr=err_end, cwd=directory, pass_fds=(3,), preexec_fn=child,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(directory)})
        theirs.close()
        os.close(out_end)
        os.close(err_end)
        self.n = 0
        self.is_gone = False
        self.config = {"repo_path": str(directory), "memory_root": str(directory / "memory"), "has_volume": False,
                       "enter": True, "tools": [], **config}
        self.ready = self.hello()

    def close(self):
        self.socket.close()
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.err)

    def send(self, message):
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, data):
        self.socket.send(b"B" + len(data).to_bytes(4, "big") + data[:PACKET])
        for at in range(PACKET, len(data), PACKET):
            self.socket.send(b"C" + data[at:at + PACKET])

    def receive(self):
        """The next message; None when the driver is gone. Output is collected on the way."""
        data, want = bytearray(), -1
        end = time.monotonic() + DEADLINE_S
        while True:
            ready, _, _ = select.select([self.socket, self.out, self.err], [], [], max(0, end - time.monotonic()))
            assert ready, "the driver does not answer"
            for fd in (self.out, self.err):
                if fd in ready:
                    self.output[fd] += os.read(fd, 1 << 20)
            if self.socket not in ready:
                continue
            try:
                packet = self.socket.recv(65536)
            except ConnectionResetError:
                packet = b""
            if not packet:
                self.is_gone = True
                return None
            if packet[:1] == b"B":
                want, data = int.from_bytes(packet[1:5], "big"), bytearray(packet[5:])
            else:
                data += packet[1:]
            if len(data) == want:
                return self.read_frame(bytes(data))

    @staticmethod
    def read_frame(data):
        """A JSON object; the texts of a final stand behind it and take the places of their lengths."""
        head, _nul, rest = data.partition(b"\0")
        message, at = json.loads(head), 0
        for field in message["fields"] if message["op"] == "final" else ():
            field[2], at = rest[at:at + field[2]].decode("utf-8"), at + field[2]
        assert at == len(rest), "bytes behind the frame"
        return message

    def take_output(self):
        for fd in (self.out, self.err):
            while select.select([fd], [], [], 0)[0]:
                piece = os.read(fd, 1 << 20)
                if not piece:
                    break
                self.output[fd] += piece
        taken = bytes(self.output[self.out]), bytes(self.output[self.err])
        self.output = {self.out: bytearray(), self.err: bytearray()}
        return taken

    def hello(self, **change):
        self.config.update(change)
        self.send({"op": "hello", "epoch": 7, "config": self.config})
        while True:
            message = self.receive()
            if message is None or message["op"] == "ready":
                return message

    def execute(self, code, tools=None, raw=False, **more):
        """{"out", "err", "error": None | (name, value, traceback), "final": None | {…}, "calls": [...]}; the final
        frame itself if that is wanted raw."""
        self.n += 1
        self.send({"op": "exec", "id": self.n, "code": code, **more})
        if raw:
            frame = self.receive()
            assert self.receive()["op"] == "done"
            return frame
        return self.finish(self.n, tools or {})

    def finish(self, number, tools):
        final, calls = None, []
        while True:
            message = self.receive()
            if message is None:
                out, err = self.take_output()
                return {"out": out.decode("utf-8", "replace"), "err": err.decode("utf-8", "replace"), "lost": True}
            if message["op"] == "tool_call":
                calls.append(message)
                self.answer(message, tools)
            elif message["op"] == "final" and message["id"] == number:
                final = {json.loads(name): json.loads(text) for name, _type, text in message["fields"]}
            elif message["op"] == "error":
                return {"refused": message["message"]}
            elif message["op"] == "done" and message["id"] == number:
                break
        error = message["error"] and tuple(json.loads(text) for text in message["error"])
        out, err = self.take_output()
        return {"out": out.decode("utf-8", "replace"), "err": err.decode("utf-8", "replace"), "error": error,
                "final": final, "calls": calls, "raw": out, "is_exit": message["is_exit"]}

    def answer(self, message, tools):
        args, kwargs = json.loads(message["args"]), json.loads(message["kwargs"])
        try:
            if message["name"] not in tools:
                raise RuntimeError("Unknown host callback: " + message["name"])
            value = tools[message["name"]](*args, **kwargs)
        except Exception as e:
            self.send({"op": "tool_error", "call": message["call"], "type": type(e).__name__, "message": str(e)})
        else:
            self.send({"op": "tool_result", "call": message["call"], "value": json.dumps(value)})
