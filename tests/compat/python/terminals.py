"""Terminals: a shell with a window size, until it leaves or is killed."""
import daytona

from tap import class_of, fails, fresh, go, has, same, test


async def open_terminal(t, box, name, seen, **kw):
    if t.is_async:
        return await box.process.create_pty_session(name, on_data=seen.append, **kw)
    return box.process.create_pty_session(name, **kw)


async def finish(t, terminal, seen):
    r = await go(terminal.wait()) if t.is_async else terminal.wait(on_data=seen.append)
    return r, b"".join(seen).decode(errors="replace")


@test("terminal: size, variables, input, exit status")
async def life(t):
    box, seen, name = await t.box(), [], fresh("pty")
    terminal = await open_terminal(t, box, name, seen, cwd="/tmp", envs={"WORD": "zebra"},
                                   pty_size=daytona.PtySize(rows=33, cols=111))
    info = await go(box.process.get_pty_session_info(name))
    same((info.id, info.cols, info.rows, info.active), (name, 111, 33, True))
    assert name in [s.id for s in await go(box.process.list_pty_sessions())]
    info = await go(box.process.resize_pty_session(name, daytona.PtySize(rows=20, cols=70)))
    same((info.cols, info.rows), (70, 20))
    await go(terminal.send_input("stty size; echo $WORD-$PWD-$TERM; test -t 0 && echo 'is a' term; exit 7\n"))
    r, text = await finish(t, terminal, seen)
    for part in ("20 70", "zebra-/tmp-xterm-256color", "is a term"):
        has(text, part)
    same(r.exit_code, 7)


@test("terminal: killed, and asked for again")
async def killed(t):
    box, seen, name = await t.box(), [], fresh("pty")
    terminal = await open_terminal(t, box, name, seen)
    await fails(class_of("DaytonaError"), lambda: open_terminal(t, box, name, []))
    await go(box.process.kill_pty_session(name))
    r, _ = await finish(t, terminal, seen)
    assert r.exit_code != 0, r
    await t.until("gone", lambda: _is_gone(box, name))


async def _is_gone(box, name):
    try:
        await go(box.process.get_pty_session_info(name))
    except daytona.DaytonaError:
        return True
    return False
