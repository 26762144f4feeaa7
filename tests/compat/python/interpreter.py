"""The code interpreter: contexts that keep their state, over WebSocket."""
import time

import daytona

from tap import fails, go, has, same, test


@test("interpreter: state stays, output is streamed and told apart")
async def state(t):
    run = (await t.box()).code_interpreter.run_code
    r = await go(run("import sys\nx = 41\ndef f(): return x + 1"))
    same((r.stdout, r.stderr, r.error), ("", "", None))
    out, err = [], []
    r = await go(run("print(f()); print('oops', file=sys.stderr); print('ž🐎')",
                     on_stdout=lambda m: out.append(m.output), on_stderr=lambda m: err.append(m.output)))
    same((r.stdout, r.stderr), ("42\nž🐎\n", "oops\n"))
    same(("".join(out), "".join(err)), (r.stdout, r.stderr))
    r = await go(run("import os; print(os.getcwd(), os.environ['FROM_CREATE'])"))
    same(r.stdout, "/home/daytona a b'c\"d\n")


@test("interpreter: errors are told, and the state survives them")
async def errors(t):
    run = (await t.box()).code_interpreter.run_code
    seen = []
    r = await go(run("kept = 1\nprint('first')\nraise ValueError('wrong')", on_error=seen.append))
    same(r.stdout, "first\n")
    same((r.error.name, r.error.value), ("ValueError", "wrong"))
    has(r.error.traceback, "ValueError: wrong")
    has(r.error.traceback, "line 3")
    same((len(seen), seen[0].name), (1, "ValueError"))
    r = await go(run("def broken(:"))
    same(r.error.name, "SyntaxError")
    same((await go(run("print(kept)"))).stdout, "1\n")
    r = await go(run("import sys; sys.exit(3)"))
    same(r.error, None)


@test("interpreter: contexts are apart")
async def contexts(t):
    box = await t.box()
    i = box.code_interpreter
    await go(box.fs.create_folder("ctx", "755"))
    a, b = await go(i.create_context()), await go(i.create_context(cwd="/home/daytona/ctx"))
    same((a.cwd, b.cwd, a.language, a.active), ("/home/daytona", "/home/daytona/ctx", "python", True))
    await go(i.run_code("who = 'a'", context=a))
    await go(i.run_code("who = 'b'; import os", context=b))
    same((await go(i.run_code("print(who)", context=a))).stdout, "a\n")
    same((await go(i.run_code("print(who, os.getcwd())", context=b))).stdout, "b /home/daytona/ctx\n")
    same((await go(i.run_code("print(who)"))).error.name, "NameError")
    same(sorted(c.id for c in await go(i.list_contexts())), sorted([a.id, b.id]))
    await go(i.delete_context(a))
    same([c.id for c in await go(i.list_contexts())], [b.id])
    await fails(daytona.DaytonaError, lambda: i.run_code("1", context=a))
    await fails(daytona.DaytonaNotFoundError, lambda: i.delete_context(a), status=404)
    await go(i.delete_context(b))


@test("interpreter: a context in a directory that is not there")
async def no_such_directory(t):
    interpreter = (await t.box()).code_interpreter
    context = await go(interpreter.create_context(cwd="/no/such/directory"))
    result = await go(interpreter.run_code("print(1)", context=context))
    has(result.error.value, "directory")
    await go(interpreter.delete_context(context))


@test("interpreter: variables of one run only")
async def envs(t):
    run = (await t.box()).code_interpreter.run_code
    r = await go(run("import os; print(os.environ.get('ONCE'))", envs={"ONCE": "yes"}))
    same(r.stdout, "yes\n")
    same((await go(run("print(os.environ.get('ONCE'))"))).stdout, "None\n")


@test("interpreter: a late run is ended with the SDK's timeout error")
async def timeout(t):
    i = (await t.box()).code_interpreter
    c = await go(i.create_context())
    await go(i.run_code("before = 1", context=c))
    began = time.monotonic()
    await fails(daytona.DaytonaTimeoutError, lambda: i.run_code("import time\ntime.sleep(300)", context=c, timeout=1))
    assert 0.9 < time.monotonic() - began < 10
    r = await go(i.run_code("print('again')", context=c))
    same(r.stdout, "again\n")
    await fails(daytona.DaytonaTimeoutError, lambda: i.run_code(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", context=c, timeout=1))
    same((await go(i.run_code("print('anew')", context=c))).stdout, "anew\n")
    await go(i.delete_context(c))


@test("interpreter: other calls work while a run is in progress")
async def during(t):
    box = await t.box()
    await t.sh("rm -f go-on")
    code = "import os, time\nprint('waiting', flush=True)\nwhile not os.path.exists('go-on'): time.sleep(0.01)\nprint('went on')"

    def release():
        return box.process.exec("touch go-on")
    first, second = await t.together(lambda: box.code_interpreter.run_code(code, timeout=30), release)
    same((first.stdout, second.exit_code), ("waiting\nwent on\n", 0))


@test("interpreter: a lot of output arrives whole")
async def much(t):
    run = (await t.box()).code_interpreter.run_code
    r = await go(run("for i in range(20000): print(i)"))
    same(r.stdout, "".join(f"{i}\n" for i in range(20000)))
    same(len((await go(run("print('x' * 1000000)"))).stdout), 1000001)
