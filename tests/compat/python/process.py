"""Commands and programs: process.exec and process.code_run."""
import base64
import time

import daytona
from daytona import CodeRunParams

from tap import Skip, VERSION, by_status, fails, fresh, go, has, same, test


@test("exec: output, exit code, no login shell needed")
async def exec_plain(t):
    box = await t.box()
    r = await go(box.process.exec("echo out; echo err >&2; exit 3"))
    same((r.exit_code, r.result), (3, "out\nerr\n"))
    same(r.artifacts.stdout, r.result)
    same((await go(box.process.exec("printf 'no newline'"))).result, "no newline")
    same((await go(box.process.exec("true"))).result, "")
    same((await go(box.process.exec("no-such-command-here"))).exit_code, 127)
    same((await go(box.process.exec("(( 2 > 1 )) && [[ ab == a* ]] && echo bash"))).result, "bash\n")
    same((await go(box.process.exec("kill -TERM $BASHPID; echo no"))).exit_code != 0, True)
    same((await go(box.process.exec("bash -c 'kill -KILL $$'; echo $?"))).result.splitlines()[-1], "137")


@test("exec: working directory and environment")
async def exec_cwd_env(t):
    box = await t.box()
    same(await t.sh("pwd; echo $HOME; id -un; id -u"), "/home/daytona\n/home/daytona\ndaytona\n1000\n")
    same(await t.sh("mkdir -p sub/dir && cd sub && pwd"), "/home/daytona/sub\n")
    same((await go(box.process.exec("pwd", cwd="/tmp"))).result, "/tmp\n")
    same((await go(box.process.exec("pwd", cwd="sub/dir"))).result, "/home/daytona/sub/dir\n")
    r = await go(box.process.exec("echo hi", cwd="/no/such/dir"))
    same(r.exit_code, -1)
    assert r.result
    hard = {"A": "1", "Q": "it's \"quoted\" $HOME `x` \\", "NL": "a\nb", "U": "grüße 🚢", "FROM_CREATE": "mine"}
    r = await go(box.process.exec('printf "%s|" "$A" "$Q" "$NL" "$U" "$FROM_CREATE"', env=hard))
    same(r.result, "|".join(hard.values()) + "|")
    same(await t.sh('printf %s "$FROM_CREATE"'), "a b'c\"d")
    same(await t.sh("echo \"[$A]\""), "[]\n")


@test("exec: a command that is late is killed, and the error is the SDK's own")
async def exec_timeout(t):
    box = await t.box()
    mark = fresh("late")
    began = time.monotonic()
    cls = daytona.DaytonaTimeoutError if VERSION >= (0, 201) else daytona.DaytonaError
    error = await fails(cls, lambda: box.process.exec(
        f"echo before; bash -c 'exec -a {mark} sleep 300' & exec -a {mark} sleep 300", timeout=1), status=408,
        code="PROCESS_EXECUTION_TIMEOUT")
    assert 0.9 < time.monotonic() - began < 10
    assert str(error)
    await t.until("nothing of it runs", lambda: _is_absent(box, mark))
    same(await t.sh("echo alive", timeout=10), "alive\n")


async def _is_absent(box, mark):
    return (await go(box.process.exec(f"pgrep -f '[{mark[0]}]{mark[1:]}'"))).exit_code == 1


@test("exec: scripts of many lines, here documents, half a megabyte")
async def exec_big(t):
    same(await t.sh("cat <<'END'\nline $x\nEND\nfor i in 1 2; do\n  echo $i\ndone\n"), "line $x\n1\n2\n")
    data = base64.b64encode(bytes(range(256)) * 1600).decode() # 546 KB
    same(await t.sh(f"echo '{data}' | base64 -d | wc -c"), "409600\n")


@test("exec: Unicode, bytes that are no UTF-8, a megabyte of output")
async def exec_bytes(t):
    same(await t.sh("echo 'žluťoučký 🐎 漢字'"), "žluťoučký 🐎 漢字\n")
    r = await t.sh(r"printf 'a\xff\xfeb\0c\n'")
    has(r, "a�")
    assert r.endswith("c\n"), r
    out = await t.sh("head -c 1048576 /dev/zero | tr '\\0' x")
    same(len(out), 1048576)
    same(await t.sh("seq 200000 | tail -n 1"), "200000\n")


@test("exec: a background child outlives its command and does not hold it up")
async def exec_background(t):
    box = await t.box()
    began = time.monotonic()
    await t.sh("rm -f bg.txt; nohup sh -c 'while [ ! -e bg.go ]; do sleep 0.05; done; echo done > bg.txt' >bg.log 2>&1 &")
    assert time.monotonic() - began < 5
    await t.sh("touch bg.go")
    await t.until("the child wrote", lambda: _exists(box, "bg.txt"))


async def _exists(box, path):
    return (await go(box.process.exec(f"test -s {path}"))).exit_code == 0


