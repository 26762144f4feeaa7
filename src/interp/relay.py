# SPDX-License-Identifier: Apache-2.0
"""Carries the driver's channel where nobody hands out descriptors, inside the sandbox. Standard library only, Python 3.8+.

    relay.py serve PATH BOOT SOURCE DOCUMENTS   starts the driver and stays, in the background; prints READY first
    relay.py connect PATH                       a client's way to it, over its stdin and stdout

Theory of operation. `serve` holds what the keeper holds elsewhere: the other ends of the driver's socket and of its output
pipes. It outlives its clients, and takes one at a time; others wait at its door. While there is none it reads nothing from
the driver, which then blocks when its pipes are full. What came out of the pipes goes before the packet that came after it.

Both speak frames: a letter, the length (4 bytes, big-endian), data. To the driver: 'P' a packet, 'S' a signal's number, 'E' the
client will send no more. From it: 'r' and our pid: it is your turn, 'p' a packet, 'o' and 'e' output, 'x' the driver has ended. `connect`
passes its stdin on as it is. Its stdout is the log of a service's command, where some bytes mean something else, and which has
an end: so each frame is a line there, the letter and the data in base64, and after MOST bytes the last one is 'n': another
`connect` goes on where this one stopped, after its 'E'.
"""
import _thread
import binascii
import os
import select
import signal
import socket
import sys
import time

READY = b"caisson-relay"
HEAD = 5
PIECE = 64 * 1024
HELD = 256 * 1024  # kept for a side that does not read, before the other one waits, too
MOST = 16 << 20
READS = 16  # per turn and pipe: who never stops printing lets others speak
LAST_S = 5


def frame(kind, data=b""):
    return kind + len(data).to_bytes(4, "big") + data


# ---- the side of the driver -----------------------------------------------------------------------------------------


def adopt_orphans():
    """So that the driver's children are found when all are to end; without it, those that left their parents stay."""
    try:
        import ctypes
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except Exception:
        pass


