#!/usr/bin/env python3
"""The toolbox's processes over HTTP: commands, code, sessions and their logs, interpreter, terminals, small questions."""
import base64
import json
import os
import shutil
import socket
import threading
import time

from lib import Server, Work, equal, has, main, ok, until
from websocket import Refused, WebSocket

V = {"X-Daytona-SDK-Version": "0.218.0"}
here = None


class Box:
    def __init__(self, server):
        self.server, self.client = server, server.client()
        answer = self.client.ask("POST", "/api/sandbox", {"env": {"GIVEN": "at create"}})
        if answer.status != 200:
            raise RuntimeError(f"no sandbox: {answer}")
        self.id = answer.json["id"]

    def ask(self, method, call, body=None, headers=None):
        return self.client.ask(method, f"/toolbox/{self.id}/{call}", body, headers=headers)

    def execute(self, command, **more):
        return self.ask("POST", "process/execute", {"command": command, **more})

    def code(self, code, language="python", **more):
        return self.ask("POST", "process/code-run", {"code": code, "language": language, **more})

    def socket(self, call, offers=(), headers=None):
        return WebSocket(self.server.port, f"/toolbox/{self.id}/{call}", self.server.key(), offers, headers)

    def session(self, name):
        equal(self.ask("POST", "process/session", {"sessionId": name}).status, 201, f"session {name} is made")
        return Session(self, name)

    def interpret(self, code, **more):
        ws = self.socket("process/interpreter/execute")
        ws.send(json.dumps({"code": code, **more}))
        return [json.loads(m) for m in ws.all()], ws

    def delete(self):
        self.client.ask("DELETE", f"/api/sandbox/{self.id}")


class Session:
    def __init__(self, box, name):
        self.box, self.name = box, name

    def ask(self, method, call, body=None, headers=V):
        return self.box.ask(method, f"process/session/{self.name}{call}", body, headers)

    def exec(self, command, headers=V, **more):
        return self.ask("POST", "/exec", {"command": command, **more}, headers)

    def begin(self, command, **more):
        answer = self.exec(command, runAsync=True, **more)
        equal(answer.status, 202, "an async command is accepted")
        return answer.json["cmdId"]

    def logs(self, command, headers=V):
        return self.ask("GET", f"/command/{command}/logs", headers=headers)

    def follow(self, command):
        return self.box.socket(f"process/session/{self.name}/command/{command}/logs?follow=true")

    def status(self, command):
        return self.ask("GET", f"/command/{command}").json


def result_of(answer):
    return (answer.status, answer.json.get("exitCode"), answer.json.get("result"))


# ---- execute ----------------------------------------------------------------------------------------------------


def commands_end_with_their_status_and_output():
    b = here
    equal(result_of(b.execute("echo hi")), (200, 0, "hi\n"), "echo")
    equal(result_of(b.execute("exit 3")), (200, 3, ""), "a status other than 0 is an answer too")
    equal(result_of(b.execute("for i in 1 2; do\n echo $((i+1))\ndone")), (200, 0, "2\n3\n"), "several lines")
    equal(result_of(b.execute("cat <<X\na $HOME\nX")), (200, 0, "a /home/daytona\n"), "a here document")
    equal(result_of(b.execute("echo a; echo b >&2; echo c")), (200, 0, "a\nb\nc\n"), "both streams in their order")
    equal(result_of(b.execute("cat; echo end")), (200, 0, "end\n"), "stdin is empty")
    equal(result_of(b.execute("[[ a == a ]] && (( 1 )) && echo bash")), (200, 0, "bash\n"), "the shell is bash")
    equal(result_of(b.execute("printf '\\xff\\xc3(a'")), (200, 0, "\ufffd\ufffd(a"), "bytes that are no text")
    equal(b.execute("kill -9 $$").json["exitCode"], 137, "a shell that was killed")
    has(b.execute("no-such-program x").json["result"], "not found", "a program that is missing, in bash's words")
    equal(b.execute("no-such-program x").json["exitCode"], 127, "and its status")
    equal(result_of(b.execute("pwd")), (200, 0, "/home/daytona\n"), "the work dir")
    equal(result_of(b.execute("printenv GIVEN PWD")), (200, 0, "at create\n/home/daytona\n"), "the environment")


