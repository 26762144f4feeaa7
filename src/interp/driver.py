# SPDX-License-Identifier: Apache-2.0
"""The process that holds a session's state, inside the sandbox. Standard library only, Python 3.8 or newer.

Theory of operation. The host starts `python3 -u -c BOOTSTRAP SOURCE DOCUMENTS` with a SOCK_SEQPACKET socket as descriptor 3.
The main thread runs user code and nothing else; a second thread reads the socket. Output is not this file's business:
descriptors 1 and 2 are pipes whose other ends the host holds, so prints, C extensions and child processes all arrive.

Packets are at most 32 KiB: 'B' + total length (4 bytes, big-endian) + data begins a frame and drops an unfinished one,
'C' + data continues it. A frame is one JSON object. What user code can fill (values, error texts) travels as JSON text
inside a string: integers of any length, NaN and NUL survive readers that know none of them. What it submits may be large:
it stands as JSON text behind the object and a NUL byte, where nothing has to be quoted, and the object has its lengths.

User code shares this process, so it can break it; then the host starts another. What it can't do by accident or by
printing is to speak for it. The source runs with builtins and modules of its own: what users put into json or os is
theirs alone. Their signal handlers, though, run wherever the main thread is, so what must happen there is insisted on.
"""
import _queue
import _signal
import _thread
import builtins
import errno
import fnmatch
import importlib
import io
import keyword
import linecache
import os
import pathlib
import re
import signal
import sys
import threading
import time
import traceback
import types


def own(module):
    """The module's names as they are now."""
    copy = type(module)(module.__name__)
    copy.__dict__.update(vars(module))
    return copy


def private(name):
    """A module of pure Python, and those below it, loaded for us alone."""
    def take():
        return {n: sys.modules.pop(n) for n in list(sys.modules) if n == name or n.startswith(name + ".")}

    theirs = take()
    module = importlib.import_module(name)
    take()
    sys.modules.update(theirs)
    importlib.import_module(name)  # its parts in C look for the public one
    return module


json = private("json")
_thread, errno, io, keyword, linecache, os, pathlib, re, threading, traceback, types = map(
    own, (_thread, errno, io, keyword, linecache, os, pathlib, re, threading, traceback, types))
os.path = own(os.path)
set_handler, SIGINT = _signal.signal, _signal.SIGINT
NAME_OF = type.__dict__["__name__"].__get__
GET_DIGITS, SET_DIGITS = (getattr(sys, name, None) for name in ("get_int_max_str_digits", "set_int_max_str_digits"))

PACKET = 32 * 1024 - 16
FILE = "<stdin>"
ME = "<caisson-driver>"
MAX_CALLS = 32
DEFAULT_LIMIT = 64 << 20
MAX_FRAME = 2 * DEFAULT_LIMIT + (1 << 20)
MAX_DOCUMENT = 64 << 20
MAX_TRIES = 10000
VOLUME_DIRS = (
    "memory", "artifacts", "buffers", "meta", "memories", "knowledge/ingested", "knowledge/summaries",
    "skills/system", "skills/user", "sessions", "logs", "uploads",
)
PROFILES = ("ROOT_INTERLOCUTOR", "RLM_ROOT", "RLM_DELEGATE", "MAINTENANCE")
PRISTINE = dict(vars(builtins))
CLEAN_PATH = list(sys.path)
IMPORT_LOCK = _thread.allocate_lock()
GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF)


class Submitted(SystemExit):
    """Ends the code that called SUBMIT. `except Exception` lets it pass, and threads end by it without a word."""


class State:
    """Everything that lives from one execute to the next."""

    def __init__(self, fd):
        self.fd = fd
        self.pid = os.getpid()
        self.is_child = False
        self.write_lock = _thread.allocate_lock()
        self.config = {}
        self.tools = {}
        self.jobs = []
        self.wakes = _queue.SimpleQueue()
        self.calls = {}
        self.n_calls = 0
        self.call_slots = _queue.SimpleQueue()
        for _ in range(MAX_CALLS):
            self.call_slots.put(None)
        self.running = None  # id of the execute under way
        self.in_user = False
        self.n_critical = 0
        self.is_interrupted = False
        self.old_threads = frozenset()
        self.final = None
        self.outputs = None
        self.profile = "RLM_DELEGATE"
        self.buffers = {}
        self.history = []
        self.processes = {}
        self.module = types.ModuleType("__main__")
        self.saved_env = {}
        self.std = ()
        self.std_fds = ()
        self.memory_path = pathlib.Path(memory_root({}))
        self.documents_source = ""
        self.documents = None


def library(name):
    """A module of the standard library, wherever the user's directory has one of the same name."""
    if name in sys.modules:
        return sys.modules[name]
    with IMPORT_LOCK:
        saved = sys.path[:]
        sys.path[:] = CLEAN_PATH
        try:
            return importlib.import_module(name)
        finally:
            sys.path[:] = saved


# ---- the channel ------------------------------------------------------------------------------------------------


def send(message, texts=()):
    """Of a function the answer is sent: nothing else is told between its look at things and that."""
    data = b"" if callable(message) else json.dumps(message).encode("ascii")
    if texts:
        data = b"".join((data, b"\0") + tuple(texts))
    enter_critical()
    try:
        with S.write_lock:
            if S.is_child:
                raise RuntimeError("Tool call failed: not in a child process")
            if callable(message):
                data = json.dumps(message()).encode("ascii")
            view = memoryview(data)
            write_packet(b"B" + len(data).to_bytes(4, "big"), view[:PACKET])
            for at in range(PACKET, len(data), PACKET):
                write_packet(b"C", view[at:at + PACKET])
    finally:
        leave_critical()


