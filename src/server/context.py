# SPDX-License-Identifier: Apache-2.0
"""One interpreter context inside a sandbox. Standard library only, Python 3.8 or newer.

Descriptor 0 is a stream socket to the server; frames on it are 4 bytes of length, big-endian, and one JSON object. The
server sends one run at a time, {"id", "code", "envs"}, and gets {"op": "done", "id", "error"} when it is over. What code
prints does not pass here: descriptors 1 and 2 are pipes to the server, so child processes and C extensions are heard too.

User code shares this process and can break it; the server then starts another.
"""
import io
import json
import linecache
import os
import signal
import sys
import traceback
import types

FILE = "<stdin>"
ME = "<caisson-context>"
MAX_TEXT = 128 * 1024
PID = os.getpid()
LINK = os.dup(0)
os.set_inheritable(LINK, False)
in_user = [False]


def read_exactly(n):
    data = bytearray()
    while len(data) < n:
        piece = os.read(LINK, min(n - len(data), 1 << 20))
        if not piece:
            os._exit(0)
        data += piece
    return bytes(data)


def receive():
    return json.loads(read_exactly(int.from_bytes(read_exactly(4), "big")).decode("utf-8"))


def send(message):
    data = json.dumps(message).encode("ascii")
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(LINK, data):]


def text_of(value):
    """Text that any JSON reader takes, its end kept when it is long."""
    text = str(value).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return text if len(text) <= MAX_TEXT else "[...]" + text[-MAX_TEXT:]


def on_sigint(_number, _frame):
    if in_user[0] and os.getpid() == PID:
        raise KeyboardInterrupt


def open_stream(fd, errors):
    raw = open(fd, "wb", buffering=1024, closefd=False)
    return io.TextIOWrapper(raw, "utf-8", errors, newline="\n", line_buffering=True)


def own_streams():
    """Streams on 1 and 2, however the last run left them."""
    for fd, saved in ((0, NULL), (1, OUT), (2, ERR)):
        try:
            a, b = os.fstat(fd), os.fstat(saved)
            if (a.st_dev, a.st_ino) != (b.st_dev, b.st_ino):
                os.dup2(saved, fd)
        except OSError:
            os.dup2(saved, fd)
    if any(s.closed for s in STREAMS):
        STREAMS[:] = [open_stream(1, "surrogateescape"), open_stream(2, "backslashreplace")]
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = STREAMS


def flush():
    for stream in [sys.stdout, sys.stderr] + STREAMS:
        try:
            stream.flush()
        except BaseException:  # whatever the user put there
            pass


def describe(e):
    trace = e.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == ME:
        trace = trace.tb_next
    try:
        value = str(e)
    except BaseException as broken:
        value = "<%s in __str__>" % type(broken).__name__
    try:
        lines = traceback.format_exception(type(e), e, trace)
    except BaseException:
        lines = ["Traceback (most recent call last):\n", "%s: %s\n" % (type(e).__name__, value)]
    return [text_of(type(e).__name__), text_of(value), text_of("".join(lines))]


def run_user(code):
    in_user[0] = True
    try:
        exec(code, MODULE.__dict__)
    finally:
        in_user[0] = False


def run(job):
    source = job["code"]
    try:
        linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
        run_user(compile(source, FILE, "exec", 0, True))
    except SystemExit:
        return None
    except BaseException as e:
        in_user[0] = False
        return describe(e)
    return None


def serve(job):
    own_streams()
    signal.signal(signal.SIGINT, on_sigint)
    saved = {name: os.environ.get(name) for name in job.get("envs") or {}}
    os.environ.update(job.get("envs") or {})
    error = run(job)
    flush()
    if os.getpid() != PID:  # a fork that fell out of the user's code
        if error:
            os.write(2, error[2].encode("utf-8", "replace"))
        os._exit(1 if error else 0)
    for name, value in saved.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    send({"op": "done", "id": job["id"], "error": error})


signal.signal(signal.SIGINT, on_sigint)
NULL = os.open("/dev/null", os.O_RDONLY)
os.dup2(NULL, 0)
OUT, ERR = os.dup(1), os.dup(2)
for number in (NULL, OUT, ERR):
    os.set_inheritable(number, False)
STREAMS = [open_stream(1, "surrogateescape"), open_stream(2, "backslashreplace")]
MODULE = types.ModuleType("__main__")
MODULE.__dict__["__builtins__"] = __import__("builtins")
sys.modules["__main__"] = MODULE
sys.argv = [""]
if "" not in sys.path:
    sys.path.insert(0, "")
send({"op": "ready"})
while True:
    serve(receive())