def commands_get_directory_and_variables():
    b = here
    b.execute("mkdir -p sub")
    equal(result_of(b.execute("pwd", cwd="sub")), (200, 0, "/home/daytona/sub\n"), "a relative directory")
    equal(result_of(b.execute("pwd", cwd="/tmp")), (200, 0, "/tmp\n"), "an absolute one")
    a = b.execute("pwd", cwd="/no/such")
    equal((a.status, a.json["exitCode"]), (200, -1), "one that is not there")
    equal(result_of(b.execute("echo \"$A|$GIVEN\"", envs={"A": "it's \"so\" $x", "GIVEN": "over"})),
          (200, 0, "it's \"so\" $x|over\n"), "variables")
    equal(b.execute("true", envs={"A-B": "1"}).status, 400, "a bad name of a variable")
    equal(b.execute("true", envs={"A": 1}).status, 400, "a value that is no text")
    equal(b.execute("  \n ").status, 400, "a blank command")
    equal(b.ask("POST", "process/execute", {}).status, 400, "no command")


def large_commands_and_outputs_pass():
    b = here
    text = base64.b64encode(os.urandom(600000)).decode()
    equal(result_of(b.execute(f"echo '{text}' | base64 -d | wc -c; read x; echo end")), (200, 0, "600000\nend\n"),
          "a command of 800 KB")
    a = b.execute("head -c 5000000 /dev/zero | tr '\\0' x")
    equal((a.status, len(a.json["result"])), (200, 5000000), "an output of 5 MB")
    a = b.execute("head -c 20000000 /dev/zero | tr '\\0' x")
    has(a.json["result"][-80:], "output cut after", "a longer one is cut, and says so")


def timeouts_keep_what_was_printed():
    b = here
    begin = time.monotonic()
    a = b.execute("echo before; (trap '' TERM; sleep 1000); echo after", timeout=1)
    ok(time.monotonic() - begin < 10, "in time")
    equal((a.status, a.json["code"], a.json["source"]), (408, "PROCESS_EXECUTION_TIMEOUT", "DAYTONA_DAEMON"), "408")
    equal(a.json["result"], "before\n", "its output is in the body")
    has(a.json["message"], "request timeout: command execution timeout", "the message")
    has(a.json["message"], "before", "with the output")
    equal(b.execute("pgrep -x sleep").json["result"], "", "nothing is left of it")
    for bad in ("1", -1, [1]): # a limit that can't be read must not become none
        equal((b.execute("true", timeout=bad).status, b.code("1", timeout=bad).status), (400, 400), f"timeout {bad!r}")


def deaths_are_named():
    b = here
    a = b.execute("python3 -c \"x = bytearray(64 << 30)\"; tail /dev/zero")
    equal(a.json["exitCode"], 137, "memory: its status")
    has(a.json["result"], "out of memory", "memory: its name")
    equal(a.json.get("ended"), "oom", "memory: its word")


def children_in_the_background_live_on():
    b = here
    begin = time.monotonic()
    equal(result_of(b.execute("nohup sleep 300 >/dev/null 2>&1 & echo started")), (200, 0, "started\n"), "answered")
    ok(time.monotonic() - begin < 5, "at once")
    ok(until(lambda: b.execute("pgrep -c -x sleep").json["result"] == "1\n"), "and it lives")
    equal(result_of(b.execute("(sleep 0.1; echo late) & echo now")), (200, 0, "now\nlate\n"), "a short one is heard")
    b.execute("pkill -x sleep")