def write_packet(head, data):
    while True:
        try:
            return os.writev(S.fd, (head, data))
        except BlockingIOError:
            os.set_blocking(S.fd, True)  # user code found the descriptor


def read_packet():
    while True:
        try:
            return os.read(S.fd, 65536)
        except BlockingIOError:
            os.set_blocking(S.fd, True)


def is_gone(e):
    """Whether the host is no longer there. Handlers of the user's may raise a TimeoutError, which is an OSError too."""
    return isinstance(e, OSError) and e.errno in GONE


def insist(work, *args):
    """Does what must be done whatever the user's signal handlers raise in between; so it must bear to be done twice."""
    for _ in range(MAX_TRIES):
        try:
            return work(*args)
        except BaseException as e:
            if is_gone(e):
                os._exit(0)
    os._exit(1)


def receive():
    """The next frame's bytes; None when the host has gone."""
    data, want = bytearray(), -1
    while True:
        packet = read_packet()
        if not packet:
            return None
        if packet[:1] == b"B" and len(packet) >= 5:
            want = int.from_bytes(packet[1:5], "big")
            data = bytearray(packet[5:])
        elif packet[:1] == b"C" and want >= 0:
            data += packet[1:]
        else:
            continue
        if want > MAX_FRAME or len(data) > want:
            want = -1
        elif len(data) == want:
            return bytes(data)


def json_bytes(value, default=None):
    """JSON in UTF-8 that any reader of the outer frame accepts."""
    text = with_all_digits(lambda: json.dumps(value, ensure_ascii=False, default=default))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return with_all_digits(lambda: json.dumps(value, default=default)).encode("ascii")


def json_text(value, default=None):
    return json_bytes(value, default).decode("utf-8")


def value_of(text):
    return with_all_digits(lambda: json.loads(text))


def with_all_digits(work):
    """Newer Pythons refuse integers of more than 4300 digits; in a value they keep them all."""
    try:
        return work()
    except ValueError:
        if GET_DIGITS is None:
            raise
    limit = GET_DIGITS()
    SET_DIGITS(0)
    try:
        return work()
    finally:
        SET_DIGITS(limit)


def read_channel():
    while True:
        try:
            data = receive()
        except OSError:
            data = None
        if data is None or S.is_child:
            os._exit(0 if data is None else 1)
        try:
            message = json.loads(data.decode("utf-8"))
            handler = HANDLERS[message["op"]]
        except Exception:
            send({"op": "error", "message": "invalid command"})
            continue
        try:
            handler(message)
        except OSError:
            os._exit(0)
        except Exception as e:  # whatever the host sent, the session lives on
            send({"op": "error", "message": "invalid command: " + type(e).__name__})


def on_hello(message):
    fail_calls("Tool call failed: the host that was asked is gone")
    S.config = config = dict(message.get("config") or {})
    S.tools = {t[0]: t[1] for t in config.get("tools") or [] if is_tool_name(t[0])}
    if str(S.memory_path) != memory_root():
        S.memory_path = pathlib.Path(memory_root())
    problem = None
    if S.running is None:
        try:
            prepare_places(config)
        except OSError as e:
            problem = str(e)
    # who hears that an execute is under way waits for its end: that must not have been told before
    send(lambda: {"op": "ready", "epoch": message.get("epoch"), "busy": S.running, "problem": problem,
                  "python": "%d.%d.%d" % sys.version_info[:3], "pid": S.pid})


def prepare_places(config):
    path = config.get("repo_path")
    if path:
        os.makedirs(path, 0o755, exist_ok=True)
        if config.get("enter"):
            os.chdir(path)
    root = config.get("memory_root") if config.get("has_volume") else None
    for name in VOLUME_DIRS if root else ():
        try:
            os.makedirs(os.path.join(root, name), 0o755, exist_ok=True)
        except OSError:
            pass  # something else has its name, or nobody may write there: what was kept is not ours to change


def on_exec(message):
    if not isinstance(message.get("code"), str):
        send({"op": "error", "id": message.get("id"), "message": "missing code"})
        return
    S.jobs.append(message)
    S.wakes.put(None)


def on_probe(message):
    """Is this a whole statement? For line editors: a block is whole after an empty line."""
    codeop = library("codeop")
    code = without_mark(message["code"])
    try:
        state = "incomplete" if codeop.compile_command(code, FILE, "single") is None else "complete"
    except (SyntaxError, ValueError, OverflowError):
        state = "invalid"
    send({"op": "probed", "state": state})


def on_result(message):
    end_call(message["call"], ("value", value_of(message["value"])))


def on_error(message):
    end_call(message["call"], ("error", str(message.get("type")), str(message.get("message"))))


def on_shutdown(_message):
    os._exit(0)


HANDLERS = {"hello": on_hello, "exec": on_exec, "probe": on_probe, "tool_result": on_result,
            "tool_error": on_error, "shutdown": on_shutdown}


# ---- host callbacks ---------------------------------------------------------------------------------------------


def is_tool_name(name):
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)


def may_speak():
    """Whether the calling thread belongs to the execute under way."""
    return S.running is not None and not S.is_child and _thread.get_native_id() not in S.old_threads


