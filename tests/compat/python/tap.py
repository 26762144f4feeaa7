"""Tests of the Python SDK, written once and run twice: with the blocking client and with the asynchronous one.

A test is `async def` and gets a `Run`. Every call of the SDK goes through `await go(…)`, which awaits what is awaitable and
hands on what is not.
"""
import asyncio
import concurrent.futures
import inspect
import os
import re
import sys
import time
import traceback
import uuid

import daytona

TESTS = []
VERSION = tuple(int(x) for x in re.findall(r"\d+", __import__("importlib.metadata").metadata.version("daytona"))[:3])
WORK = os.environ["CSN_COMPAT_WORK"]


class Skip(Exception):
    pass


def test(name, seconds=60, since=(0,), only=None):
    """only: "sync" or "async", for programs that are one of them by nature."""
    def register(fn):
        TESTS.append((name, fn, seconds, since, only))
        return fn
    return register


async def go(value):
    return await value if inspect.isawaitable(value) else value


async def items(value):
    """What list() gave: an iterator, an asynchronous one, or a page."""
    value = await go(value)
    if hasattr(value, "__aiter__"):
        return [x async for x in value]
    return list(value.items) if hasattr(value, "items") else list(value)


def same(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what + ': ' if what else ''}got {got!r}, wanted {want!r}")


def has(text, part):
    if part not in text:
        raise AssertionError(f"{part!r} is not in {text!r}")


def class_of(*names):
    """The first of these error classes that this SDK has: newer ones are finer."""
    for name in names:
        if hasattr(daytona, name):
            return getattr(daytona, name)
    return daytona.DaytonaError


def by_status(name):
    """Before 0.201 only some statuses had a class of their own."""
    old = ("DaytonaNotFoundError", "DaytonaAuthenticationError", "DaytonaConflictError", "DaytonaRateLimitError")
    return class_of(name) if VERSION >= (0, 201) or name in old else daytona.DaytonaError


async def fails(cls, call, status=None, code=None):
    """The call raises exactly this class (or a subclass); returns the error. `call` is called here."""
    try:
        await go(call())
    except Exception as error:  # noqa: BLE001 any class is of interest
        if not isinstance(error, cls):
            raise AssertionError(f"raised {type(error).__name__}: {error}, wanted {cls.__name__}") from error
        if status is not None and getattr(error, "status_code", getattr(error, "status", None)) != status:
            raise AssertionError(f"status {getattr(error, 'status_code', None)}, wanted {status}: {error}") from error
        if code is not None and hasattr(error, "code"):
            same(error.code, code, "code")
        return error
    raise AssertionError(f"nothing was raised, wanted {cls.__name__}")


class Run:
    """One pass over the tests, with one client and one sandbox that most of them share."""

    def __init__(self, kind):
        self.kind = kind
        self.client = daytona.Daytona() if kind == "sync" else daytona.AsyncDaytona()
        self._box = None
        self._made = []

    @property
    def is_async(self):
        return self.kind == "async"

    async def box(self):
        if self._box is None:
            self._box = await go(self.client.create(daytona.CreateSandboxFromSnapshotParams(
                env_vars={"FROM_CREATE": "a b'c\"d"}, labels={"suite": self.kind}, auto_stop_interval=0)))
        return self._box

    async def create(self, **params):
        cls = daytona.CreateSandboxFromImageParams if "image" in params else daytona.CreateSandboxFromSnapshotParams
        box = await go(self.client.create(cls(**params) if params else None))
        self._made.append(box)
        return box

    async def sh(self, command, **kw):
        """A command that has to work."""
        box = await self.box()
        r = await go(box.process.exec(command, **kw))
        same(r.exit_code, 0, f"exit of {command[:80]!r} ({r.result[-300:]!r})")
        return r.result

    async def together(self, *calls):
        """All at once: threads for the blocking client, tasks for the other."""
        if self.is_async:
            return await asyncio.gather(*[c() for c in calls])
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            return [f.result() for f in [pool.submit(c) for c in calls]]

    async def until(self, what, probe, seconds=20):
        """Waits for the event, not for time to pass."""
        end = time.monotonic() + seconds
        while True:
            value = await go(probe())
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"{seconds} s passed without: {what}")
            await asyncio.sleep(0.02)

    async def tidy(self):
        for box in self._made:
            try:
                await go(box.delete())
            except daytona.DaytonaError:
                pass # deleted by its test
        self._made.clear()

    async def close(self):
        if self._box is not None:
            await go(self._box.delete())
        if hasattr(self.client, "close"):
            await go(self.client.close())


def fresh(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def line(self, ok, name, note=""):
        self.n += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.n} - {name}{note}", flush=True)


async def run_one(tap, run, name, fn, seconds):
    label = f"{run.kind}: {name}"
    try:
        await asyncio.wait_for(fn(run), seconds)
        await run.tidy()
    except Skip as reason:
        tap.line(True, label, f" # SKIP {reason}")
        return
    except BaseException:  # noqa: BLE001
        for line in traceback.format_exc().splitlines()[-14:]:
            print("# " + line)
        tap.line(False, label)
        return
    tap.line(True, label)


async def run_kind(tap, kind, patterns):
    run = Run(kind)
    for name, fn, seconds, since, only in TESTS:
        if patterns and not any(p in f"{kind}: {name}" for p in patterns):
            continue
        if only and only != kind or VERSION < since:
            continue
        await run_one(tap, run, name, fn, seconds)
    await run.close()


def main():
    tap = Tap()
    for kind in ("sync", "async"):
        try:
            asyncio.run(run_kind(tap, kind, sys.argv[1:]))
        except BaseException:  # noqa: BLE001
            print("# " + traceback.format_exc().replace("\n", "\n# "))
            tap.line(False, f"{kind}: the client starts and ends")
    print(f"1..{tap.n}")
    return 1 if tap.failed else 0