def a_client_that_left_takes_its_command_along():
    b = here
    s = socket.create_connection(("127.0.0.1", b.server.port))
    body = json.dumps({"command": "sleep 777"}).encode()
    s.sendall((f"POST /toolbox/{b.id}/process/execute HTTP/1.1\r\nHost: 127.0.0.1:{b.server.port}\r\n"
               f"Authorization: Bearer {b.server.key()}\r\nContent-Length: {len(body)}\r\n"
               "Content-Type: application/json\r\n\r\n").encode() + body)
    ok(until(lambda: b.execute("pgrep -f 'sleep 77[7]'").json["result"]), "it runs")
    s.close()
    ok(until(lambda: not b.execute("pgrep -f 'sleep 77[7]'").json["result"]), "it is gone")


def streams_apart_when_asked():
    a = here.ask("POST", "process/execute", {"command": "echo o; echo e >&2"}, {"X-Daytona-Split-Output": "true"})
    equal((a.json["stdout"], a.json["stderr"]), ("o\n", "e\n"), "stdout and stderr")


# ---- code -------------------------------------------------------------------------------------------------------


def code_runs_in_three_languages():
    b = here
    code = "import sys\nprint(sys.argv, __name__)\nprint(repr(sys.stdin.read()))\nsys.exit(4)"
    equal(result_of(b.code(code, argv=["a b", "'"])), (200, 4, "['-', 'a b', \"'\"] __main__\n''\n"), "python")
    a = b.code("raise ValueError('x')")
    equal(a.json["exitCode"], 1, "an error's status")
    has(a.json["result"], "ValueError: x", "an error's text")
    equal(result_of(b.code("import os; print(os.environ['E'], os.getcwd())", envs={"E": "1"})),
          (200, 0, "1 /home/daytona\n"), "variables and directory")
    equal(b.code("while True: pass", timeout=1).status, 408, "time-out")
    equal(b.code("x", language="cobol").status, 400, "another language")
    equal(b.ask("POST", "process/code-run", {"language": "python"}).status, 400, "no code")
    if shutil.which("node"):
        equal(result_of(b.code("console.log(process.argv.slice(1).join())", "javascript", argv=["a", "b c"])),
              (200, 0, "a,b c\n"), "javascript")
        equal(b.code("process.exit(5)", "javascript").json["exitCode"], 5, "its status")
    if shutil.which("esbuild"):
        equal(result_of(b.code("enum A { B = 7 }\nconst x: number = A.B;\nconsole.log(x, process.argv.slice(1).join())",
                               "typescript", argv=["q"])), (200, 0, "7 q\n"), "typescript")
        ok(b.code("const x: = ;", "typescript").json["exitCode"] != 0, "a mistake in it")


def charts_are_taken_out_of_the_output():
    b = here
    line = 'dtn_artifact_k39fd2:{"type":"chart","value":{"type":"line","title":"T","elements":[]}}'
    a = b.code(f"print('before')\nprint('''{line}''')\nprint('after')")
    equal(a.json["result"], "before\nafter\n", "the text")
    equal(a.json["artifacts"]["charts"][0]["title"], "T", "the chart")
    has(b.execute(f"echo '{line}'").json["result"], "dtn_artifact", "execute leaves them")
    if b.code("import matplotlib").json["exitCode"] != 0:
        return
    a = b.code("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [4, 5, 6], label='l')\nplt.title('Lines')\n"
               "plt.show()\nplt.bar(['a', 'b'], [3, 4])\nplt.show()\nplt.pie([1, 3], labels=['p', 'q'])\nplt.show()\n"
               "plt.scatter([1, 2], [3, 4])\nplt.show()\nplt.boxplot([[1, 2, 3, 9]])\nplt.show()\n"
               "f, (x, y) = plt.subplots(1, 2)\nx.plot([1], [2])\ny.bar(['z'], [1])\nplt.show()\nprint('end')")
    equal((a.json["exitCode"], a.json["result"]), (0, "end\n"), "a program that draws")
    charts = a.json["artifacts"]["charts"]
    equal([c["type"] for c in charts], ["line", "bar", "pie", "scatter", "box_and_whisker", "composite_chart"], "kinds")
    equal(charts[0]["elements"], [{"label": "l", "points": [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]}], "points")
    equal([(e["label"], e["value"]) for e in charts[1]["elements"]], [("a", "3"), ("b", "4")], "bars")
    equal([e["label"] for e in charts[2]["elements"]], ["p", "q"], "wedges")
    equal(charts[4]["elements"][0]["median"], 2.5, "boxes")
    ok(all(base64.b64decode(c["png"]).startswith(b"\x89PNG") for c in charts), "pictures")


