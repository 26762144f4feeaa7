#!/usr/bin/env python3
"""The README's quick start of the server, pasted: `caisson serve`, its two export lines, the Python and the TypeScript example."""
import os
import pathlib
import re
import subprocess

from lib import Server, Work, equal, main, ok

SOURCE = pathlib.Path(os.environ["CSN_SOURCE"])
SDKS = {"python": "py-newest", "js": "ts-daytonaio-newest"}


def sdk_dir(name):
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    for place in (os.environ.get("CSN_SDKS"), "/var/cache/caisson-tests", home / "caisson-tests"):
        if place and (pathlib.Path(place) / name / "stamp").exists():
            return pathlib.Path(place) / name
    return None


def examples():
    """(language, code, output) of every example marked `sdk`."""
    text = (SOURCE / "README.md").read_text()
    return re.findall(r"^```(python|js) sdk\n(.*?)^```\n```text output\n(.*?)^```$", text, re.M | re.S)


def command_of(language, sdk, script):
    if language == "python":
        return f"{sdk}/bin/python {script}"
    return f"NODE_PATH={sdk}/node_modules node {script}"


def the_quick_start_works():
    found = examples()
    equal([language for language, _, _ in found], ["python", "js"], "the README has both examples")
    with Work() as work:
        server = Server(work).start()
        exports = "\n".join(line.strip() for line in server.out.splitlines() if line.strip().startswith("export "))
        for language, code, wanted in found:
            sdk = sdk_dir(SDKS[language])
            if not sdk:
                must = os.environ.get("CSN_MUST_RUN") == "1"
                ok(not must, f"{language} # SKIP {SDKS[language]} is not installed: tests/compat/install")
                continue
            script = work / ("example." + {"python": "py", "js": "cjs"}[language])
            script.write_text(code)
            env = {k: v for k, v in os.environ.items() if not k.startswith("DAYTONA_") and not k.lower().endswith("_proxy")}
            done = subprocess.run(["bash", "-e", "-c", f"{exports}\n{command_of(language, sdk, script)}"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=env, check=False)
            ok(done.returncode == 0 and done.stdout == wanted, f"the {language} example prints what the README says",
               done.returncode, done.stdout, done.stderr, server.logged()[-2000:])
        equal(server.client().ask("GET", "/api/sandbox").json["items"], [], "and leaves nothing")
        server.stop()


if __name__ == "__main__":
    main([the_quick_start_works])