def call_host(name, args, kwargs):
    if not may_speak():
        raise RuntimeError("Tool call failed: not part of the running execute")
    S.call_slots.get()
    try:
        slot = [_thread.allocate_lock(), ("error", "RuntimeError", "Tool call failed")]
        slot[0].acquire()
        S.n_calls += 1
        number = S.n_calls
        S.calls[number] = slot
        try:
            send({"op": "tool_call", "id": S.running, "call": number, "name": name,
                  "args": json_text(list(args), str), "kwargs": json_text(dict(kwargs), str)})
            slot[0].acquire()
        finally:
            S.calls.pop(number, None)
    finally:
        S.call_slots.put(None)
    answer = slot[1]
    if answer[0] == "value":
        return answer[1]
    kind = {"ValueError": ValueError, "TypeError": TypeError}.get(answer[1], RuntimeError)
    raise kind(answer[2])


def end_call(number, answer):
    slot = S.calls.pop(number, None)
    if slot is not None:
        slot[1] = answer
        slot[0].release()


def fail_calls(reason):
    for number in list(S.calls):
        end_call(number, ("error", "RuntimeError", reason))


def llm_query(prompt, context=""):
    """Asks the model one question; returns its answer as text."""
    return call_host("llm_query", (prompt, context), {})


def llm_query_batched(prompts, context=""):
    """Asks several questions at once; answers in the order of the questions."""
    return call_host("llm_query_batched", ([prompts] if isinstance(prompts, str) else list(prompts), context), {})


def sub_rlm(prompt, context=""):
    """Hands a task to a child with an interpreter of its own; returns its answer."""
    return call_host("sub_rlm", (prompt, context), {})


def sub_rlm_batched(prompts, context=""):
    """Several children at once; answers in the order of the prompts."""
    return call_host("sub_rlm_batched", ([prompts] if isinstance(prompts, str) else list(prompts), context), {})


def documents():
    """The reader of documents, loaded when it is first needed."""
    if S.documents is None:
        space = {"__name__": "caisson_documents", "__builtins__": dict(PRISTINE)}
        code = compile(S.documents_source, ME, "exec")
        with IMPORT_LOCK:
            saved = sys.path[:]
            sys.path[:] = CLEAN_PATH
            try:
                exec(code, space)
            finally:
                sys.path[:] = saved
        S.documents = space
    return S.documents


def fetch_document_text(url):
    """The text of a document (PDF, office, HTML, EPUB, RTF, plain) by URL or path. It is fetched from inside, with the
    sandbox's own network, so it reaches what the sandbox may reach."""
    where = str(url).strip()
    if not where:
        raise ValueError("url cannot be empty")
    scheme = where.split("://", 1)[0].lower() if "://" in where else ""
    if scheme not in ("", "file", "http", "https"):
        raise ValueError("unsupported URL scheme: " + scheme)
    try:
        data, kind = fetch_bytes(where, scheme)
    except OSError as e:
        hint = "" if scheme in ("", "file") else " (does the sandbox have a network?)"
        raise RuntimeError("fetch_document_text failed: %s%s" % (getattr(e, "reason", e), hint)) from None
    if len(data) > MAX_DOCUMENT:
        raise RuntimeError("fetch_document_text failed: more than %d bytes" % MAX_DOCUMENT)
    reader = documents()
    try:
        return reader["text_of"](data, where.split("?", 1)[0], kind)
    except reader["NoDocument"] as e:
        raise ValueError("no text in %s: %s" % (where, e)) from None


def fetch_bytes(where, scheme):
    """At most one byte more than a document may have, and the type its server names."""
    if scheme in ("http", "https"):
        request = library("urllib.request")
        with request.urlopen(request.Request(where, headers={"User-Agent": "caisson"}), timeout=60) as reply:
            return reply.read(MAX_DOCUMENT + 1), reply.headers.get("Content-Type") or ""
    with open(resolve_path(where[7:] if scheme else where), "rb") as f:
        return f.read(MAX_DOCUMENT + 1), ""


def store_evidence(key, content, metadata=None):
    return call_host("store_evidence", (key, content, metadata), {})


def fetch_evidence(key):
    return call_host("fetch_evidence", (key,), {})


def list_evidence():
    return call_host("list_evidence", (), {})


def make_tool(name, signature):
    """A function that asks the host. With a signature, arguments are bound (and refused) here."""
    if signature:
        space = {}
        exec("def f" + signature + ": pass", space)
        inspect = library("inspect")
        bound_to = inspect.signature(space["f"])

        def tool(*args, **kwargs):
            bound = bound_to.bind(*args, **kwargs)
            bound.apply_defaults()
            return call_host(name, bound.args, bound.kwargs)

        tool.__signature__ = bound_to
    else:
        def tool(*args, **kwargs):
            return call_host(name, args, kwargs)
    tool.__name__ = tool.__qualname__ = name
    return tool


# ---- SUBMIT -----------------------------------------------------------------------------------------------------


def submit_fields(args, kwargs):
    if S.outputs:
        names = [name for name, _type in S.outputs]
        space = {}
        exec("def SUBMIT(" + ", ".join(names) + "): return locals()", space)
        fields = space["SUBMIT"](*args, **kwargs)
        return {name: fields[name] for name in names}
    fields = dict(kwargs)
    if args:
        if "output" in fields:
            raise TypeError("SUBMIT() got multiple values for argument 'output'")
        fields = dict({"output": args[0] if len(args) == 1 else list(args)}, **fields)
    return fields


def record(fields):
    kinds = {name: kind for name, kind in S.outputs or ()}
    texts = [(json_bytes(name), kinds.get(name), json_bytes(value)) for name, value in fields.items()]
    size = 2 + sum(len(name) + len(value) + 2 for name, _kind, value in texts)
    limit = S.config.get("submit_limit") or DEFAULT_LIMIT
    if size > limit:
        raise ValueError("SUBMIT payload too large: %d bytes (limit %d)" % (size, limit))
    if S.final is None and may_speak():
        S.final = texts