# ---- sessions ---------------------------------------------------------------------------------------------------


def sessions_keep_their_state():
    s = here.session("one")
    equal(here.ask("POST", "process/session", {"sessionId": "one"}).status, 409, "a name that is taken")
    equal(here.ask("POST", "process/session", {"sessionId": "entrypoint"}).status, 400, "the reserved name")
    a = s.exec("cd /tmp; export X=5; echo out; echo err >&2; (exit 3)")
    equal((a.status, a.json["exitCode"], a.json["stdout"], a.json["stderr"]), (200, 3, "out\n", "err\n"), "sync")
    ok("\x01\x01\x01out\n" in a.json["output"] and "\x02\x02\x02err\n" in a.json["output"], "markers", a.json)
    equal(s.exec("pwd; echo $X").json["stdout"], "/tmp\n5\n", "directory and variables stay")
    listed = here.ask("GET", "process/session").json
    equal([x["sessionId"] for x in listed], ["one"], "listed")
    equal([c["exitCode"] for c in s.ask("GET", "").json["commands"]], [3, 0], "its commands")
    equal(s.ask("GET", "/command/nope").status, 404, "no such command")
    equal(here.ask("GET", "process/session/nope").status, 404, "no such session")
    equal(here.ask("GET", "process/session/entrypoint").status, 404, "no entrypoint")
    equal(s.exec("  ").status, 400, "a blank command")
    equal(s.ask("DELETE", "").status, 204, "deleted")
    equal(s.exec("true").status, 404, "gone")
    equal(here.ask("GET", "process/session").json, [], "none left")


def old_clients_get_what_they_know():
    s = here.session("old")
    c = s.exec("echo out; echo err >&2").json["cmdId"]
    for version in ("0.167.0", "unknown", "0.170.0.dev1", "1.0.0"):
        equal(sorted(s.logs(c, {"X-Daytona-SDK-Version": version}).json), ["output", "stderr", "stdout"], version)
    a = s.logs(c, {"X-Daytona-SDK-Version": "0.150.0"})
    ok(a.headers["Content-Type"].startswith("text/plain") and b"\1\1\1out" in a.data, "0.150: text with markers", a)
    equal(sorted(s.logs(c, {}).data.decode().split()), ["err", "out"], "no version: plain")
    ok(b"\1\1\1" in s.logs(c, {"X-Daytona-Split-Output": "true"}).data, "no version, but asked: markers")
    a = s.exec("echo x", headers={"X-Daytona-SDK-Version": "0.150.0"}).json
    equal((a["output"], "stdout" in a), ("\x01\x01\x01x\n", False), "0.150: exec")
    equal(s.exec("echo x", headers={}).json["output"], "x\n", "no version: exec")
    s.ask("DELETE", "")


