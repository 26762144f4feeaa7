#!/usr/bin/env python3
"""verbs.py PROGRAM OPTIONS VERB…: runs each verb once, on the machine it stands on, and prints a JSON object of what came of
it: {verb: {"status": N, "out": TEXT, "err": TEXT}}. OPTIONS are words for every verb that makes sandboxes."""
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time

LIMIT_S = 60
KEY = "dtn_0123456789abcdef0123456789abcdef"
ANSWER = "Make:\n```python\nopen('n', 'w').write('41')\n```\nuse:\n```bash\nexpr $(cat n) + 1\n```\n"
REPLY = "```python\nSUBMIT(answer=42)\n```\n"
CANDIDATE = "import sys\nopen(sys.argv[2], 'w').write('# List\\n- one\\n- two\\n')\n"


class Verbs:
    def __init__(self, program, options):
        self.program, self.options = program, options
        self.place = tempfile.mkdtemp(prefix="verbs-")
        os.chmod(self.place, 0o711)  # the server's other half passes it
        os.chdir(self.place)
        for name, text in (("hello.py", "print('hello')\n"), ("answer.md", ANSWER), ("good.py", CANDIDATE), ("reply", REPLY)):
            with open(name, "w", encoding="utf-8") as out:
                out.write(text)

        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example", "-c", "init.defaultBranch=main"]
        os.mkdir("repo")
        with open("repo/README.md", "w", encoding="utf-8") as out:
            out.write("# A repository\n")
        for words in (["init", "-q"], ["add", "README.md"], ["commit", "-qm", "first"]):
            subprocess.run([*git, *words], cwd="repo", check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, *args):
        try:
            done = subprocess.run([self.program, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="replace", timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as late:
            return {"status": "late", "out": str(late.stdout), "err": str(late.stderr)}
        return {"status": done.returncode, "out": done.stdout, "err": done.stderr}

    def chain(self, *steps):
        """One after the other until one fails; the last is for cleaning up and always runs."""
        for step in steps[:-1]:
            done = self.run(*step)
            if done["status"] != 0:
                break
        last = self.run(*steps[-1])
        return done if done["status"] != 0 or last["status"] == 0 else last

    def doctor(self):
        return self.run("doctor")

    def run_file(self):
        return self.expect(self.run("run", *self.options, "hello.py"), "hello\n")

    def run_sh(self):
        return self.expect(self.run("run", "--receipt", *self.options, "--", "sh", "-c", "echo $((6 * 7))"), "42\n")

    def candidate(self):
        return self.expect(self.run("candidate", *self.options, "--objective", "a list", "good.py"), "# List")

    def rlm(self):
        return self.expect(self.run("rlm", *self.options, "-q", "--llm-cmd", "cat reply", "what is it?"), "42")

    def smoke(self):
        return self.run("smoke", *self.options, "--repo", os.path.join(self.place, "repo"))

    def arena(self):
        return self.run("arena", *self.options, "-q", "--artifacts", "arena-out", "-c", "good=good.py",
                        "--check", "contains:# List", "write a list")

    def interp(self):
        return self.expect(self.run("interp", *self.options, "-c", "x = 2", "-c", "print(x + 40)"), "42\n")

    def blocks(self):
        return self.expect(self.run("blocks", *self.options, "answer.md"), "42")

    def box(self):
        return self.chain(["create", *self.options, "--name", "hosts1"],
                          ["exec", "hosts1", "--", "sh", "-c", "echo data > note; cat note"],
                          ["rm", "-f", "hosts1"])

    def volume(self):
        return self.chain(["volume", "create", "hostsv"],
                          ["run", *self.options, "-v", "hostsv:/data", "--", "sh", "-c", "echo k > /data/x"],
                          ["run", *self.options, "-v", "hostsv:/data", "--", "cat", "/data/x"],
                          ["volume", "rm", "-f", "hostsv"])

    @staticmethod
    def expect(done, text):
        if done["status"] == 0 and text not in done["out"]:
            done["status"] = f"0, but without {text!r}"
        return done

    def serve(self):
        """Start, create, execute, delete, stop; a server that refuses to start is what it says."""
        log_name = os.path.join(self.place, "serve.log")
        with open(log_name, "w+", encoding="utf-8") as log:
            server = subprocess.Popen([self.program, "serve", *self.options, "--listen", "127.0.0.1:0", "--warm", "0",
                                       "--state", os.path.join(self.place, "srv"), "--network", "none"],
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      env={**os.environ, "CAISSON_API_KEY": KEY})
            try:
                status = self.talk(server, log_name)
            finally:
                if server.poll() is None:
                    server.terminate()
                try:
                    ended = server.wait(LIMIT_S)
                except subprocess.TimeoutExpired:
                    server.kill()
                    ended, status = server.wait(), "late"
            log.seek(0)
            text = log.read()
        return {"status": ended if status is None else status, "out": "", "err": text}

    def talk(self, server, log_name):
        """None when the server ended by itself, 0 when every request went well, else the one that did not."""
        port, until = None, time.monotonic() + LIMIT_S
        while port is None and time.monotonic() < until:
            if server.poll() is not None:
                return None
            with open(log_name, encoding="utf-8") as log:
                found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read())
            port = int(found.group(1)) if found else None
            if port is None:
                time.sleep(0.02)
        status, made = self.ask(port, "POST", "/api/sandbox", {})
        if status != 200:
            return f"create: {status} {made}"
        status, ran = self.ask(port, "POST", f"/api/toolbox/{made['id']}/toolbox/process/execute", {"command": "echo hi"})
        if status != 200 or ran.get("exitCode") != 0:
            return f"execute: {status} {ran}"
        status, gone = self.ask(port, "DELETE", f"/api/sandbox/{made['id']}", None)
        return 0 if status == 200 else f"delete: {status} {gone}"

    @staticmethod
    def ask(port, method, path, body):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        try:
            link.request(method, path, json.dumps(body) if body is not None else None,
                         {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"})
            answer = link.getresponse()
            text = answer.read()
            try:
                return answer.status, json.loads(text or b"{}")
            except ValueError:
                return answer.status, text.decode("utf-8", "replace")
        except OSError as error:
            return "lost", str(error)
        finally:
            link.close()


def main():
    program, options, *names = sys.argv[1:]
    verbs = Verbs(program, options.split())
    # as a stream of its own: a machine where files must stay small still has pipes
    result = {name: getattr(verbs, name)() for name in names}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