def SUBMIT(*args, **kwargs):
    """Ends the execution; its keywords are the fields of the final output."""
    record(submit_fields(args, kwargs))
    raise Submitted(0)


# ---- one execute ------------------------------------------------------------------------------------------------


def enter_critical():
    if _thread.get_ident() == MAIN:
        S.n_critical += 1


def leave_critical():
    if _thread.get_ident() == MAIN:
        S.n_critical -= 1
        if S.n_critical == 0 and S.is_interrupted:
            S.is_interrupted = False
            raise KeyboardInterrupt


def on_sigint(_number, _frame):
    if not S.in_user or S.is_child:
        return
    if S.n_critical:
        S.is_interrupted = True
        return
    raise KeyboardInterrupt


FENCED = re.compile(r"\A\s*(?:Code:\s*)?```[ \t]*(?:python|py)?[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.S | re.I)
MARKER = re.compile(r"^\s*(?:```\w*|~~~\w*|\[\[ ## \w+ ## \]\])\s*$")


def without_mark(text):
    """Editors of some systems begin a text with a byte order mark; Python takes it off files, not off strings."""
    return text[1:] if text[:1] == "\ufeff" else text


def variants(text):
    """The code as written, then with ever more of what models wrap around it taken away. Lines keep their numbers."""
    yield text
    inner = FENCED.match(text)
    if inner:
        text = "\n" * text.count("\n", 0, inner.start(1)) + without_mark(inner.group(1))
        yield text
    body = text.strip()
    lead = text[:len(text) - len(text.lstrip())].count("\n")
    yield "\n" * lead + body
    textwrap = library("textwrap")
    yield textwrap.dedent(text)
    lines = ["" if MARKER.match(line) else line for line in text.split("\n")]
    yield "\n".join(lines)


def compile_code(text, is_interactive):
    text = without_mark(text).replace("\r\n", "\n").replace("\r", "\n")
    error = None
    for variant in variants(text):
        try:
            if is_interactive:
                return compile_interactive(variant), variant
            return [compile(variant, FILE, "exec", 0, True)], variant
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as e:
            error = error or e
    if not isinstance(error, SyntaxError):
        error = SyntaxError(str(error))
    raise error


def compile_interactive(text):
    """As a prompt does: the value of a last expression is shown."""
    ast = library("ast")
    tree = compile(text, FILE, "exec", ast.PyCF_ONLY_AST, True)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    codes = [compile(tree, FILE, "exec", 0, True)]
    if last is not None:
        codes.append(compile(ast.Interactive([last]), FILE, "single", 0, True))
    return codes


def open_std():
    """Python's streams on descriptors 1 and 2, unbuffered, so that their order with child processes is exact."""
    std = []
    for fd, mode, errors in ((0, "r", "surrogateescape"), (1, "w", "surrogateescape"), (2, "w", "backslashreplace")):
        raw = open(fd, mode + "b", buffering=0 if mode == "w" else -1, closefd=False)
        std.append(io.TextIOWrapper(raw, "utf-8", errors, newline="\n" if mode == "w" else None,
                                    write_through=mode == "w"))
    return tuple(std)


def is_same_file(fd, saved):
    try:
        a, b = os.fstat(fd), os.fstat(saved)
        return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
    except OSError:
        return False


def restore_std():
    for fd, saved in enumerate(S.std_fds):
        if not is_same_file(fd, saved):
            try:
                os.dup2(saved, fd)
            except OSError:
                pass  # user code closed our copy too; its output goes nowhere
    if any(f.closed for f in S.std):
        S.std = open_std()
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = S.std


def restore_builtins():
    """A user may shadow print in his own names; the builtins themselves are everybody's."""
    real = vars(builtins)
    for name, value in PRISTINE.items():
        if real.get(name, S) is not value:
            real[name] = value


def alive_threads():
    try:
        tids = {int(t) for t in os.listdir("/proc/self/task")}
    except OSError:
        tids = set()
    tids.discard(_thread.get_native_id())
    return frozenset(tids)


def begin(job):
    set_handler(SIGINT, on_sigint)
    restore_builtins()
    restore_std()
    S.final = None
    S.is_interrupted = False
    S.n_critical = 0
    outputs = [(o[0], o[1]) for o in job.get("outputs") or [] if o and is_tool_name(o[0])]
    S.outputs = outputs or None
    S.profile = job.get("profile") if job.get("profile") in PROFILES else "RLM_DELEGATE"
    S.old_threads = alive_threads()
    S.running = job.get("id")
    install_names(S.module.__dict__)
    for name, text in (job.get("vars") or {}).items():
        S.module.__dict__[name] = value_of(text)


def run_codes(codes):
    S.in_user = True
    try:
        for code in codes:
            exec(code, S.module.__dict__)
    finally:
        S.in_user = False


def run_job(job):
    error, is_exit, codes = None, False, []
    S.saved_env = {}
    try:
        begin(job)
        change_env(job.get("envs") or {})
        codes, text = compile_code(job["code"], bool(job.get("interactive")))
        linecache.cache[FILE] = (len(text), None, text.splitlines(True), FILE)
        run_codes(codes)
    except Submitted:
        pass
    except SystemExit:
        is_exit = True
    except BaseException as e:
        error = insist(describe, e, codes)
    if os.getpid() != S.pid:
        end_child(error)
    final = insist(settle, error)
    if final is not None:
        fields = [[name.decode("utf-8"), kind, len(value)] for name, kind, value in final]
        insist(send, {"op": "final", "id": job.get("id"), "fields": fields}, [value for _name, _kind, value in final])
    insist(send, {"op": "done", "id": job.get("id"), "error": error, "has_final": final is not None, "is_exit": is_exit})
    job["is_told"] = True


def change_env(envs):
    for name, value in envs.items():
        S.saved_env[name] = os.environ.get(name)
        os.environ[name] = str(value)


def end_child(error):
    """A fork that fell out of the user's code: it is not the session."""
    flush_std()
    if error is not None:
        try:
            os.write(2, json.loads(error[2]).encode("utf-8", "backslashreplace"))
        except OSError:
            pass
    os._exit(0 if error is None else 1)


def flush_std():
    for stream in (sys.stdout, sys.stderr) + S.std[1:]:
        try:
            stream.flush()
        except BaseException:
            pass  # whatever the user put there


def settle(error):
    """Puts back what was lent to the code; returns what it submitted."""
    S.in_user = False
    restore_builtins()
    flush_std()
    for name, value in S.saved_env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if S.config.get("final_global"):
        take_final_global(error)
    S.running = None
    fail_calls("Tool call failed: the execute has ended")
    return S.final


def take_final_global(error):
    names = S.module.__dict__
    if "Final" not in names:
        return
    value = names.pop("Final")
    if error is None and S.final is None:
        fields = value if isinstance(value, dict) and all(isinstance(k, str) for k in value) else {"output": value}
        try:
            record(fields)
        except (TypeError, ValueError, RecursionError):
            pass  # not a value that can leave; then it is no final


def describe(e, codes):
    """[name, value, traceback], each as JSON text."""
    S.in_user = False
    name = NAME_OF(type(e))
    try:
        value = str(error_value(e))
    except BaseException as broken:
        value = "<%s while describing the error>" % type(broken).__name__
    try:
        trace = format_trace(e, codes)
    except BaseException:
        trace = plain_trace(e, name, value)
    return [json_text(name), json_text(value), json_text(trace)]


def plain_trace(e, name, value):
    """Where the library's own fails: user code may have taken it apart."""
    lines, tb = ["Traceback (most recent call last):\n"], e.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename != ME:
            lines.append('  File "%s", line %d, in %s\n' % (code.co_filename, tb.tb_lineno, code.co_name))
        tb = tb.tb_next
    return "".join(lines[:1] + lines[1:][-200:]) + "%s: %s\n" % (name, value)


def error_value(e):
    if isinstance(e, SyntaxError) and e.filename == FILE:
        return "%s (line %s)" % (e.msg, e.lineno)
    return str(e)


def codes_below(codes):
    found, todo = set(), list(codes)
    while todo:
        code = todo.pop()
        found.add(code)
        todo.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
    return found


def format_trace(e, codes):
    """The traceback without our frames; source lines only for the code of this execute."""
    mine = codes_below(codes)
    told = traceback.TracebackException(type(e), e, e.__traceback__, limit=-200)
    seen = set()

    def clean(part, error):
        if part is None or error is None or id(error) in seen:
            return
        seen.add(id(error))
        frames = list(traceback.walk_tb(error.__traceback__))[-200:]
        kept, is_ours = [], False
        for summary, (frame, _line) in zip(part.stack, frames):
            if summary.filename in (ME, FILE):
                is_ours = summary.filename == ME
            if is_ours:  # a library's frame below ours is ours, too
                continue
            if summary.filename == FILE and frame.f_code not in mine:
                summary = traceback.FrameSummary(FILE, summary.lineno, summary.name, lookup_line=False, line="")
            kept.append(summary)
        part.stack = traceback.StackSummary.from_list(kept)
        clean(part.__cause__, error.__cause__)
        clean(part.__context__, error.__context__)

    clean(told, e)
    return "".join(told.format())


def wait_for_job():
    while not S.jobs:
        S.wakes.get()
    return S.jobs[0]


def serve_one():
    """One execute. It stays in the list until its end was told, and is begun only once."""
    job = wait_for_job()
    error = None
    try:
        if not job.get("is_begun"):
            job["is_begun"] = True
            run_job(job)
    except BaseException as e:
        if is_gone(e):
            os._exit(0)
        error = insist(describe, e, [])
    S.running = None
    if not job.get("is_told"):
        error = error or insist(describe, KeyboardInterrupt(), [])
        insist(send, {"op": "done", "id": job.get("id"), "error": error, "has_final": False, "is_exit": False})
        job["is_told"] = True
    S.jobs.remove(job)


def serve():
    while True:
        try:
            serve_one()
        except BaseException:
            continue  # a signal handler of the user's raised between executes: that is nobody's error


# ---- buffers and history ----------------------------------------------------------------------------------------


def buffer_key(name):
    return str(name).strip() or "default"


def add_buffer(name, item):
    """Appends an item to a named list that lives as long as the session."""
    key = buffer_key(name)
    items = S.buffers.setdefault(key, [])
    items.append(item)
    return {"status": "ok", "name": key, "count": len(items)}


def get_buffer(name):
    """A copy of a named list; [] if there is none."""
    return list(S.buffers.get(buffer_key(name), ()))


def clear_buffer(name=None):
    """Forgets one named list, or all."""
    if name is None:
        S.buffers.clear()
        return {"status": "ok", "scope": "all"}
    key = buffer_key(name)
    S.buffers.pop(key, None)
    return {"status": "ok", "scope": "single", "name": key}


def log_execution(entry, **extra):
    item = dict(entry) if isinstance(entry, dict) else {"entry": entry}
    item.update(extra)
    item.setdefault("timestamp", time.time())
    S.history.append(item)
    return {"status": "ok", "count": len(S.history)}


def get_session_history():
    return list(S.history)


def get_last_execution():
    return S.history[-1] if S.history else None


# ---- volume and workspace ---------------------------------------------------------------------------------------


def memory_root(config=None):
    return (S.config if config is None else config).get("memory_root") or "/home/daytona/memory"


def repo_path():
    return S.config.get("repo_path") or os.getcwd()


def is_inside(path, root):
    return path == root or path.startswith(root.rstrip("/") + "/")


def volume_path(path):
    """(full path, None) or (None, what is wrong with it)."""
    text, root = str(path).strip(), memory_root()
    if not text:
        return None, "[error: volume path cannot be empty]"
    if not S.config.get("has_volume"):
        return None, "[error: no volume mounted at %s]" % root
    full = os.path.normpath(os.path.join(root, text))
    if not is_inside(full, root) or "\0" in text or not is_inside(os.path.realpath(full), os.path.realpath(root)):
        return None, "[error: invalid volume path: %s]" % path
    return full, None


def workspace_path(path):
    text, root = str(path).strip(), os.path.realpath(repo_path())
    if not text:
        return None, "[error: workspace path cannot be empty]"
    full = os.path.join(root, os.path.normpath(text))
    bad = os.path.isabs(text) or "\0" in text or ".." in text.split("/")
    if bad or not is_inside(os.path.realpath(full), root):
        return None, "[error: invalid workspace path: %s]" % path
    return full, None


def as_bytes(content):
    return bytes(content) if isinstance(content, (bytes, bytearray)) else str(content).encode("utf-8", "surrogateescape")


def write_whole(full, content):
    """Beside and renamed, one writer at a time: a reader sees the old or the new, and nothing is left lying about."""
    fcntl = library("fcntl")
    parent = os.path.dirname(full)
    os.makedirs(parent, 0o755, exist_ok=True)
    lock = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    temp = "%s/.%s.%d-%d" % (parent, os.path.basename(full)[:100], os.getpid(), _thread.get_native_id())
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(temp, "wb") as f:
                f.write(as_bytes(content))
            os.replace(temp, full)
        except BaseException:
            if os.path.lexists(temp):
                os.unlink(temp)
            raise
    finally:
        os.close(lock)


def save_to_volume(path, content):
    """Writes a file below MEMORY_ROOT; returns its full path, or "[error: …]"."""
    full, wrong = volume_path(path)
    if wrong:
        return wrong
    write_whole(full, content)
    return full


def load_from_volume(path):
    """The text of a file below MEMORY_ROOT, or "[error: …]"."""
    full, wrong = volume_path(path)
    if wrong:
        return wrong
    if not os.path.isfile(full):
        return "[error: file not found: %s]" % full
    return read_text(full)


def workspace_write(path, content):
    full, wrong = workspace_path(path)
    if wrong:
        return wrong
    write_whole(full, content)
    return full


def workspace_append(path, content):
    full, wrong = workspace_path(path)
    if wrong:
        return wrong
    os.makedirs(os.path.dirname(full), 0o755, exist_ok=True)
    with open(full, "ab") as f:
        f.write(as_bytes(content))
    return full


def workspace_read(path):
    full, wrong = workspace_path(path)
    if wrong:
        return wrong
    if not os.path.isfile(full):
        return "[error: file not found: %s]" % full
    return read_text(full)


def workspace_list(pattern="*"):
    return find_files(".", pattern)


def remember(key, value):
    """Keeps a fact in the volume's database; only the root session may."""
    if S.config.get("depth"):
        return {"status": "skipped", "reason": "only the root session writes memories"}
    db = open_memories(True)
    if isinstance(db, dict):
        return db
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with db:
        db.execute("INSERT INTO memory(key, value, scope, writer_agent_depth, created_at, updated_at) "
                   "VALUES(?, ?, 'global', 0, ?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value, "
                   "updated_at = excluded.updated_at", (str(key), str(value), now, now))
    db.close()
    return {"status": "ok", "key": str(key)}


def recall(query):
    """Facts whose key or value contains the text, newest first, at most 50."""
    db = open_memories(False)
    if isinstance(db, dict):
        return dict(db, results=[])
    like = "%" + re.sub(r"([\\%_])", r"\\\1", str(query)) + "%"
    rows = db.execute("SELECT key, value, scope, created_at, updated_at FROM memory WHERE key LIKE ? ESCAPE '\\' "
                      "OR value LIKE ? ESCAPE '\\' ORDER BY updated_at DESC, rowid DESC LIMIT 50",
                      (like, like)).fetchall()
    db.close()
    names = ("key", "value", "scope", "created_at", "updated_at")
    return {"status": "ok", "results": [dict(zip(names, row)) for row in rows]}


def open_memories(may_create):
    full, wrong = volume_path("memories/core.db")
    if wrong:
        return {"status": "error", "error": wrong}
    if not may_create and not os.path.isfile(full):
        return {"status": "ok", "note": "no memories yet"}
    sqlite3 = library("sqlite3")
    os.makedirs(os.path.dirname(full), 0o755, exist_ok=True)
    db = sqlite3.connect(full, timeout=30)
    db.execute("CREATE TABLE IF NOT EXISTS memory(key TEXT UNIQUE, value TEXT, scope TEXT, "
               "writer_agent_depth INTEGER, created_at TEXT, updated_at TEXT)")
    return db


# ---- files and shell --------------------------------------------------------------------------------------------


def resolve_path(path):
    """An absolute path; relative ones start at the workspace."""
    return os.path.normpath(os.path.join(repo_path(), os.path.expanduser(str(path))))


def read_text(full):
    with open(full, "rb") as f:
        return f.read().decode("utf-8", "replace")


def read_file(path):
    """A file as text; bytes that are no UTF-8 become U+FFFD."""
    return read_text(resolve_path(path))


def list_files(path=".", pattern=None):
    """Sorted names in one directory; [] if it is missing."""
    try:
        names = os.listdir(resolve_path(path))
    except OSError:
        return []
    return sorted(n for n in names if pattern is None or fnmatch.fnmatch(n, pattern))


def find_files(path=".", pattern="*"):
    """Sorted paths of files below a directory, relative to it."""
    root, found = resolve_path(path), []
    for here, dirs, names in os.walk(root):
        dirs[:] = [d for d in dirs if d != ".git"]
        for name in names:
            relative = os.path.relpath(os.path.join(here, name), root)
            if fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(relative, pattern):
                found.append(relative)
    return sorted(found)


def sandbox_list_files(path="."):
    return list_files(path)


def sandbox_read_file(path):
    return read_file(path)


def sandbox_search_files(path=".", pattern="*"):
    return find_files(path, pattern)


def sandbox_find_in_files(path, pattern):
    """Lines that match a regular expression: [{"path", "line", "text"}]."""
    wanted, root, found = re.compile(pattern), resolve_path(path), []
    names = [""] if os.path.isfile(root) else find_files(path)
    for name in names:
        try:
            text = read_text(os.path.join(root, name) if name else root)
        except OSError:
            continue
        if "\0" in text:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if wanted.search(line):
                found.append({"path": name or str(path), "line": number, "text": line})
    return found


def run(command, cwd=None):
    """A shell command in the workspace: {"exit_code", "stdout", "stderr", "ok"}."""
    subprocess = library("subprocess")
    done = subprocess.run(command, shell=isinstance(command, str), cwd=resolve_path(cwd or "."),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return {"exit_code": done.returncode, "stdout": done.stdout.decode("utf-8", "replace"),
            "stderr": done.stderr.decode("utf-8", "replace"), "ok": done.returncode == 0}


class Background:
    """A process that outlives the execute that started it, and its last 1000 lines."""

    def __init__(self, command):
        collections = library("collections")
        subprocess = library("subprocess")
        self.lines = collections.deque(maxlen=1000)
        self.process = subprocess.Popen(command, shell=isinstance(command, str), cwd=repo_path(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def status(self):
        code = self.process.poll()
        if code is None:
            return "Status: RUNNING"
        self.reader.join(1)
        return "Status: EXITED(%d)" % code


def start_background_process(id, command):
    key = str(id)
    old = S.processes.get(key)
    if old and old.process.poll() is None:
        return "Process %s is already running." % key
    S.processes[key] = Background(command)
    return "Process %s started." % key


def read_process_logs(id, tail=50):
    key = str(id)
    if key not in S.processes:
        return "Process %s is not running." % key
    process = S.processes[key]
    status = process.status()
    lines = list(process.lines)
    return "\n".join([status] + lines[max(0, len(lines) - max(0, int(tail))):])


def kill_process(id):
    key = str(id)
    process = S.processes.get(key)
    if process is None or process.process.poll() is not None:
        return "Process %s is not running." % key
    try:
        os.killpg(process.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it went by itself
    process.process.wait()
    return "Process %s killed." % key


# ---- text -------------------------------------------------------------------------------------------------------


def peek(text, start=0, length=2000):
    """`length` characters from `start`."""
    start, length = max(0, start), max(0, length)
    return text[start:start + length]


def grep(text, pattern, *, context=0):
    """One string per line that matches the regular expression, with lines of context around it."""
    wanted, lines = re.compile(pattern), text.splitlines()
    around = max(0, context)
    return ["\n".join(lines[max(0, i - around):i + around + 1]) for i, line in enumerate(lines) if wanted.search(line)]


def chunk_by_size(text, size=200000, overlap=0):
    if size <= 0:
        raise ValueError("size must be positive")
    if overlap < 0:
        raise ValueError("overlap must be non-negative")
    if overlap >= size:
        raise ValueError("overlap must be less than size")
    chunks, at = [], 0
    while at < len(text):
        chunks.append(text[at:at + size])
        if at + size >= len(text):
            break
        at += size - overlap
    return chunks


def chunk_by_start(text, pattern, name, title):
    """Pieces that begin where a line matches; what stands before the first has an empty title."""
    if not text:
        return []
    starts = [m.start() for m in re.finditer(pattern, text, re.M)]
    cuts = ([] if starts and starts[0] == 0 else [0]) + starts + [len(text)]
    chunks = []
    for begin_at, end_at in zip(cuts, cuts[1:]):
        piece = text[begin_at:end_at]
        chunks.append({name: title(piece) if begin_at in starts else "", "content": piece.strip(),
                       "start_pos": begin_at})
    return chunks


def chunk_by_headers(text, pattern=r"^#{1,3} "):
    return chunk_by_start(text, pattern, "header", lambda piece: piece.split("\n", 1)[0].strip())


def chunk_by_timestamps(text, pattern=r"^\d{4}-\d{2}-\d{2}[T ]"):
    def title(piece):
        stamp = re.match(r"\S+(?: \d{2}:\d{2}\S*)?", piece)
        return stamp.group(0) if stamp else ""
    return chunk_by_start(text, pattern, "timestamp", title)


def chunk_by_json_keys(text):
    try:
        value = json.loads(text)
    except ValueError as e:
        raise ValueError("Invalid JSON: %s" % e) from None
    if not isinstance(value, dict):
        raise ValueError("Expected JSON object, got %s" % type(value).__name__)
    return [{"key": k, "content": json.dumps(v, indent=2, ensure_ascii=False), "value_type": type(v).__name__}
            for k, v in value.items()]


def extract_python_ast(path):
    """The outline of a Python file: classes with their methods, functions, imports."""
    ast = library("ast")
    tree = ast.parse(read_file(path))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    outline = {"classes": [], "functions": [], "imports": [], "docstring": ast.get_docstring(tree)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            outline["classes"].append({"name": node.name, "line": node.lineno, "docstring": ast.get_docstring(node),
                                       "methods": [n.name for n in node.body if isinstance(n, kinds)]})
        elif isinstance(node, kinds):
            outline["functions"].append({"name": node.name, "line": node.lineno,
                                         "args": [a.arg for a in node.args.args],
                                         "docstring": ast.get_docstring(node)})
        elif isinstance(node, ast.Import):
            outline["imports"].extend(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            outline["imports"].extend("%s.%s" % (node.module or "." * node.level, a.name) for a in node.names)
    return outline


def get_workspace_context():
    """Where things are: workspace, volume, staged sources."""
    return {"repo_path": repo_path(), "memory_root": memory_root() if S.config.get("has_volume") else None,
            "repo_url": S.config.get("repo_url"), "repo_ref": S.config.get("repo_ref"),
            "context_sources": list(S.config.get("context_sources") or []),
            "depth": S.config.get("depth") or 0, "profile": S.profile}


# ---- the names user code sees -----------------------------------------------------------------------------------

ALWAYS = (SUBMIT, llm_query, llm_query_batched, sub_rlm, sub_rlm_batched, add_buffer, get_buffer, clear_buffer)
HELPERS = (
    save_to_volume, load_from_volume, workspace_write, workspace_read, workspace_append, workspace_list, resolve_path,
    read_file, list_files, find_files, sandbox_list_files, sandbox_read_file, sandbox_search_files,
    sandbox_find_in_files, run, peek, grep, chunk_by_size, chunk_by_headers, chunk_by_timestamps, chunk_by_json_keys,
    extract_python_ast, start_background_process, read_process_logs, kill_process, get_workspace_context,
    log_execution, get_session_history, get_last_execution, fetch_document_text, store_evidence, fetch_evidence,
    list_evidence, remember, recall,
)
NOT_BRIDGED = ("run", "workspace_write", "workspace_read", "SUBMIT", "print")


def guarded(function):
    """The helper, refused in the profile that only talks."""
    def helper(*args, **kwargs):
        if S.profile == "ROOT_INTERLOCUTOR":
            raise RuntimeError("Helper '%s' is not available in ROOT_INTERLOCUTOR profile. "
                               "Use RLM_DELEGATE for helper access." % function.__name__)
        return function(*args, **kwargs)

    helper.__name__ = helper.__qualname__ = function.__name__
    helper.__doc__ = function.__doc__
    helper.__wrapped__ = function
    return helper


def plain_name(function):
    return function if function in (SUBMIT, llm_query, llm_query_batched) else guarded(function)


def install_names(names):
    for function in INSTALLED:
        names[function.__name__] = function
    names["rlm_query"], names["rlm_query_batched"] = names["sub_rlm"], names["sub_rlm_batched"]
    for function in IF_MISSING:
        names.setdefault(function.__name__, function)
    names["__builtins__"] = builtins
    names["REPO_PATH"] = repo_path()
    names["MEMORY_ROOT"] = S.memory_path
    install_tools(names)
    mine = names.get("context", S.module) is S.module or names.get("context") is S.config.get("shown_context")
    if mine:
        names["context"] = S.config["shown_context"] = get_workspace_context()


def install_tools(names):
    for name, signature in S.tools.items():
        if name in NOT_BRIDGED:
            continue
        if S.profile == "ROOT_INTERLOCUTOR" and name not in ("llm_query", "llm_query_batched"):
            if getattr(names.get(name), "is_caisson_tool", False):
                del names[name]
            continue
        if not getattr(names.get(name), "is_caisson_tool", False):
            names[name] = make_tool(name, signature)
            names[name].is_caisson_tool = True


def on_thread_error(args, former=threading.excepthook):
    if not issubclass(args.exc_type, Submitted):
        former(args)


def become_child():
    S.is_child = True
    try:
        os.close(S.fd)
    except OSError:
        pass  # user code did it already


def move_high(fd, lowest):
    """Out of the way of user code, or as far as the limit of open files lets us."""
    fcntl = library("fcntl")
    for number in (lowest, 50, 20):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, number)
        except OSError:
            continue
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 4)


def main():
    S.fd = move_high(S.fd, 200)
    os.close(3)
    S.std_fds = tuple(move_high(fd, 210) for fd in (0, 1, 2))
    S.std = open_std()
    S.documents_source = sys.argv[2] if len(sys.argv) > 2 else ""
    sys.argv[:] = ["-"]
    sys.path.insert(0, "")
    sys.modules["__main__"] = S.module
    S.module.__dict__["__builtins__"] = builtins
    sys.modules["threading"].excepthook = on_thread_error
    os.register_at_fork(after_in_child=become_child)
    set_handler(SIGINT, on_sigint)
    sys.setswitchinterval(0.0005)  # the reader and the code take turns without long waits
    reader = threading.Thread(target=read_channel, daemon=True)
    reader.start()
    while True:
        try:
            serve()
        except BaseException:
            continue


S = State(3)
MAIN = _thread.get_ident()
INSTALLED = tuple(plain_name(f) for f in ALWAYS)
IF_MISSING = tuple(guarded(f) for f in HELPERS)
if not globals().get("IS_TEST"):
    main()