def input_and_ends_of_commands():
    s = here.session("in")
    c = s.begin("read a; echo got $a; exit_with() { return 9; }; exit_with")
    equal("exitCode" in s.status(c), False, "no status while it runs")
    equal(s.ask("POST", f"/command/{c}/input", {"data": "hello"}).status, 204, "input")
    equal(until(lambda: s.status(c).get("exitCode")), 9, "its status")
    equal(s.logs(c).json["stdout"], "hello\ngot hello\n", "with the echo")
    a = s.ask("POST", f"/command/{c}/input", {"data": "x"})
    equal((a.status, a.json["code"]), (410, "COMMAND_ALREADY_COMPLETED"), "too late")
    c = s.begin("read a; echo got $a", suppressInputEcho=True)
    s.ask("POST", f"/command/{c}/input", {"data": "quiet\n"})
    until(lambda: "exitCode" in s.status(c))
    equal(s.logs(c).json["stdout"], "got quiet\n", "without")
    equal(s.exec("exit 3").json["exitCode"], 3, "the shell's own end is the command's status")
    a = s.exec("true")
    equal((a.status, a.json["code"]), (410, "SESSION_ENDED"), "and the session has ended")
    equal(s.ask("DELETE", "").status, 204, "it can be deleted")


def followers_see_every_byte_once():
    s = here.session("follow")
    c = s.begin("echo first; read x; for i in $(seq 20000); do echo line $i; done; echo oops >&2; read y; printf last")
    early = s.follow(c)
    equal(early.receive(), b"\1\1\1first\n", "history first")
    s.ask("POST", f"/command/{c}/input", {"data": "go"})
    until(lambda: s.logs(c).json["stderr"])
    late = s.follow(c)
    s.ask("POST", f"/command/{c}/input", {"data": "go"})
    a, b = b"\1\1\1first\n" + b"".join(early.all()), b"".join(late.all())
    equal((early.code, late.code), (1000, 1000), "closed as it should be")
    wanted = "".join(["first\n", "go\n"] + [f"line {i}\n" for i in range(1, 20001)])
    plain = a.replace(b"\1\1\1", b"").replace(b"\2\2\2", b"").decode()
    ok(a == b, "both see the same")
    equal(sorted(plain.splitlines()), sorted((wanted + "oops\ngo\nlast").splitlines()), "everything, once")
    has(a.decode(), "\x02\x02\x02oops\n", "marked")
    equal(b"".join(s.follow(c).all()), a, "again, after its end")
    ws = s.follow(s.begin("echo x; sleep 1000"))
    ws.receive()
    t = threading.Thread(target=ws.all)
    t.start()
    equal(s.ask("DELETE", "").status, 204, "deleted in the middle")
    t.join(30)
    equal(ws.code, 1000, "the follower hears of it")


def a_slow_follower_holds_nobody_up():
    s = here.session("slow")
    c = s.begin("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo done >&2")
    ws = s.follow(c)
    ok(until(lambda: "exitCode" in s.status(c)), "the command ends while nobody reads")
    data = b"".join(ws.all())
    equal(len(data), 30000000 + 1 + 3 + 5 + 3, "and then everything is there")
    a = s.logs(c)
    equal((len(a.json["stdout"]), a.json["stderr"]), (30000001, "done\n"), "whole logs too, streamed")
    s.ask("DELETE", "")


def a_close_waits_behind_what_was_sent():
    s = here.session("close")
    lost = []
    for size in range(300000, 9000000, 580000):
        c = s.exec(f"head -c {size} /dev/zero | tr '\\0' x").json["cmdId"]
        ws = s.follow(c)
        here.execute("true;")  # time enough for the server to fill what lies between us
        got = len(b"".join(ws.all()))
        if (got, ws.code) != (size + 3, 1000):
            lost.append((size, got, ws.code))
    equal(lost, [], "nothing is lost, however much lies between us when it closes")
    s.ask("DELETE", "")


# ---- interpreter ------------------------------------------------------------------------------------------------


def texts(frames, kind):
    return "".join(f["text"] for f in frames if f["type"] == kind)


