"""Sessions: one shell that lives on, commands one after the other, logs whole and followed."""
import asyncio

import daytona
from daytona import SessionExecuteRequest as Request

from tap import by_status, class_of, fails, fresh, go, has, same, test

NotFound = daytona.DaytonaNotFoundError


async def session(t):
    box = await t.box()
    name = fresh("s")
    await go(box.process.create_session(name))
    return box, name


@test("session: state stays, stdout and stderr are told apart")
async def state(t):
    box, s = await session(t)
    run = box.process.execute_session_command
    await go(run(s, Request(command="cd /tmp; export V='a b'; f() { echo f$1; }")))
    r = await go(run(s, Request(command="pwd; echo $V; f 1; echo err >&2; (exit 7)")))
    same(r.exit_code, 7)
    same(r.stdout, "/tmp\na b\nf1\n")
    same(r.stderr, "err\n")
    assert r.cmd_id and r.output
    c = await go(box.process.get_session_command(s, r.cmd_id))
    same((c.id, c.exit_code), (r.cmd_id, 7))
    has(c.command, "f 1")
    logs = await go(box.process.get_session_command_logs(s, r.cmd_id))
    same((logs.stdout, logs.stderr), (r.stdout, r.stderr))
    got = await go(box.process.get_session(s))
    same((got.session_id, len(got.commands)), (s, 2))
    assert s in [x.session_id for x in await go(box.process.list_sessions())]
    await go(box.process.delete_session(s))
    await fails(NotFound, lambda: box.process.get_session(s), status=404)
    assert s not in [x.session_id for x in await go(box.process.list_sessions())]


@test("session: no byte is lost or repeated")
async def whole(t):
    box, s = await session(t)
    r = await go(box.process.execute_session_command(s, Request(command="seq 20000; printf 'ž🐎'; printf end >&2")))
    want = "".join(f"{i}\n" for i in range(1, 20001)) + "ž🐎"
    assert r.stdout.rstrip("\n") == want, (len(r.stdout), r.stdout[-20:])
    same(r.stderr.rstrip("\n"), "end")
    same((await go(box.process.execute_session_command(s, Request(command="cat")))).exit_code, 0) # stdin is at its end
    await go(box.process.delete_session(s))


@test("session: asynchronous, with input, followed while it runs")
async def follow(t):
    box, s = await session(t)
    r = await go(box.process.execute_session_command(s, Request(
        command='echo ready; while read -r x; do echo "got $x"; echo "e $x" >&2; [ "$x" = end ] && break; done; exit 0 2>/dev/null || true',
        run_async=True)))
    assert r.cmd_id and r.exit_code is None
    assert (await go(box.process.get_session_command(s, r.cmd_id))).exit_code is None
    out, err = [], []
    following = asyncio.ensure_future(box.process.get_session_command_logs_async(s, r.cmd_id, out.append, err.append))
    await t.until("ready was followed", lambda: "ready" in "".join(out))
    await go(box.process.send_session_command_input(s, r.cmd_id, "one"))
    await t.until("the answer was followed", lambda: "got one" in "".join(out))
    await go(box.process.send_session_command_input(s, r.cmd_id, "end\n"))
    await asyncio.wait_for(following, 20)
    text = "".join(out)
    same([x for x in text.splitlines() if x.startswith(("ready", "got"))], ["ready", "got one", "got end"])
    same("".join(err).split("\n")[:2], ["e one", "e end"])
    logs = await go(box.process.get_session_command_logs(s, r.cmd_id))
    same(logs.stdout.rstrip("\n"), text.rstrip("\n"))
    c = await t.until("it has ended", lambda: _ended(box, s, r.cmd_id))
    same(c.exit_code, 0)
    await go(box.process.delete_session(s))


async def _ended(box, s, command):
    c = await go(box.process.get_session_command(s, command))
    return c if c.exit_code is not None else None


@test("session: input of a command that has ended, and of none")
async def late_input(t):
    box, s = await session(t)
    r = await go(box.process.execute_session_command(s, Request(command="true", run_async=True)))
    await t.until("it has ended", lambda: _ended(box, s, r.cmd_id))
    await fails(by_status("DaytonaGoneError"), lambda: box.process.send_session_command_input(s, r.cmd_id, "x"),
                status=410, code="COMMAND_ALREADY_COMPLETED")
    await fails(NotFound, lambda: box.process.get_session_command(s, "no-such-command"), status=404)
    await go(box.process.delete_session(s))


@test("session: commands of one session run one after the other")
async def serial(t):
    box, s = await session(t)
    await t.sh("rm -f gate order")
    first = await go(box.process.execute_session_command(s, Request(
        command="while [ ! -e gate ]; do sleep 0.02; done; echo 1 >> order", run_async=True)))
    second = await go(box.process.execute_session_command(s, Request(command="echo 2 >> order", run_async=True)))
    assert (await go(box.process.get_session_command(s, second.cmd_id))).exit_code is None
    await t.sh("touch gate")
    await t.until("both ended", lambda: _ended(box, s, second.cmd_id))
    same((await go(box.process.get_session_command(s, first.cmd_id))).exit_code, 0)
    same(await t.sh("cat order"), "1\n2\n")
    await go(box.process.delete_session(s))


@test("session: errors")
async def errors(t):
    box, s = await session(t)
    await fails(class_of("DaytonaConflictError"), lambda: box.process.create_session(s), status=409)
    await go(box.process.delete_session(s))
    await fails(NotFound, lambda: box.process.delete_session(s), status=404)
    await fails(NotFound, lambda: box.process.execute_session_command(s, Request(command="true")), status=404)
    await fails(NotFound, lambda: box.process.get_session_command_logs(s, "x"), status=404)


@test("session: delete kills what still runs, followers see the end")
async def delete(t):
    box, s = await session(t)
    r = await go(box.process.execute_session_command(s, Request(
        command="echo on; exec -a held-by-session sleep 300", run_async=True)))
    out = []
    following = asyncio.ensure_future(
        box.process.get_session_command_logs_async(s, r.cmd_id, out.append, lambda _: None))
    await t.until("it runs", lambda: "on" in "".join(out))
    await go(box.process.delete_session(s))
    await asyncio.wait_for(following, 20)
    same((await go(box.process.exec("pgrep -f '[h]eld-by-session'"))).exit_code, 1)


@test("session: a shell that leaves ends the session with its status")
async def leaves(t):
    box, s = await session(t)
    r = await go(box.process.execute_session_command(s, Request(command="echo bye; exit 3")))
    same((r.exit_code, r.stdout), (3, "bye\n"))
    await fails(by_status("DaytonaGoneError"), lambda: box.process.execute_session_command(s, Request(command="true")),
                status=410, code="SESSION_ENDED")
    await go(box.process.delete_session(s))