@test("exec: many at once in one sandbox")
async def exec_parallel(t):
    box = await t.box()
    results = await t.together(*[lambda i=i: box.process.exec(f"echo {i}") for i in range(12)])
    same([r.result for r in results], [f"{i}\n" for i in range(12)])


@test("exec: bad requests")
async def exec_bad(t):
    box = await t.box()
    await fails(by_status("DaytonaBadRequestError"), lambda: box.process.exec("  "), status=400)
    await fails(daytona.DaytonaError, lambda: box.process.exec("true", env={"1BAD-KEY": "x"}))


@test("code_run: python")
async def python(t):
    box = await t.box()
    r = await go(box.process.code_run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(4)"))
    same(r.exit_code, 4)
    same(sorted(r.result.split()), ["err", "out"])
    r = await go(box.process.code_run("import os, sys\nprint(sys.argv[1:], os.environ['E'], os.getcwd())",
                                      CodeRunParams(argv=["a b", "'q'", ""], env={"E": "v\"w"})))
    same(r.result, "['a b', \"'q'\", ''] v\"w /home/daytona\n")
    r = await go(box.process.code_run("raise ValueError('wrong')"))
    same(r.exit_code, 1)
    has(r.result, "ValueError: wrong")
    r = await go(box.process.code_run("def f():\n    return 1\n\n\nclass A:\n    x = 'ž'\n\n\nprint(f(), A.x)\n"))
    same(r.result, "1 ž\n")
    same((await go(box.process.code_run("import sys; print(repr(sys.stdin.read()))"))).result, "''\n")
    same((await go(box.process.code_run("this is no python"))).exit_code, 1)
    big = "x = '" + "y" * 300000 + "'\nprint(len(x))"
    same((await go(box.process.code_run(big))).result, "300000\n")


@test("code_run: a late program is killed")
async def python_late(t):
    box = await t.box()
    began = time.monotonic()
    error = await fails(Exception, lambda: box.process.code_run("import time\ntime.sleep(300)", timeout=1))
    same(getattr(error, "status", getattr(error, "status_code", None)), 408)
    assert time.monotonic() - began < 10


@test("code_run: javascript and typescript")
async def scripts(t):
    js = await t.create(language="javascript")
    r = await go(js.process.code_run("const a = process.argv.slice(1);\nconsole.log(a, process.env.E, 6 * 7)",
                                     CodeRunParams(argv=["x y", "z"], env={"E": "e"})))
    same((r.exit_code, r.result), (0, "[ 'x y', 'z' ] e 42\n"))
    r = await go(js.process.code_run("process.exit(5)"))
    same(r.exit_code, 5)
    r = await go(js.process.code_run("throw new Error('wrong')"))
    assert r.exit_code != 0
    has(r.result, "wrong")
    ts = await t.create(language="typescript")
    r = await go(ts.process.code_run(
        "interface P { x: number }\nconst p: P = { x: 41 };\nenum E { A = 1 }\n"
        "console.log(p.x + E.A, process.argv.slice(1))", CodeRunParams(argv=["one"])))
    same((r.exit_code, r.result), (0, "42 [ 'one' ]\n"))


@test("code_run: charts of matplotlib")
async def charts(t):
    box = await t.box()
    if (await go(box.process.exec("python3 -c 'import matplotlib'"))).exit_code:
        raise Skip("the machine's python3 has no matplotlib")
    r = await go(box.process.code_run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [4, 5, 6], label='l')\nplt.title('T')\nplt.xlabel('X')\n"
        "plt.show()\nprint('after')"))
    same((r.exit_code, r.result), (0, "after\n"))
    same(len(r.artifacts.charts), 1)
    chart = r.artifacts.charts[0]
    same((chart.type, chart.title, chart.x_label), ("line", "T", "X"))
    same(base64.b64decode(chart.png)[:4], b"\x89PNG")
    same([tuple(p) for p in chart.elements[0].points], [(1, 4), (2, 5), (3, 6)])
    same(chart.elements[0].label, "l")
    r = await go(box.process.code_run(
        "import matplotlib.pyplot as plt\n"
        "plt.bar(['a', 'b'], [1, 2]); plt.show()\nprint('between')\n"
        "plt.pie([1, 3], labels=['p', 'q']); plt.show()\nplt.scatter([1], [2]); plt.show()\n"
        "plt.boxplot([[1, 2, 3, 4, 50]]); plt.show()\n"
        "f, (x, y) = plt.subplots(1, 2); x.plot([1], [1]); y.bar(['c'], [3]); plt.show()\n"))
    same((r.exit_code, r.result), (0, "between\n"))
    same([str(c.type).split(".")[-1].lower() for c in r.artifacts.charts],
         ["bar", "pie", "scatter", "box_and_whisker", "composite_chart"])
    bar = r.artifacts.charts[0]
    same([(e.label, str(e.value)) for e in bar.elements], [("a", "1"), ("b", "2")])
    same([e.label for e in r.artifacts.charts[1].elements], ["p", "q"])
    same(r.artifacts.charts[3].elements[0].median, 3)
    same(len(r.artifacts.charts[4].elements), 2)
