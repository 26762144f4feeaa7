"""What the tests of the remote backend share: a real server, and `caisson` as people call it."""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["CSN_SOURCE"], "tests", "server")))
import lib  # noqa: E402 it stands beside the server's own tests

SUPPRESSIONS = pathlib.Path(os.environ["CSN_SOURCE"], "tests", "remote", "lsan.supp")
CAISSON = str(lib.BUILD / "caisson")
NAMES = ("DAYTONA_API_KEY", "DAYTONA_API_URL", "DAYTONA_BASE_URL", "DAYTONA_SERVER_URL", "DAYTONA_JWT_TOKEN",
         "DAYTONA_ORGANIZATION_ID", "DAYTONA_TARGET")


def environment(url=None, key=None, **more):
    env = {k: v for k, v in os.environ.items() if k not in NAMES and not k.lower().endswith("_proxy")}
    env["CAISSON_LIBEXEC"] = str(lib.BUILD)
    env["LSAN_OPTIONS"] = f"suppressions={SUPPRESSIONS}:print_suppressions=0"
    if url:
        env["DAYTONA_API_URL"] = url
    if key:
        env["DAYTONA_API_KEY"] = key
    return {**env, **more}


def caisson(*command, env, cwd, seconds=120):
    return subprocess.run([CAISSON, *map(str, command)], env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=seconds, check=False)


def words(log):
    """A log's lines after the tag: the tag itself, and the sandbox's id, are the only things that differ."""
    text = log.decode(errors="replace")
    text = re.sub(r"\[(Sandbox|Daytona)\]", "[Tag]", text)
    return re.sub(r"Sandbox ready: [0-9a-f]{8}\.\.\.", "Sandbox ready: ID...", text)


def bound(tests, *things):
    """The tests as lib.main() wants them: without arguments."""
    def bind(test):
        def run():
            test(*things)
        run.__name__ = test.__name__
        return run
    return [bind(test) for test in tests]


def left(server):
    """Ids of the sandboxes that the server still has."""
    return [box["id"] for box in server.client().ask("GET", "/api/sandbox").json["items"]]
