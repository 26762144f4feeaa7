"""What the three systems do that Caisson was made for, call by call as they do it."""
import asyncio
import base64
import concurrent.futures
import os
import uuid

import daytona
from daytona import CreateSandboxFromSnapshotParams, Daytona, DaytonaConfig, SessionExecuteRequest, VolumeMount

import repos
from tap import VERSION, has, same, test


# --- AG2: DaytonaCodeExecutor --------------------------------------------------------------------------------------

class Executor:
    """One sandbox for all blocks; python by code_run, the others as a file that is run and removed."""
    EXT = {"bash": "sh", "sh": "sh", "javascript": "js", "typescript": "ts"}
    CMD = {"bash": "bash", "sh": "sh", "javascript": "node", "typescript": "ts-node"}

    def __init__(self, timeout=60, env_vars=None):
        self.timeout, self.env_vars = timeout, env_vars or {}
        self.name = f"ag2-{uuid.uuid4().hex[:8]}"
        self.client = Daytona(DaytonaConfig())
        self.sandbox = self.create()

    def create(self):
        return self.client.create(CreateSandboxFromSnapshotParams(name=self.name, env_vars=self.env_vars,
                                                                  auto_stop_interval=0))

    def run(self, blocks):
        outputs = []
        for lang, code in blocks:
            try:
                if lang == "python":
                    r = self.sandbox.process.code_run(code, timeout=self.timeout)
                else:
                    path = f"/tmp/ag2_{uuid.uuid4().hex}.{self.EXT[lang]}"
                    self.sandbox.fs.upload_file(code.encode("utf-8"), path)
                    r = self.sandbox.process.exec(f"{self.CMD[lang]} {path}", timeout=self.timeout)
                    try:
                        self.sandbox.fs.delete_file(path)
                    except daytona.DaytonaNotFoundError:
                        pass
            except daytona.DaytonaTimeoutError as e:
                return 1, f"Execution timed out: {e}"
            except daytona.DaytonaError as e:
                return 1, f"Daytona error: {e}"
            except Exception as e:  # noqa: BLE001
                return 1, f"Error executing code block: {e}"
            if r.exit_code != 0:
                return r.exit_code, r.result
            outputs.append(r.result)
        return 0, "\n".join(outputs)

    def restart(self):
        try:
            self.sandbox.delete()
        except daytona.DaytonaNotFoundError:
            pass
        self.sandbox = self.create()

    def delete(self):
        try:
            self.sandbox.delete()
        except daytona.DaytonaNotFoundError:
            pass


@test("the AG2 executor's way", only="sync", seconds=120)
async def ag2(t):
    e = Executor(timeout=20, env_vars={"SECRET": "s3"})
    try:
        same(e.run([("python", "import os; print('py', os.environ['SECRET'])"), ("bash", "echo bash $SECRET"),
                    ("sh", "echo sh"), ("javascript", "console.log('js', 1 + 1)")]), (0, "py s3\n\nbash s3\n\nsh\n\njs 2\n"))
        same(e.run([("typescript", "const x: number = 3;\nconsole.log('ts', x)")]), (0, "ts 3\n"))
        same(e.run([("python", "x = 1"), ("bash", "echo first; exit 9"), ("sh", "echo never")]), (9, "first\n"))
        same(e.run([("bash", "rm -f \"$0\"; echo gone")]), (0, "gone\n")) # its file removed itself
        e.timeout = 1
        status, text = e.run([("bash", "sleep 100")])
        same(status, 1)
        has(text, "Execution timed out: " if VERSION >= (0, 201) else "Daytona error: ")
        status, text = e.run([("python", "import time; time.sleep(100)")])
        same(status, 1)
        has(text, "rror")
        e.timeout = 20
        e.sandbox.process.exec("touch /home/daytona/old")
        old = e.sandbox.id
        e.restart()
        assert e.sandbox.id != old and e.sandbox.name == e.name
        same(e.run([("bash", "ls /home/daytona/old 2>/dev/null || echo fresh")]), (0, "fresh\n"))
    finally:
        e.delete()
        e.delete() # twice is harmless


# --- Dream Foundry: daytona_runner ---------------------------------------------------------------------------------

def run_candidate(key, candidate_id, script, objective):
    client = Daytona(DaytonaConfig(api_key=key))
    sandbox = client.create()
    try:
        script_path, output = f"/home/daytona/{candidate_id}.py", f"/home/daytona/{candidate_id}_output.md"
        encoded = base64.b64encode(script.encode()).decode()
        sandbox.process.exec(f"echo '{encoded}' | base64 -d > {script_path}", timeout=30)
        escaped = objective.replace("'", "'\\''")
        r = sandbox.process.exec(f"python3 {script_path} '{escaped}' {output}", timeout=60)
        artifact = sandbox.process.exec(f"cat {output}", timeout=10)
        return r.exit_code, r.result, artifact.exit_code, artifact.result
    finally:
        client.delete(sandbox)