def the_interpreter_keeps_names_and_tells_errors():
    b = here
    frames, ws = b.interpret("x = 20\nprint(x + 1)\nimport sys; print('e', file=sys.stderr)")
    equal((texts(frames, "stdout"), texts(frames, "stderr"), ws.code), ("21\n", "e\n", 1000), "output")
    equal(frames[-1]["type"], "control", "control comes last")
    equal(texts(b.interpret("print(x)")[0], "stdout"), "20\n", "names stay")
    frames, ws = b.interpret("def f():\n    1/0\nf()")
    error = next(f for f in frames if f["type"] == "error")
    equal((error["name"], error["value"], ws.code), ("ZeroDivisionError", "division by zero", 1000), "an error")
    has(error["traceback"], 'File "<stdin>", line 3', "the user's lines")
    ok("caisson" not in error["traceback"], "and no others", error["traceback"])
    equal([f["type"] for f in b.interpret("import sys; sys.exit(1)")[0]], ["control"], "SystemExit is no error")
    equal(texts(b.interpret("import os; print(os.environ.get('E'))", envs={"E": "1"})[0], "stdout"), "1\n", "variables")
    equal(texts(b.interpret("print(os.environ.get('E'))")[0], "stdout"), "None\n", "taken back")
    frames, ws = b.interpret("print('é' * 100000)")
    equal(texts(frames, "stdout"), "é" * 100000 + "\n", "long text is not torn")


def the_interpreter_and_time():
    b = here
    frames, ws = b.interpret("print('a', flush=True)\nimport time\ntime.sleep(100)", timeout=1)
    equal((ws.code, texts(frames, "stdout"), texts(frames, "control")), (4008, "a\n", ""), "4008, and no control")
    equal(texts(b.interpret("print(x)")[0], "stdout"), "20\n", "names stay after an interrupt")
    ws = b.socket("process/interpreter/execute")
    ws.send(json.dumps({"code": "for i in range(3): print(i)\ninput_never_comes = __import__('time').sleep(1000)"}))
    equal(json.loads(ws.receive())["text"][:1], "0", "output while it runs")
    equal(b.execute("echo beside").json["result"], "beside\n", "other calls go on")
    ws.leave()
    equal(texts(b.interpret("print('next')")[0], "stdout"), "next\n", "a client that left frees the context")
    frames, ws = b.interpret("import os; os._exit(7)")
    has([f for f in frames if f["type"] == "error"][0]["value"], "exit code 7", "a dead interpreter is named")
    equal([f["name"] for f in b.interpret("x")[0] if f["type"] == "error"], ["NameError"], "and replaced")


def contexts_are_apart():
    b = here
    a = b.ask("POST", "process/interpreter/context", {"cwd": "/tmp", "language": "python"})
    equal((a.status, a.json["cwd"], a.json["language"], a.json["active"]), (200, "/tmp", "python", True), "made")
    c = a.json["id"]
    equal(texts(b.interpret("import os; v = 1; print(os.getcwd())", contextId=c)[0], "stdout"), "/tmp\n", "its directory")
    equal([f["name"] for f in b.interpret("v")[0] if f["type"] == "error"], ["NameError"], "its names are its own")
    equal([x["id"] for x in b.ask("GET", "process/interpreter/context").json["contexts"]], [c], "listed")
    equal(b.ask("POST", "process/interpreter/context", {"language": "ruby"}).status, 400, "another language")
    equal(b.ask("DELETE", "process/interpreter/context/default").status, 400, "the default one stays")
    equal(b.ask("DELETE", f"process/interpreter/context/{c}").status, 200, "deleted")
    equal(b.ask("DELETE", f"process/interpreter/context/{c}").status, 404, "once")
    _, ws = b.interpret("1", contextId=c)
    equal((ws.code, ws.reason), (1008, f"context not found: {c}"), "runs find it gone")
    equal(b.interpret("")[1].code, 1008, "no code")
    equal(b.interpret("1", timeout=-1)[1].code, 1008, "a negative time")
    ws = b.socket("process/interpreter/execute")
    ws.send("{")
    ws.all()
    equal(ws.code, 1002, "no JSON")


# ---- terminals --------------------------------------------------------------------------------------------------


