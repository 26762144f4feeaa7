#!/usr/bin/env python3
"""relay.py with a driver behind it, without a sandbox: what it carries, to whom, and what it leaves."""
import binascii
import hashlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import tap
from driver_host import BOOT, DEADLINE_S, DOCUMENTS, PACKET, SOURCE, Driver

RELAY = SOURCE.with_name("relay.py").read_text(encoding="utf-8")


def frame(kind, data=b""):
    return kind + len(data).to_bytes(4, "big") + data


def until(condition):
    end = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


class Line:
    """One `connect`: frames in, lines out."""

    def __init__(self, path):
        self.process = subprocess.Popen([sys.executable, "-c", RELAY, "connect", str(path)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.n = 0

    def say(self, kind, data=b""):
        self.process.stdin.write(frame(kind, data))
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        self.n += len(line)
        return (line[:1], binascii.a2b_base64(line[1:])) if line else (b"", b"")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class FarDriver(Driver):
    """The driver at the other end of a line; speaks as the one that is near."""

    def __init__(self, path, **config):
        self.path, self.n, self.is_gone, self.n_lines = path, 0, False, 0
        self.out, self.err = "o", "e"
        self.output = {"o": bytearray(), "e": bytearray()}
        self.config = {"repo_path": str(path.parent), "memory_root": str(path.parent / "memory"), "has_volume": False,
                       "enter": True, "tools": [], **config}
        self.open()
        self.ready = self.hello()

    def open(self):
        self.line = Line(self.path)
        self.n_lines += 1
        kind, self.pid = self.line.read()
        assert kind == b"r", kind

    def close(self):
        self.line.close()

    def send_bytes(self, data):
        self.line.say(b"P", b"B" + len(data).to_bytes(4, "big") + data[:PACKET])
        for at in range(PACKET, len(data), PACKET):
            self.line.say(b"P", b"C" + data[at:at + PACKET])

    def receive(self):
        data, want = bytearray(), -1
        while True:
            kind, piece = self.line.read()
            if kind in (b"o", b"e"):
                self.output[kind.decode()] += piece
            elif kind == b"n":
                self.line.say(b"E")
                assert self.line.read() == (b"", b"")
                self.line.close()
                self.open()
            elif kind == b"p" and piece[:1] == b"B":
                want, data = int.from_bytes(piece[1:5], "big"), bytearray(piece[5:])
            elif kind == b"p":
                data += piece[1:]
            else:
                self.is_gone = True
                return None
            if len(data) == want:
                return self.read_frame(bytes(data))

    def take_output(self):
        taken = bytes(self.output["o"]), bytes(self.output["e"])
        self.output = {"o": bytearray(), "e": bytearray()}
        return taken


class RelayCase(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.temp.name).resolve()
        self.path = self.dir / "door"
        done = subprocess.run([sys.executable, "-c", RELAY, "serve", str(self.path), BOOT,
                               SOURCE.read_text(encoding="utf-8"), DOCUMENTS.read_text(encoding="utf-8")],
                              stdin=subprocess.DEVNULL, capture_output=True, cwd=self.dir, timeout=DEADLINE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"caisson-relay\n"), done.stderr)
        self.driver = FarDriver(self.path)
        self.pid = int(self.driver.pid)

    def tearDown(self):
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.assertTrue(until(lambda: not self.is_there(self.pid)), "the relay does not end")
        self.driver.close()
        self.temp.cleanup()

    @staticmethod
    def is_there(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] != b"Z"
        except OSError:
            return False

    def test_values_output_and_calls_come_and_go(self):
        done = self.driver.execute("import os\nprint('out')\nos.system('echo child; echo err >&2')\n"
                                   "SUBMIT(a=ask(20), b=list(range(3)))", tools={"ask": lambda n: n + 1})
        self.assertIsNotNone(done["error"])  # nobody has declared ask
        self.driver.hello(tools=[["ask", None]])
        done = self.driver.execute("import os\nprint('out')\nos.system('echo child; echo err >&2')\n"
                                   "SUBMIT(a=ask(20), b=list(range(3)))", tools={"ask": lambda n: n + 1})
        self.assertEqual((done["out"], done["err"], done["final"]), ("out\nchild\n", "err\n", {"a": 21, "b": [0, 1, 2]}))

    def test_bytes_are_exact_and_large_values_take_several_lines(self):
        done = self.driver.execute("import sys\nfor _ in range(40): sys.stdout.buffer.write(bytes(range(256)) * 4096)\n"
                                   "SUBMIT(v='x' * 30000000)")
        self.assertEqual(hashlib.sha256(done["raw"]).digest(), hashlib.sha256(bytes(range(256)) * 4096 * 40).digest())
        self.assertEqual(len(done["final"]["v"]), 30000000)
        self.assertGreater(self.driver.n_lines, 3)
        self.assertLess(self.driver.line.n, 32 << 20)

    def test_large_frames_go_in(self):
        done = self.driver.execute("SUBMIT(len(v))", vars={"v": '"%s"' % ("y" * 5000000)})
        self.assertEqual(done["final"], {"output": 5000000}, done)

    def test_one_client_at_a_time_and_the_state_stays(self):
        self.driver.execute("x = 41")
        second = Line(self.path)
        self.driver.execute("x += 1")
        self.driver.close()  # killed, in the middle of nothing
        self.assertEqual(second.read(), (b"r", b"%d" % self.pid))
        second.close()
        self.driver = FarDriver(self.path)
        self.assertEqual(self.driver.execute("SUBMIT(x)")["final"], {"output": 42})

    def test_a_client_killed_in_a_flood_leaves_a_session(self):
        self.driver.execute("x = 1")
        self.driver.n += 1
        self.driver.send({"op": "exec", "id": self.driver.n, "code": "while True: print('z' * 65536)"})
        while self.driver.line.read()[0] != b"o":
            pass
        self.driver.close()
        self.driver = FarDriver(self.path)
        self.assertTrue(self.driver.ready["busy"])
        self.driver.line.say(b"S", b"2")
        while self.driver.receive()["op"] != "done":
            pass
        self.driver.take_output()
        self.assertEqual(self.driver.execute("SUBMIT(x)")["final"], {"output": 1})

    def test_a_signal_interrupts_the_code(self):
        self.driver.n += 1
        self.driver.send({"op": "exec", "id": self.driver.n, "code": "print('in', flush=True)\nimport time\ntime.sleep(600)"})
        while self.driver.line.read()[0] != b"o":
            pass
        self.driver.line.say(b"S", b"2")
        done = self.driver.finish(self.driver.n, {})
        self.assertEqual(done["error"][0], "KeyboardInterrupt")

    def test_its_end_takes_everything_along(self):
        done = self.driver.execute("import os, subprocess\np = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
                                   "far = os.popen('setsid sh -c \\'sleep 600 & echo $!\\'').readline()\nSUBMIT(p.pid, int(far))")
        pids = done["final"]["output"]
        self.assertTrue(all(self.is_there(pid) for pid in pids))
        os.kill(self.pid, signal.SIGTERM)
        self.assertTrue(until(lambda: not any(self.is_there(pid) for pid in pids + [self.pid])), "something stays")
        self.assertFalse(self.path.exists())

    def test_a_driver_that_ends_is_told_with_its_last_words(self):
        done = self.driver.execute("import os\nos.write(1, b'bye')\nos._exit(3)")
        self.assertEqual((done.get("lost"), done["out"]), (True, "bye"))
        self.assertTrue(until(lambda: not self.path.exists()))
        late = Line(self.path)
        self.assertEqual(late.read(), (b"g", b""))
        late.close()

    def test_a_client_that_speaks_nonsense_loses_its_turn(self):
        self.driver.execute("x = 3")
        for said in (b"P\xff\xff\xff\xff", b"P\x00\x02\x00\x00", b"Q\x00\x00\x00\x00S\x00\x00\x00\x02ab" + b"P\xff\xff\xff\xff"):
            self.driver.close()
            raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            raw.settimeout(DEADLINE_S)
            raw.connect(str(self.path))
            raw.recv(64)
            raw.sendall(said)
            while raw.recv(65536):
                pass
            raw.close()
            self.driver = FarDriver(self.path)
        self.assertEqual(self.driver.execute("SUBMIT(x)")["final"], {"output": 3})

    def test_its_door_is_for_its_user(self):
        self.assertEqual(self.path.stat().st_mode & 0o077, 0)


if __name__ == "__main__":
    tap.main(__name__)