def descendants():
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as f:
                    parents[int(name)] = int(f.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    found, more = set(), {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more and pid not in found}
        found |= more
    return found


def kill_all():
    """Again and again: who is being killed may have children meanwhile."""
    for _ in range(100):
        alive = descendants()
        if not alive:
            return
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except OSError:
            pass
        time.sleep(0.01)


class Relay:
    def __init__(self, path, program):
        self.path = path
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o077)
        self.door.bind(path)
        os.umask(mask)
        self.door.listen(16)
        self.program = program
        self.client = None
        self.said = bytearray()  # by the client, not a whole frame yet
        self.to_client = bytearray()
        self.to_driver = []
        self.n_sent = 0
        self.is_turning = False
        self.is_ended = False
        self.must_kill = False

    def start_driver(self):
        self.channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes = [os.pipe(), os.pipe()]
        self.outs = {pipes[0][0]: b"o", pipes[1][0]: b"e"}
        self.driver = os.fork()
        if self.driver == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                os.dup2(pipes[0][1], 1)
                os.dup2(pipes[1][1], 2)
                os.dup2(far.detach(), 3)
                os.execvp("python3", ["python3", "-u", "-c"] + self.program)
            finally:
                os._exit(127)
        far.close()
        for reader, writer in pipes:
            os.close(writer)
            os.set_blocking(reader, False)
        self.channel.setblocking(False)

    def on_term(self, *_):
        self.must_kill = True

    def watch_signals(self):
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.on_term)
        self.wakes = reader

    # -- the client --

    def accept(self):
        self.client = self.door.accept()[0]
        self.client.setblocking(False)
        self.said.clear()
        self.to_client[:] = frame(b"r", b"%d" % os.getpid())
        self.n_sent = 0
        self.is_turning = False

    def drop_client(self):
        self.client.close()
        self.client = None
        self.said.clear()
        self.to_client.clear()

    def hear(self):
        try:
            data = self.client.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop_client()
            return
        self.said += data
        while self.client and len(self.said) >= HEAD:
            n = HEAD + int.from_bytes(self.said[1:HEAD], "big")
            if n > HEAD + PIECE:
                self.drop_client()
            elif len(self.said) < n:
                break
            else:
                kind, data = bytes(self.said[:1]), bytes(self.said[HEAD:n])
                del self.said[:n]
                self.obey(kind, data)

    def obey(self, kind, data):
        if kind == b"P":
            self.to_driver.append(data)
        elif kind == b"S":
            try:
                os.kill(self.driver, int(data))
            except (OSError, ValueError):
                pass  # it has ended, which is told
        elif kind == b"E":
            self.drop_client()

    def tell(self, kind, data=b""):
        if not self.client:
            return
        self.to_client += frame(kind, data)
        self.n_sent += HEAD + len(data)

    def send_client(self):
        try:
            n = self.client.send(memoryview(self.to_client)[:PIECE])
        except BlockingIOError:
            return
        except OSError:
            self.drop_client()
            return
        del self.to_client[:n]

    # -- the driver --

    def send_driver(self):
        try:
            while self.to_driver:
                self.channel.send(self.to_driver[0])
                del self.to_driver[0]
        except BlockingIOError:
            pass
        except OSError:
            self.is_ended = True

    def read_out(self, fd):
        for _ in range(READS):
            try:
                data = os.read(fd, PIECE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                os.close(fd)
                del self.outs[fd]
                return
            self.tell(self.outs[fd], data)

    def read_channel(self):
        try:
            packet = self.channel.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        for fd in list(self.outs):  # written before the packet was
            self.read_out(fd)
        if packet:
            self.tell(b"p", packet)
        else:
            self.is_ended = True

    def reap(self):
        try:
            os.read(self.wakes, 4096)
        except OSError:
            pass
        try:
            while True:
                pid = os.waitpid(-1, os.WNOHANG)[0]
                if pid == 0:
                    return
                if pid == self.driver:
                    self.driver = 0
                    self.read_channel()  # its last words
                    self.is_ended = True
        except OSError:
            pass

    # -- turns --

    def turn(self):
        poll = select.poll()
        poll.register(self.wakes, select.POLLIN)
        wants = self.client is not None and not self.is_turning and len(self.to_client) < HELD
        if not self.client:
            poll.register(self.door, select.POLLIN)
        else:
            events = select.POLLIN if len(self.to_driver) < 64 else 0
            poll.register(self.client, events | (select.POLLOUT if self.to_client else 0))
        events = (select.POLLIN if wants else 0) | (select.POLLOUT if self.to_driver else 0)
        if events or not self.client:  # its end shows without being asked for
            poll.register(self.channel, events)
        for fd in self.outs if wants else ():
            poll.register(fd, select.POLLIN)
        for fd, event in poll.poll():
            self.serve_one(fd, event, wants)
        if self.client and self.n_sent > MOST and not self.is_turning:
            self.is_turning = True
            self.tell(b"n")

    def serve_one(self, fd, event, wants):
        if fd == self.wakes:
            self.reap()
        elif fd == self.door.fileno():
            self.accept()
        elif self.client and fd == self.client.fileno():
            if event & select.POLLOUT:
                self.send_client()
            if self.client and event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self.hear()
        elif fd == self.channel.fileno():
            if event & select.POLLOUT:
                self.send_driver()
            if wants and event & (select.POLLIN | select.POLLHUP):
                self.read_channel()
            elif event & select.POLLHUP:
                self.is_ended = self.client is None
        elif fd in self.outs:
            self.read_out(fd)

    def run(self):
        self.watch_signals()
        self.start_driver()
        adopt_orphans()
        while not self.is_ended and not self.must_kill:
            self.turn()
        try:
            os.unlink(self.path)
        except OSError:
            pass
        if self.must_kill:
            kill_all()
        elif self.driver:
            os.kill(self.driver, signal.SIGKILL)
        self.tell(b"x")
        if self.client:
            self.part()
        os._exit(0)

    def part(self):
        """What was said arrives, and the client's `connect` is gone before we are."""
        try:
            self.client.setblocking(True)
            self.client.settimeout(LAST_S)
            self.client.sendall(self.to_client)
            while self.client.recv(PIECE):
                pass
        except OSError:
            pass


def serve(path, program):
    """The door is open before that is told."""
    relay = Relay(path, program)
    if os.fork():
        os.write(1, READY + b"\n")
        os._exit(0)
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    try:
        relay.run()
    finally:
        os._exit(1)


# ---- the side of a client -------------------------------------------------------------------------------------------


def pass_stdin_on(sock):
    try:
        while True:
            data = os.read(0, PIECE)
            if not data:
                sock.shutdown(socket.SHUT_WR)
                return
            sock.sendall(data)
    except OSError:
        pass  # the other direction tells of it


def write_all(data):
    while data:
        data = data[os.write(1, data):]


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except OSError:
        write_all(b"g\n")
        os._exit(0)
    _thread.start_new_thread(pass_stdin_on, (sock,))
    stream = sock.makefile("rb", PIECE)
    try:
        while True:
            head = stream.read(HEAD)
            if len(head) < HEAD:
                break
            data = stream.read(int.from_bytes(head[1:], "big"))
            write_all(head[:1] + binascii.b2a_base64(data))
            if head[:1] == b"x":
                break
    except OSError:
        pass
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    else:
        connect(sys.argv[2])