def say(ws, text, until_seen, seen=b""):
    ws.send(text.encode())
    while until_seen.encode() not in seen:
        message = ws.receive()
        if message is None:
            raise EOFError(f"closed {ws.code} {ws.reason} after {seen!r}")
        seen += message if isinstance(message, bytes) else b""
    return seen


def terminals_talk():
    b = here
    envs = base64.urlsafe_b64encode(json.dumps({"MINE": "yes"}).encode()).decode().rstrip("=")
    offers = ("X-Daytona-Pty-Exit-Control", f"X-Daytona-Pty-Envs~{envs}")
    ws = b.socket("process/pty/create-connect?id=t1&cols=100&rows=30&cwd=/tmp", offers)
    ok(ws.headers["sec-websocket-protocol"] in offers, "one offer is echoed")
    equal(json.loads(ws.receive()), {"type": "control", "status": "connected"}, "connected first")
    has(say(ws, "stty size; pwd; echo $MINE-$TERM\n", "yes-xterm-256color").decode(), "30 100", "its size")
    info = b.ask("GET", "process/pty/t1").json
    equal((info["cols"], info["rows"], info["active"], info["cwd"]), (100, 30, True, "/tmp"), "told")
    equal(b.ask("POST", "process/pty/t1/resize", {"cols": 120, "rows": 40}).json["cols"], 120, "resized")
    say(ws, "stty size\n", "40 120")
    try:
        b.socket("process/pty/create-connect?id=t1")
        ok(False, "a name twice")
    except Refused as e:
        equal(e.status, 409, "a name twice")
    ws.send(b"exit 3\n")
    messages = ws.all()
    control = json.loads([m for m in messages if isinstance(m, str)][-1])
    equal((control["status"], control["exitCode"], control["exitReason"]), ("exited", 3, "non-zero exit"), "its end")
    equal((ws.code, json.loads(ws.reason)["exitCode"]), (1011, 3), "and in the close")
    equal(b.ask("GET", "process/pty").json, {"sessions": []}, "it is gone")


def terminals_of_older_clients():
    b = here
    a = b.ask("POST", "process/pty", {"id": "t2", "lazyStart": True})
    equal((a.status, a.json), (201, {"sessionId": "t2"}), "made")
    equal(b.ask("GET", "process/pty/t2").json["active"], False, "not started yet")
    equal(b.ask("POST", "process/pty", {"id": "t2"}).status, 409, "a name twice")
    equal(b.ask("POST", "process/pty", {"id": "t3", "cols": 1001}).status, 400, "too wide")
    ws = b.socket("process/pty/t2/connect")
    ok("sec-websocket-protocol" not in ws.headers, "nothing offered, nothing echoed")
    ws.receive()
    say(ws, "echo $((40+2))\n", "42")
    second = b.socket("process/pty/t2/connect")
    second.receive()
    has(second.receive().decode(), "42", "who comes later sees what was there")
    ws.send(b"exit\n")
    equal([m for m in ws.all() if isinstance(m, str)], [], "no control at the end without the offer")
    second.all()
    equal((ws.code, ws.reason, second.code), (1000, '{"exitCode":0}', 1000), "closed")
    ws = b.socket("process/pty/create-connect?id=t4")
    ws.receive()
    say(ws, "echo up\n", "up")
    equal(b.ask("DELETE", "process/pty/t4").status, 200, "deleted")
    ws.all()
    equal((ws.code, json.loads(ws.reason)), (1011, {"exitCode": 137, "exitReason": "SIGKILL"}), "its viewers hear of it")
    equal(b.ask("POST", "process/pty/t4/resize", {"cols": 80, "rows": 24}).status, 410, "gone")


# ---- small questions --------------------------------------------------------------------------------------------


