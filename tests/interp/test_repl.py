#!/usr/bin/env python3
"""The prompt on a real terminal: a pty, keys, and what is to be seen."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tap

DEADLINE_S = 60
PROMPT = r">>> $"


class Terminal:
    def __init__(self, state, *args, command="interp"):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test in the background of a script has it ignored
            env = dict(os.environ, CAISSON_STATE=state, TERM="xterm", LC_ALL="C", HOME=state)
            os.execve(os.environ["CSN_BUILD"] + "/caisson", ["caisson", command, *args], env)
        self.seen = ""
        self.status = None

    def expect(self, pattern, limit=DEADLINE_S):
        """What came until the pattern, which must be at the end of it for PROMPT."""
        end = time.monotonic() + limit
        while True:
            text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", self.seen)
            if re.search(pattern, text):
                self.seen = ""
                return text
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("%r never came; seen: %r" % (pattern, text))
            try:
                piece = os.read(self.fd, 4096)
            except OSError:
                piece = b""
            if not piece:
                raise AssertionError("it ended; seen: %r" % text)
            self.seen += piece.decode("utf-8", "replace")

    def keys(self, text):
        os.write(self.fd, text.encode("utf-8"))

    def say(self, line, pattern=PROMPT):
        self.keys(line + "\r")
        return self.expect(pattern)

    def press(self, key, pattern):
        """A control key, again if need be: the line editor can miss a signal that comes between two of its reads."""
        for limit in (5, 5, DEADLINE_S):
            self.keys(key)
            try:
                return self.expect(pattern, limit)
            except AssertionError:
                if limit == DEADLINE_S or self.seen.endswith(">>> "):
                    raise
        return ""

    def wait(self):
        while True:  # what is still to be read would hold it
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        self.status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(self.status) if hasattr(os, "waitstatus_to_exitcode") else self.status >> 8

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


class Prompt(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.terminal = Terminal(self.temp.name)
        self.terminal.expect(PROMPT)

    def tearDown(self):
        self.terminal.close()
        self.sweep()
        self.temp.cleanup()

    def sweep(self):
        """It was killed: an engine that comes later ends what it left, and takes the directory in memory away."""
        run, end = os.path.join(self.temp.name, "run"), time.monotonic() + DEADLINE_S
        while os.path.exists(run) and time.monotonic() < end:
            subprocess.run([os.environ["CSN_BUILD"] + "/caisson", "gc"], env=dict(os.environ, CAISSON_STATE=self.temp.name),
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)

    def test_values_and_state(self):
        self.terminal.say("x = 20")
        self.assertIn("\n42\n", self.terminal.say("x * 2 + 2"))
        self.assertIn('\n{"answer":20}\n', self.terminal.say("SUBMIT(answer=x)"))

    def test_a_block_ends_with_an_empty_line_and_a_bracket_with_its_end(self):
        self.terminal.say("for i in range(2):", r"\.\.\. $")
        self.terminal.say("    print('n', i)", r"\.\.\. $")
        self.assertIn("\nn 0\nn 1\n", self.terminal.say(""))
        self.terminal.say("y = (1,", r"\.\.\. $")
        self.terminal.say("2)")
        self.assertIn("(1, 2)", self.terminal.say("y"))

    def test_letters_of_any_language_in_a_plain_locale(self):
        self.assertIn("'ä€'", self.terminal.say("'ä€'"))

    def test_ctrl_c_gives_up_the_line(self):
        self.terminal.keys("half a li")
        self.terminal.expect("half a li")
        self.terminal.press("\x03", PROMPT)
        self.terminal.say("def f():", r"\.\.\. $")
        self.terminal.press("\x03", PROMPT)
        self.assertIn("\n2\n", self.terminal.say("1 + 1"))

    def test_ctrl_c_stops_the_code_and_the_state_stays(self):
        self.terminal.say("x = 7")
        self.terminal.say("while True:", r"\.\.\. $")
        self.terminal.say("    if x == 7: x += 1; print('runs')", r"\.\.\. $")
        self.terminal.say("", "\nruns\n")
        self.terminal.keys("\x03")
        self.assertIn("Execution cancelled", self.terminal.expect(PROMPT))
        self.assertIn("\n8\n", self.terminal.say("x"))

    def test_a_crash_is_told_and_the_prompt_stays(self):
        self.assertIn("the interpreter process ended", self.terminal.say("import os; os._exit(3)"))
        self.assertIn("started anew", self.terminal.say("1"))

    def test_arrow_up_brings_the_last_line(self):
        self.terminal.say("print('once')")
        self.terminal.keys("\x1b[A")
        self.terminal.expect(r"print\('once'\)")
        self.assertIn("\nonce\n", self.terminal.say(""))

    def test_ctrl_d_and_exit_end_it(self):
        self.terminal.keys("\x04")
        self.assertEqual(self.terminal.wait(), 0)
        again = Terminal(self.temp.name)
        try:
            again.expect(PROMPT)
            again.keys("exit()\r")
            self.assertEqual(again.wait(), 0)
        finally:
            again.close()

    def test_sigterm_at_the_prompt_ends_it(self):
        os.kill(self.terminal.pid, signal.SIGTERM)
        self.terminal.wait()
        left = subprocess.run([os.environ["CSN_BUILD"] + "/caisson", "ls", "-q"], stdout=subprocess.PIPE,
                              env=dict(os.environ, CAISSON_STATE=self.temp.name), check=True)
        self.assertEqual(left.stdout, b"")


class Blocks(unittest.TestCase):
    """caisson blocks without a file: what is pasted runs when its fence closes."""

    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.terminal = Terminal(self.temp.name, command="blocks")
        self.terminal.expect("paste Markdown")

    def tearDown(self):
        self.terminal.close()
        # it was killed: the next engine ends what it left and takes the directory in memory away
        subprocess.run([os.environ["CSN_BUILD"] + "/caisson", "gc"], env=dict(os.environ, CAISSON_STATE=self.temp.name),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        self.temp.cleanup()

    def paste(self, language, code, pattern):
        self.terminal.keys("```%s\r%s\r```\r" % (language, code))
        return self.terminal.expect(pattern)

    def test_blocks_run_when_their_fence_closes_in_one_sandbox(self):
        self.paste("python", "open('f', 'w').write('x'); print(6 * 7)", r"\n42\n")
        self.paste("sh", "echo =$(cat f)=", r"\n=x=\n")
        self.terminal.keys("\x04")
        self.assertEqual(self.terminal.wait(), 0)

    def test_ctrl_c_stops_the_block_and_the_sandbox_stays(self):
        self.sleep_in_a_block()
        self.terminal.keys("\x03")
        self.terminal.expect("stopped; the sandbox stays")
        self.paste("sh", "echo =$(ls ~)=", r"\n=begun=\n")

    def test_sigterm_while_a_block_runs_ends_it(self):
        self.sleep_in_a_block()
        os.kill(self.terminal.pid, signal.SIGTERM)
        self.assertEqual(self.terminal.wait(), 143)

    def sleep_in_a_block(self):
        """What a block prints is shown at its end; that it sleeps is seen from outside."""
        seconds = "600.%d" % self.terminal.pid
        self.paste("sh", "touch ~/begun; sleep " + seconds, r"\n```\n")
        end = time.monotonic() + DEADLINE_S
        while not is_running(["sleep", seconds]):
            self.assertLess(time.monotonic(), end, "the block did not begin")


def is_running(command):
    wanted = "\0".join(command + [""]).encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as f:
                if f.read() == wanted:
                    return True
        except OSError:
            pass  # it ended meanwhile
    return False


if __name__ == "__main__":
    if not os.path.exists(os.environ["CSN_BUILD"] + "/caisson-repl"):
        print("1..0 # SKIP there is no caisson-repl (libedit)")
        sys.exit(0)
    tap.main(__name__)