@test("the Dream Foundry runner's way", only="sync", seconds=120)
async def dream_foundry(t):
    script = ("import sys, time\nprint('[', sys.argv[1], ']')\nopen(sys.argv[2], 'w').write('# ' + sys.argv[1] * 2)\n"
              + "# " + "padding " * 40000)
    broken = "import sys\nprint('before')\nraise SystemExit('bad candidate')"
    key, objective = os.environ["DAYTONA_API_KEY"], "It's \"AI\" & $events"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(run_candidate, key, name, code, objective) for name, code in
                (("alpha", script), ("beta", script), ("gamma", broken), ("delta", script))]
        results = [j.result() for j in jobs]
    good = (0, f"[ {objective} ]\n", 0, "# " + objective * 2)
    same([results[0], results[1], results[3]], [good] * 3)
    same((results[2][0], results[2][2]), (1, 1))
    has(results[2][1], "before")


# --- fleet-rlm: DaytonaInterpreter ---------------------------------------------------------------------------------

@test("the fleet-rlm interpreter's way", only="async", seconds=120)
async def fleet_rlm(t):
    client = daytona.AsyncDaytona()
    name, memory = f"fleet-{uuid.uuid4().hex[:8]}", "/home/daytona/memory"
    try:
        volume = await client.volume.get(name, create=True)
        await t.until("the volume is ready", lambda: _ready(client, name))
        try:
            await client.snapshot.get("fleet-rlm-base")
            raise AssertionError("nobody made that snapshot")
        except daytona.DaytonaError:
            pass

        async def start():
            return await client.create(CreateSandboxFromSnapshotParams(
                language="python", ephemeral=True, labels={"managed-by": "fleet-rlm"}, auto_stop_interval=30,
                auto_archive_interval=60, volumes=[VolumeMount(volume_id=volume.id, mount_path=memory)]), timeout=60)
        box = await start()
        work = await box.get_work_dir()
        await box.fs.create_folder(f"{work}/.fleet-rlm/context", "755")
        await box.fs.create_folder(f"{memory}/knowledge", "755")
        await box.fs.upload_file(b"# context", f"{work}/.fleet-rlm/context/00-readme.md")
        door = await repos.serve(t, box)
        await box.git.clone(url=door + "/open/origin.git", path=f"{work}/repo", branch="feature")
        same((await box.process.code_run("print(open('/home/daytona/repo/two.txt').read())")).result, "two\n\n")
        ctx = await box.code_interpreter.create_context(cwd=work)
        seen = []
        r = await box.code_interpreter.run_code(
            "import json, pathlib\nbuf = {}\nbuf.setdefault('findings', []).append('first')\n"
            f"out = pathlib.Path('{memory}/knowledge/report.json')\nout.write_text(json.dumps(buf))\nprint('saved')",
            context=ctx, on_stdout=lambda m: seen.append(m.output), timeout=60)
        same((r.error, "".join(seen)), (None, "saved\n"))

        # A server of its own beside a run that talks to it: the tool bridge without the host's half.
        await box.fs.upload_file(BROKER.encode(), "broker_server.py")
        await box.process.create_session("broker")
        cmd = await box.process.execute_session_command("broker", SessionExecuteRequest(
            command="cd /home/daytona && python3 broker_server.py", run_async=True))
        await t.until("the broker is up", lambda: _answers(box))
        asking = asyncio.ensure_future(box.code_interpreter.run_code(
            "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:3000/ask', timeout=30).read().decode())",
            context=ctx, timeout=60))
        answered = await box.process.exec("python3 -c \"import urllib.request as u; "
                                          "print(u.urlopen('http://127.0.0.1:3000/answer', timeout=30).read().decode())\"")
        same((await asking).stdout + answered.result, "tool result\nok\n")
        await box.refresh_activity()
        same((await box.process.get_session_command("broker", cmd.cmd_id)).exit_code, None)
        await box.process.delete_session("broker")
        await box.code_interpreter.delete_context(ctx)
        await box.stop(timeout=10)
        try:
            await box.delete()
        except daytona.DaytonaError:
            pass # ephemeral: gone with the stop
        again = await start()
        same(await again.fs.download_file(f"{memory}/knowledge/report.json"), b'{"findings": ["first"]}')
        same([f.name for f in await again.fs.list_files(memory)], ["knowledge"])
        await again.fs.delete_file(f"{memory}/knowledge/report.json")
        await again.delete()
    finally:
        await client.close()


BROKER = """
import http.server, threading
asked = threading.Event()
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/ask': asked.wait(30)
        if self.path == '/answer': asked.set()
        body = {'/ask': b'tool result'}.get(self.path, b'ok')
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('0.0.0.0', 3000), H).serve_forever()
"""


async def _ready(client, name):
    return (await client.volume.get(name)).state == "ready"


async def _answers(box):
    r = await box.process.exec("python3 -c \"import urllib.request as u; u.urlopen('http://127.0.0.1:3000/health')\"")
    return r.exit_code == 0