def small_questions():
    b = here
    equal(b.ask("GET", "work-dir").json, {"dir": "/home/daytona"}, "work dir")
    equal(b.ask("GET", "user-home-dir").json, {"dir": "/home/daytona"}, "home dir")
    equal(b.ask("GET", "project-dir").json, {"dir": "/home/daytona"}, "project dir")
    ok(b.ask("GET", "version").json["version"], "version")
    m = b.ask("GET", "system/metrics").json
    ok(m["memTotal"] > 0 and m["diskTotal"] > 0 and m["cpuCount"] >= 1 and m["memUsed"] >= 0, "metrics", m)
    equal(b.ask("GET", "port").json, {"ports": []}, "no port")
    b.execute("nohup python3 -m http.server 3456 >/dev/null 2>&1 &")
    ok(until(lambda: b.ask("GET", "port/3456/in-use").json["isInUse"]), "a port in use")
    equal(b.ask("GET", "port").json, {"ports": [3456]}, "listed")
    equal(b.ask("GET", "port/3457/in-use").json, {"isInUse": False}, "another is free")
    equal(b.ask("GET", "port/80/in-use").status, 400, "out of range")
    equal(b.ask("POST", "env", {"set": {"LATER": "1", "SECRET": "x-1"}}).status, 200, "a variable is set")
    equal(b.execute("echo $LATER$SECRET").json["result"], "1x-1\n", "for what starts later")
    b.ask("POST", "env", {"unset": ["LATER"], "unsetValuePrefix": "x-"})
    equal(b.execute("echo [$LATER$SECRET]").json["result"], "[]\n", "and taken back")
    equal(b.ask("POST", "env", {"set": {"A B": "1"}}).status, 400, "a bad name")


def what_hangs_on_a_sandbox_ends_with_it():
    box = Box(here.server)
    s = box.session("s")
    ws = s.follow(s.begin("sleep 1000"))
    inter = box.socket("process/interpreter/execute")
    inter.send(json.dumps({"code": "import time; time.sleep(1000)"}))
    box.client.ask("POST", f"/api/sandbox/{box.id}/stop")
    ws.all()
    inter.all()
    ok(True, "sockets close when it stops")
    box.client.ask("POST", f"/api/sandbox/{box.id}/start")
    ok(until(lambda: box.execute("true").status == 200), "it starts again")
    equal(box.ask("GET", "process/session").json, [], "without sessions")
    box.delete()


def story():
    global here
    with Work() as work:
        server = Server(work).start()
        try:
            here = Box(server)
            for test in TESTS:
                yield test
            s = here.session("last")
            s.begin("sleep 888")
            ok(until(lambda: here.execute("pgrep -f 'sleep 88[8]'").json["result"]), "a session is at work")
            equal(server.stop(), 0, "the server ends well")
            key = server.key()
            server.start()
            here.client = server.client(key)
            ok(here.execute("pgrep -f 'sleep 88[8]'").json["result"], "its session goes on")
            equal([x["sessionId"] for x in here.ask("GET", "process/session").json], ["last"], "and is known again")
            here.delete()
            equal(os.listdir(server.state / "front" / "session-logs"), [], "no log stays behind")
            equal(server.stop(), 0, "it ends well again")
            ok("ERROR" not in server.logged() and "Sanitizer" not in server.logged(), "and had nothing to complain of",
               server.logged()[-3000:])
        finally:
            server.kill()


TESTS = [
    commands_end_with_their_status_and_output, commands_get_directory_and_variables, large_commands_and_outputs_pass,
    timeouts_keep_what_was_printed, deaths_are_named, children_in_the_background_live_on,
    a_client_that_left_takes_its_command_along, streams_apart_when_asked, code_runs_in_three_languages,
    charts_are_taken_out_of_the_output, sessions_keep_their_state, old_clients_get_what_they_know,
    input_and_ends_of_commands, followers_see_every_byte_once, a_slow_follower_holds_nobody_up,
    a_close_waits_behind_what_was_sent,
    the_interpreter_keeps_names_and_tells_errors, the_interpreter_and_time, contexts_are_apart, terminals_talk,
    terminals_of_older_clients, small_questions, what_hangs_on_a_sandbox_ends_with_it,
]

if __name__ == "__main__":
    main(story())
