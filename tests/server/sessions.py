#!/usr/bin/env python3
"""Sessions outlive the server, whichever half of it is killed, and what can't outlive it says so."""
import os
import signal

from lib import Server, Work, equal, is_alive, main, ok, run, until
from websocket import Refused, WebSocket


class Scene:
    def __init__(self, work):
        _, key, _ = run("key", "create", "mine", "--state", str(work / "state"))
        self.server = Server(work).start()
        self.client = self.server.client(key.strip())
        self.box = self.ask("POST", "/api/sandbox", {"autoStopInterval": 0}).json["id"]

    def ask(self, method, path, body=None):
        try:
            return self.client.ask(method, path, body)
        except OSError:
            self.client.close()
            return self.client.ask(method, path, body)

    def tool(self, method, path, body=None):
        return self.ask(method, f"/toolbox/{self.box}{path}", body)

    def session(self, name):
        equal(self.tool("POST", "/process/session", {"sessionId": name}).status, 201, f"session {name}")

    def begin(self, name, command):
        return self.tool("POST", f"/process/session/{name}/exec", {"command": command, "runAsync": True}).json["cmdId"]

    def do(self, name, command):
        """Exit code and output."""
        answer = self.tool("POST", f"/process/session/{name}/exec", {"command": command})
        if answer.status != 200:
            return answer.status, answer.data
        return answer.json["exitCode"], answer.json["output"].replace("\1\1\1", "").replace("\2\2\2", "")

    def command(self, name, command):
        return self.tool("GET", f"/process/session/{name}/command/{command}").json

    def log(self, name, command):
        text = self.tool("GET", f"/process/session/{name}/command/{command}/logs").data.decode()
        return text.replace("\1\1\1", "").replace("\2\2\2", "")

    def directory(self):
        """The sandbox's, in the engine's state."""
        engine = self.server.state / "engine"
        return engine / "boxes" / os.path.basename(os.readlink(engine / "names" / self.box))

    def keeper(self):
        """Who holds the sandbox's lock."""
        inode = (self.directory() / "lock").stat().st_ino
        with open("/proc/locks") as locks:
            return [int(line.split()[4]) for line in locks if line.split()[5].endswith(f":{inode}") and "->" not in line][0]

    def terminals(self):
        """Shells of terminals that run in the sandbox."""
        return int(self.tool("POST", "/process/execute", {"command": "pgrep -fc '[b]ash -i -l' || true"}).json["result"])

    def restart(self, who="both"):
        front = self.server.front()
        if who == "end":
            self.server.child.send_signal(signal.SIGTERM)
        else:
            os.kill(front if who == "front" else self.server.child.pid, signal.SIGKILL)
            if who == "both":
                try:
                    os.kill(front, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.server.wait()
        until(lambda: not is_alive(front))
        self.client.close()
        self.server.start()


COUNT = 20000
COUNTING = f"i=0; while [ $i -lt {COUNT} ]; do echo line$i; i=$((i+1)); done; echo to-stderr >&2; exit 3"


def a_session_goes_on(s, who):
    name = f"s-{who}"
    s.session(name)
    s.do(name, f"mkdir -p /tmp/{who} && cd /tmp/{who} && export COLOUR=red; f() {{ echo function; }}; true")
    done = s.begin(name, "echo out; echo err >&2; (exit 7)")
    ok(until(lambda: s.command(name, done).get("exitCode") == 7), "one has ended")
    child = s.begin(name, f"(while [ ! -e /tmp/{who}/stop ]; do sleep 0.05; done; echo from-the-child) & echo parent")
    ok(until(lambda: s.command(name, child).get("exitCode") == 0), "one left a child behind")
    counting = s.begin(name, COUNTING.replace("exit", "(exit") + ")")
    ok(until(lambda: "line100\n" in s.log(name, counting)), "one is printing")
    asking = s.begin(name, "read a; echo got:$a; read b; echo then:$b; echo $COLOUR; pwd; f")
    queued = s.begin(name, "echo queued")
    before = s.tool("GET", "/process/session").json
    s.restart(who)
    after = s.tool("GET", "/process/session").json
    shown = [[(c["id"], c["command"]) for c in x["commands"]] for x in after if x["sessionId"] == name]
    wanted = [[(c["id"], c["command"]) for c in x["commands"]] for x in before if x["sessionId"] == name]
    equal(shown, wanted, f"after the end of {who} its commands are there")
    equal((s.command(name, done)["exitCode"], s.log(name, done)), (7, "out\nerr\n"), "with their exit codes and logs")
    ok(until(lambda: s.command(name, counting).get("exitCode") is not None), "what was running goes on to its end")
    text = s.log(name, counting)
    equal((s.command(name, counting)["exitCode"], text == "".join(f"line{i}\n" for i in range(COUNT)) + "to-stderr\n"),
          (3, True), "its exit code is told, its log is whole")
    ok(until(lambda: s.tool("POST", f"/process/session/{name}/command/{asking}/input", {"data": "one"}).status == 204),
       "what waited runs, and takes input")
    ok(until(lambda: "got:one" in s.log(name, asking)), "and prints")
    s.restart(who)
    equal(s.tool("POST", f"/process/session/{name}/command/{asking}/input", {"data": "two"}).status, 204,
          "it takes input after another restart")
    ok(until(lambda: s.command(name, asking).get("exitCode") == 0), "it ends")
    equal(s.log(name, asking), f"one\ngot:one\ntwo\nthen:two\nred\n/tmp/{who}\nfunction\n", "in the same shell; echoes are in place")
    ok(until(lambda: s.command(name, queued).get("exitCode") == 0), "then the next one")
    equal(s.do(name, "pwd; echo $COLOUR; f; touch stop"), (0, f"/tmp/{who}\nred\nfunction\n"), "it takes new commands")
    ok(until(lambda: s.log(name, child) == "parent\nfrom-the-child\n"), "a child left behind still writes to its own command's log")
    equal(s.tool("DELETE", f"/process/session/{name}").status, 204, "deleted")
    s.restart(who)
    ok(name not in [x["sessionId"] for x in s.tool("GET", "/process/session").json], "a deleted one does not come back")


def a_long_command_is_passed_on_once(s):
    s.session("long")
    big = "x" * 300000
    first = s.begin("long", f"echo {big} | wc -c; sleep 0.5; echo once >> /tmp/once; cat /tmp/once")
    s.restart("front")
    ok(until(lambda: s.command("long", first).get("exitCode") is not None), "a long one ends")
    equal((s.command("long", first)["exitCode"], s.log("long", first)), (0, "300001\nonce\n"), "it was run once")
    equal(s.do("long", "echo $?-on"), (0, "0-on\n"), "and the shell goes on")


def a_command_is_never_run_twice(s):
    """Killed at any moment of its life, a command is run once or, if it was not acknowledged, perhaps not."""
    s.session("twice")
    commands = []
    for i in range(12):
        commands.append(s.begin("twice", f"echo {i} >> /tmp/runs"))
        s.restart("front" if i % 2 else "both")
    ok(until(lambda: all(s.command("twice", c).get("exitCode") == 0 for c in commands)), "all of them end")
    equal(s.do("twice", "cat /tmp/runs"), (0, "".join(f"{i}\n" for i in range(12))), "each was run once, in their order")


def what_can_not_survive_says_so(s):
    made = s.tool("POST", "/process/interpreter/context", {}).json["id"]
    equal(s.tool("POST", "/process/pty", {"id": "term"}).status, 201, "a terminal")
    equal(s.tool("POST", "/process/pty", {"id": "lazy", "lazyStart": True}).status, 201, "and one not yet started")

    def run_code(context=None):
        ws = WebSocket(s.server.port, f"/toolbox/{s.box}/process/interpreter/execute", s.client.key)
        ws.send('{"code": "x = 1", "contextId": "%s"}' % (context or ""))
        ws.all()
        return ws.code, ws.reason

    equal(run_code()[0], 1000, "code runs in the default context")
    for who in ("both", "end"):
        s.restart(who)
        for name in ("term", "lazy"):
            answer = s.tool("GET", f"/process/pty/{name}")
            equal((answer.status, answer.json["code"]), (410, "SESSION_ENDED"), "a terminal that ended with the server says so")
        try:
            WebSocket(s.server.port, f"/toolbox/{s.box}/process/pty/term/connect", s.client.key)
            ok(False, "also to who connects")
        except Refused as error:
            equal(error.status, 410, "also to who connects")
        code, reason = run_code(made)
        ok(code == 1008 and "ended when the server was started again" in reason, "so does a context", code, reason)
        equal(s.tool("DELETE", f"/process/interpreter/context/{made}").status, 410, "however one asks")
        code, reason = run_code()
        ok(code == 1008 and "there is a new one" in reason, "the default one says so once", code, reason)
        equal(run_code()[0], 1000, "and then there is a new one")
    equal(s.tool("GET", "/process/pty/never").status, 404, "what never was is not found")
    equal(s.terminals(), 0, "nobody's terminals are left running")
    equal(s.tool("POST", "/process/pty", {"id": "term"}).status, 201, "the name can be taken again")
    equal(s.tool("GET", "/process/pty/term").status, 200, "and is the new one's")


def a_copy_ends_no_command(s):
    """Without a freezer everyone in the sandbox is stopped for the copy and woken after it, who had stopped before, too."""
    s.session("copied")
    waiting = s.begin("copied", "read a; echo got:$a")
    until(lambda: s.tool("GET", f"/process/session/copied/command/{waiting}").status == 200)
    for i in range(3):
        equal(s.ask("POST", f"/api/sandbox/{s.box}/fork", {"name": f"copy-{i}"}).status, 200, "a copy is made meanwhile")
        equal(s.ask("DELETE", f"/api/sandbox/copy-{i}").status, 200, "and deleted")
    equal(s.command("copied", waiting).get("exitCode"), None, "a command goes on when its sandbox was copied")
    equal(s.tool("POST", f"/process/session/copied/command/{waiting}/input", {"data": "one"}).status, 204, "it takes input")
    ok(until(lambda: s.command("copied", waiting).get("exitCode") == 0), "and ends by itself")
    equal(s.log("copied", waiting), "one\ngot:one\n", "its log is whole")


def logs_outlive_the_keeper(s):
    """The keeper killed: its sandbox is stopped, and what it took is on disk, whole."""
    s.session("last")
    printing = s.begin("last", "i=0; while :; do echo last$i; i=$((i+1)); done")
    ok(until(lambda: "last2000\n" in s.log("last", printing)), "one is printing")
    directory = s.directory()
    seen = s.log("last", printing)
    os.kill(s.keeper(), signal.SIGKILL)
    ok(until(lambda: s.ask("GET", f"/api/sandbox/{s.box}").json["state"] == "stopped"), "a killed keeper: the sandbox is stopped")
    texts = [(f.read_text(), f) for f in (directory / "logs").glob("*.log")]
    kept = [t.split("\n", 1)[1] for t, _ in texts if "last2000\n" in t]
    ok(len(kept) == 1 and kept[0].startswith(seen), "its log is there, with all that was ever shown")
    lines = kept[0].split("\n") if kept else [""]
    ok(all(line == f"last{i}" for i, line in enumerate(lines[:-1])) and f"last{len(lines) - 1}".startswith(lines[-1]),
       "and without a gap up to its last byte", lines[-3:])
    equal(s.ask("POST", f"/api/sandbox/{s.box}/start").status, 200, "started again")
    equal(s.tool("GET", "/process/session").json, [], "sessions ended with the run")
    s.restart("both")
    equal(s.tool("GET", "/process/session").json, [], "and don't come back with the server")


def sessions():
    with Work() as work:
        s = Scene(work)
        for who in ("front", "warden", "both", "end"):
            try:
                a_session_goes_on(s, who)
            except Exception as error:  # noqa: BLE001 the others go on
                ok(False, f"a_session_goes_on {who}", repr(error))
        for part in (a_long_command_is_passed_on_once, a_command_is_never_run_twice, what_can_not_survive_says_so,
                     a_copy_ends_no_command, logs_outlive_the_keeper):
            try:
                part(s)
            except Exception as error:  # noqa: BLE001 the others go on
                ok(False, part.__name__, repr(error))


if __name__ == "__main__":
    main([sessions])
