#!/usr/bin/env python3
"""driver.py alone, through a socket pair: what it promises, and what hostile code can't take away."""
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

import make_documents
import tap
from driver_host import DOCUMENTS, SOURCE, Driver


class Case(unittest.TestCase):
    config = {}

    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.temp.name).resolve()
        self.driver = Driver(self.dir, **self.config)

    def tearDown(self):
        self.driver.close()
        self.temp.cleanup()

    def run_code(self, code, **more):
        return self.driver.execute(code, **more)

    def value(self, expression, before="", **more):
        result = self.run_code(before + "\nSUBMIT(" + expression + ")", **more)
        self.assertIsNone(result.get("error"), result)
        return result["final"]["output"]

    def error(self, code, **more):
        result = self.run_code(code, **more)
        self.assertIsNotNone(result.get("error"), result)
        return "%s: %s" % result["error"][:2]


class Execution(Case):
    def test_b13_01_two_executes_share_one_context(self):
        first = self.run_code("x = 2")
        self.assertEqual((first["out"], first["final"]), ("", None))
        self.assertEqual(self.run_code("SUBMIT(x + 3)")["final"], {"output": 5})

    def test_b13_02_submit_after_llm_query_returns_the_answer_unchanged(self):
        text = '{"looks": "like JSON"}'
        result = self.run_code("SUBMIT(answer=llm_query('q'))", tools={"llm_query": lambda p, c: text})
        self.assertEqual(result["final"], {"answer": text})

    def test_b13_03_typed_submit_comes_and_goes(self):
        outputs = [["a", "int"], ["b", "str"]]
        self.assertEqual(self.run_code("SUBMIT(a=1, b=2)", outputs=outputs)["final"], {"a": 1, "b": 2})
        self.assertEqual(self.error("SUBMIT(1)", outputs=outputs),
                         "TypeError: SUBMIT() missing 1 required positional argument: 'b'")
        self.assertEqual(self.run_code("SUBMIT(c=3)")["final"], {"c": 3})

    def test_b13_04_typed_submit_refuses_undeclared_keywords(self):
        self.assertEqual(self.error("SUBMIT(x=1, y=2)", outputs=[["x", None]]),
                         "TypeError: SUBMIT() got an unexpected keyword argument 'y'")

    def test_b13_05_positional_submit_maps_to_declared_names(self):
        self.assertEqual(self.run_code("SUBMIT(1, 2)", outputs=[["p", None], ["q", None]])["final"], {"p": 1, "q": 2})

    def test_b13_06_one_positional_is_output_several_a_list(self):
        self.assertEqual(self.run_code("SUBMIT('v')")["final"], {"output": "v"})
        self.assertEqual(self.run_code("SUBMIT(1, 2)")["final"], {"output": [1, 2]})
        self.assertEqual(self.run_code("SUBMIT()")["final"], {})

    def test_b13_07_final_global(self):
        self.driver.hello(final_global=True)
        self.assertEqual(self.run_code("Final = 4")["final"], {"output": 4})
        self.assertEqual(self.run_code("pass")["final"], None)
        failed = self.run_code("Final = 4\n1/0")
        self.assertEqual((failed["error"][0], failed["final"]), ("ZeroDivisionError", None))
        self.assertEqual(self.run_code("pass")["final"], None)

    def test_b13_08_submit_inside_an_except_handler(self):
        code = "try:\n    read_file('missing')\nexcept Exception:\n    SUBMIT(ok=1)\nprint('not reached')"
        result = self.run_code(code)
        self.assertEqual((result["final"], result["out"]), ({"ok": 1}, ""))

    def test_b13_09_driver_is_self_contained(self):
        allowed = set("_queue _signal builtins errno fnmatch importlib io keyword linecache os pathlib re signal sys threading time "
                      "traceback types _thread".split())
        imports = {line.split()[1] for line in SOURCE.read_text().splitlines() if line.startswith(("import ", "from "))}
        self.assertLessEqual(imports, allowed)

    def test_b13_10_invalid_commands_are_answered_and_survived(self):
        for bad in (b"{", b"[]", b'"x"', b'{"op": 1}', b'{"op": "nothing"}', b"\xff\xfe", b"[" * 100000):
            self.driver.send_bytes(bad)
            self.assertEqual(self.driver.receive()["op"], "error")
        self.driver.send({"op": "exec", "id": 99})
        self.assertEqual(self.driver.receive()["message"], "missing code")
        self.assertEqual(self.value("1"), 1)

    def test_b13_11_root_profile_blocks_helpers(self):
        message = self.error("peek('x')", profile="ROOT_INTERLOCUTOR")
        self.assertIn("Helper 'peek' is not available in ROOT_INTERLOCUTOR profile", message)
        self.assertEqual(self.run_code("SUBMIT(1)", profile="ROOT_INTERLOCUTOR")["final"], {"output": 1})
        self.assertEqual(self.value("peek('xy', 1)"), "y")

    def test_b13_12_tool_call_round_trip(self):
        self.driver.hello(tools=[["lookup", None]])
        result = self.run_code("SUBMIT(lookup(1, key='k'))", tools={"lookup": lambda n, key: [n, key]})
        self.assertEqual(result["final"], {"output": [1, "k"]})
        self.assertEqual(json.loads(result["calls"][0]["kwargs"]), {"key": "k"})

    def test_b13_25_some_names_are_never_bridged(self):
        self.driver.hello(tools=[["run", None], ["workspace_read", None], ["mine", None]])
        result = self.run_code("SUBMIT(run('echo hi')['stdout'], mine())", tools={"mine": lambda: "m"})
        self.assertEqual(result["final"], {"output": ["hi\n", "m"]})

    def test_b13_62_tool_signatures(self):
        self.driver.hello(tools=[["t", "(a, /, b=[1, {'x': 2}], *rest, mode, **more)"]])
        tools = {"t": lambda *args, **kwargs: [list(args), kwargs]}
        self.assertEqual(self.value("t(1, mode='m')", tools=tools), [[1, [1, {"x": 2}]], {"mode": "m"}])
        self.assertEqual(self.value("t(1, 2, 3, mode='m', z=4)", tools=tools), [[1, 2, 3], {"mode": "m", "z": 4}])
        self.assertIn("TypeError: missing a required", self.error("t(1)", tools=tools))

    def test_host_errors_are_raised(self):
        def refuse():
            raise ValueError("no such thing")
        self.driver.hello(tools=[["t", None]])
        self.assertEqual(self.error("t()", tools={"t": refuse}), "ValueError: no such thing")
        self.assertEqual(self.error("llm_query('x')"), "RuntimeError: Unknown host callback: llm_query")

    def test_calls_in_flight_from_threads_are_told_apart(self):
        code = ("from concurrent.futures import ThreadPoolExecutor as P\n"
                "with P(40) as p: SUBMIT(list(p.map(llm_query, map(str, range(100)))))")
        result = self.run_code(code, tools={"llm_query": lambda p, c: p})
        self.assertEqual(result["final"]["output"], [str(i) for i in range(100)])

    def test_reserved_aliases(self):
        self.assertEqual(self.value("rlm_query('p'), rlm_query_batched(['a'])",
                                    tools={"sub_rlm": lambda p, c: p, "sub_rlm_batched": lambda p, c: p}), ["p", ["a"]])

    def test_a_byte_order_mark_is_no_part_of_the_code(self):
        for code in ("\ufeffprint(1)", "\ufeff\r\nprint(1)\r\n", "\ufeff```python\nprint(1)\n```",
                     "```python\n\ufeffprint(1)\n```"):
            self.assertEqual(self.run_code(code)["out"], "1\n", repr(code))
        self.assertEqual(self.run_code("\ufeff1 + 1", interactive=True)["out"], "2\n")
        self.assertIn("line 2", self.run_code("\ufeffx = 0\n1 / x")["error"][2])
        self.assertEqual(self.value("'\ufeff'"), "\ufeff")
        self.driver.send({"op": "probe", "code": "\ufeffx = 1"})
        self.assertEqual(self.driver.receive()["state"], "complete")

    def test_variables_arrive_by_value_and_stay(self):
        given = {"n": "NaN", "i": "-Infinity", "big": str(10 ** 40), "d": '{"a": [1, null, true]}'}
        self.assertEqual(self.value("str(n), i, str(big), d", vars=given), ["nan", float("-inf"), str(10 ** 40),
                                                                         {"a": [1, None, True]}])
        self.assertEqual(self.value("d['a'][0]"), 1)

    def test_environment_of_one_execute(self):
        self.assertEqual(self.value("os.environ['K']", "import os", envs={"K": "v", "HOME": "/x"}), "v")
        self.assertEqual(self.value("os.environ.get('K'), os.environ['HOME']"), [None, str(self.dir)])

    def test_system_exit_is_a_normal_end(self):
        for code in ("exit()", "quit(3)", "import sys; sys.exit('bye')", "raise SystemExit"):
            result = self.run_code("print('a')\n" + code)
            self.assertEqual((result["out"], result["error"], result["final"]), ("a\n", None, None))

    def test_keyboard_interrupt_of_the_code_is_an_error(self):
        self.assertEqual(self.run_code("raise KeyboardInterrupt")["error"][0], "KeyboardInterrupt")

    def test_state_survives_an_error(self):
        self.run_code("import math; y = 1; 1/0")
        self.assertEqual(self.value("y + math.floor(1.5)"), 2)

    def test_traceback_shows_user_frames_with_their_lines(self):
        trace = self.run_code("\n\ndef f():\n    read_file('nope')\nf()")["error"][2]
        self.assertIn('File "<stdin>", line 5, in <module>\n    f()', trace)
        self.assertIn('File "<stdin>", line 4, in f', trace)
        self.assertNotIn("caisson-driver", trace)

    def test_traceback_hides_what_helpers_use(self):
        for code, shown in (("SUBMIT({1})", 2), ("x = []\nx.append(x)\nSUBMIT(x)", 2), ("grep('a', '(')", 2),
                            ("import json\njson.dumps({1})", 3)):
            trace = self.run_code(code)["error"][2]
            lines = [line for line in trace.splitlines() if line.lstrip().startswith("File ")]
            self.assertEqual(len(lines) > 1, shown > 2, trace)
            self.assertIn('File "<stdin>"', lines[0])

    def test_code_is_cleaned_only_when_it_must(self):
        for code in ("```python\nx = 1\nSUBMIT(x)\n```", "Code:\n```py\nSUBMIT(1)\n```", "```\nSUBMIT(1)\n```",
                     "  SUBMIT(1)", "    x = 1\n    SUBMIT(x)", "[[ ## code ## ]]\nSUBMIT(1)\n[[ ## done ## ]]",
                     "x = 1\r\nSUBMIT(x)\r\n", "x = 1\rSUBMIT(x)", "\n\n```python\nSUBMIT(1)\n```\n"):
            self.assertEqual(self.run_code(code)["final"], {"output": 1}, code)
        self.assertEqual(self.value('"""```python\nx\n```"""'), "```python\nx\n```")

    def test_syntax_errors_run_nothing(self):
        self.run_code("x = 1")
        result = self.run_code("x = 2\nprint('no')\nif:")
        self.assertEqual((result["error"][0], result["out"]), ("SyntaxError", ""))
        self.assertEqual(self.value("x"), 1)
        self.assertEqual(self.run_code("x = '\0'")["error"][0], "SyntaxError")

    def test_interactive_shows_the_last_value(self):
        self.assertEqual(self.run_code("x = 6\nx * 7", interactive=True)["out"], "42\n")
        self.assertEqual(self.run_code("None", interactive=True)["out"], "")

    def test_probe(self):
        for code, state in (("x = 1", "complete"), ("def f():", "incomplete"), ("x = )", "invalid"),
                            ("x = (1,", "incomplete"), ("x = (1,\n2)", "complete"), ("if x:\n  1", "incomplete"),
                            ("if x:\n  1\n", "complete"), ("s = \'\'\'a", "incomplete"), ("# only", "complete")):
            self.driver.send({"op": "probe", "code": code})
            self.assertEqual(self.driver.receive()["state"], state)


class Submit(Case):
    def test_values_keep_type_and_digits(self):
        result = self.run_code("SUBMIT(i=10**30, f=1.5, n=float('nan'), t=(1, 2), d={1: 2}, u='ä\\u2028€', z='a\\0b')")
        final = result["final"]
        self.assertEqual((final["i"], final["t"], final["d"], final["u"], final["z"]),
                         (10 ** 30, [1, 2], {"1": 2}, "ä\u2028€", "a\0b"))
        self.assertNotEqual(final["n"], final["n"])

    def test_integers_have_all_their_digits_both_ways(self):
        text = self.run_code("SUBMIT(10 ** 20000 - 1)", raw=True)["fields"][0][2]
        self.assertEqual(text, "9" * 20000)
        self.assertEqual(self.value("n % 1000", vars={"n": "9" * 20000}), 999)
        self.assertEqual(self.run_code("str(10 ** 20000)")["error"][0] if hasattr(sys, "get_int_max_str_digits")
                         else "ValueError", "ValueError")

    def test_lone_surrogates_leave(self):
        self.assertEqual(self.value("'\\ud800'"), "\ud800")

    def test_what_is_no_json_fails_in_place(self):
        self.assertEqual(self.error("SUBMIT({1, 2})"), "TypeError: Object of type set is not JSON serializable")
        self.assertEqual(self.error("x = []; x.append(x); SUBMIT(x)"), "ValueError: Circular reference detected")

    def test_first_wins_and_bare_except_swallows(self):
        result = self.run_code("try:\n    SUBMIT(1)\nexcept:\n    print('on')\nSUBMIT(2)\nprint('no')")
        self.assertEqual((result["final"], result["out"]), ({"output": 1}, "on\n"))

    def test_an_error_after_a_swallowed_submit_is_the_result(self):
        result = self.run_code("try:\n    SUBMIT(1)\nexcept BaseException:\n    pass\n1/0")
        self.assertEqual((result["error"][0], result["final"]), ("ZeroDivisionError", {"output": 1}))

    def test_finally_still_runs(self):
        self.assertEqual(self.run_code("try:\n    SUBMIT(1)\nfinally:\n    print('f')")["out"], "f\n")

    def test_from_a_thread_it_counts_silently(self):
        result = self.run_code("import threading\nt = threading.Thread(target=lambda: SUBMIT(5))\nt.start(); t.join()\n"
                               "print('on')")
        self.assertEqual((result["final"], result["out"], result["err"]), ({"output": 5}, "on\n", ""))

    def test_an_old_thread_cannot_submit_into_a_later_execute(self):
        self.run_code("import threading\ngo = threading.Event()\ndef f():\n    go.wait()\n    SUBMIT('stale')\n"
                      "t = threading.Thread(target=f); t.start()")
        result = self.run_code("go.set(); t.join(); print('x')")
        self.assertEqual((result["final"], result["out"]), (None, "x\n"))

    def test_a_forked_child_does_not_count(self):
        result = self.run_code("import os\npid = os.fork()\nif pid == 0:\n    SUBMIT('child')\nos.waitpid(pid, 0)\nprint('p')")
        self.assertEqual((result["final"], result["out"]), (None, "p\n"))
        self.assertEqual(self.value("1"), 1)

    def test_size_limit(self):
        self.driver.hello(submit_limit=1000)
        self.assertRegex(self.error("SUBMIT('x' * 1000)"), r"ValueError: SUBMIT payload too large: 10\d\d bytes \(limit 1000\)")
        self.assertEqual(len(self.value("'x' * 900")), 900)

    def test_a_large_value_passes(self):
        self.assertEqual(len(self.value("'\\\\\"' * (4 << 20)")), 8 << 20)


class Hostile(Case):
    def check_alive(self):
        self.assertEqual(self.run_code("print('ok'); SUBMIT(1)")["final"], {"output": 1})

    def test_overridden_print_and_submit_come_back(self):
        self.run_code("print = SUBMIT = None\nadd_buffer = 3")
        self.run_code("del print")
        self.check_alive()
        self.assertEqual(self.value("add_buffer('a', 1)['count']"), 1)

    def test_broken_builtins_come_back(self):
        self.run_code("import builtins\nbuiltins.print = None\nbuiltins.len = lambda x: 0\ndel builtins.open")
        self.check_alive()
        self.assertEqual(self.value("len('abc')"), 3)

    def test_what_users_put_into_modules_is_theirs(self):
        for name in ("json", "json.encoder", "json.decoder", "os", "threading", "_thread", "signal", "_signal", "traceback",
                     "types", "linecache", "pathlib", "io", "re", "keyword", "time", "importlib"):
            self.driver.close()
            self.driver = Driver(self.dir)
            self.run_code("import %s\nmodule = %s\nfor name in list(vars(module)):\n"
                          "    if not name.startswith('__'): setattr(module, name, None)" % (name, name))
            error = self.run_code("z = 1\n1/0").get("error")
            self.assertEqual((name,) + (error or ())[:2], (name, "ZeroDivisionError", "division by zero"))
            self.assertIn('File "<stdin>", line 2, in <module>', error[2])
            self.check_alive()
        self.run_code("json = None\nimport json\njson.JSONEncoder.encode = json.JSONDecoder.decode = None\n"
                      "__builtins__ = None")
        self.check_alive()

    def test_handlers_of_signals_may_raise_when_nothing_runs(self):
        for what in ("RuntimeError", "TimeoutError", "SystemExit", "KeyboardInterrupt"):
            self.run_code("import signal\nheard = []\ndef handler(*_):\n    heard.append(1)\n    raise %s\n"
                          "signal.signal(signal.SIGALRM, handler)" % what)
            for n in range(1, 20):
                self.driver.process.send_signal(signal.SIGALRM)
                self.wait_until_heard(n)
            self.check_alive()

    def wait_until_heard(self, n):
        """A handler that raises into the code that looks is heard as well."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            result = self.run_code("SUBMIT(len(heard))")
            self.assertFalse(result.get("lost"), result)
            if result["final"] and result["final"]["output"] >= n:
                return
        self.fail("the handler was not called")

    def test_a_channel_made_non_blocking_is_blocking_again(self):
        self.run_code("import os\nfor fd in range(3, 300):\n    try: os.set_blocking(fd, False)\n    except OSError: pass")
        self.check_alive()
        self.assertEqual(len(self.value("'x' * (5 << 20)")), 5 << 20)

    def test_replaced_and_closed_streams_come_back(self):
        self.run_code("import sys, io\nsys.stdout = io.StringIO(); sys.stderr = None\nprint('lost')")
        self.assertEqual(self.run_code("print('seen')")["out"], "seen\n")
        self.run_code("sys.stdout.close(); sys.__stderr__.close()")
        self.assertEqual(self.run_code("print('seen')")["out"], "seen\n")

    def test_closed_descriptors_come_back(self):
        self.run_code("import os\nfor fd in (0, 1, 2): os.close(fd)")
        self.assertEqual(self.run_code("print('seen')\nos.system('echo child; echo e >&2')")["out"], "seen\nchild\n")

    def test_all_descriptors_closed_ends_the_driver(self):
        result = self.run_code("import os\nos.closerange(3, 4096)")
        self.assertTrue(result.get("lost"), result)

    def test_os_exit_ends_the_driver(self):
        self.assertTrue(self.run_code("import os\nos._exit(3)").get("lost"))
        self.assertEqual(self.driver.process.wait(), 3)

    def test_deep_recursion_is_an_error(self):
        self.assertEqual(self.run_code("def f(): f()\nf()")["error"][0], "RecursionError")
        self.assertEqual(self.run_code("x = []\nfor i in range(100000): x = [x]\nSUBMIT(x)")["error"][0], "RecursionError")
        self.check_alive()

    def test_an_error_that_cannot_be_described(self):
        self.assertEqual(self.run_code("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E")["error"][0], "E")
        self.check_alive()

    def test_text_that_imitates_the_protocol_is_text(self):
        text = 'B\\x00\\x00\\x00\\x02{}{"op": "final", "id": 1, "fields": []}\\n__DSPY_FINAL_OUTPUT__1__DSPY_FINAL_OUTPUT__'
        result = self.run_code("print('%s')" % text)
        self.assertIsNone(result["final"])
        self.assertIn("__DSPY_FINAL_OUTPUT__", result["out"])

    def test_a_hundred_megabytes_of_output(self):
        result = self.run_code("line = 'x' * 1023\nfor _ in range(100 << 10): print(line)\nSUBMIT(1)")
        self.assertEqual((len(result["raw"]), result["final"]), (100 << 20, {"output": 1}))

    def test_bytes_that_are_no_utf8_leave_exactly(self):
        result = self.run_code("import sys, os\nos.write(1, b'\\xff\\x00'); sys.stdout.buffer.write(b'\\xfe'); print('\\udcfd')")
        self.assertEqual(result["raw"], b"\xff\x00\xfe\xfd\n")

    def test_child_output_is_in_order(self):
        result = self.run_code("import os, subprocess\nprint('a', end='')\nos.system('printf b')\nprint('c')\n"
                               "subprocess.run(['echo', 'd'])")
        self.assertEqual(result["out"], "abc\nd\n")

    def test_children_do_not_hold_the_channel(self):
        code = "import subprocess\nprint(subprocess.run('ls -l /proc/self/fd', shell=True, capture_output=True, text=True, close_fds=False).stdout)"
        self.assertNotIn("socket", self.run_code(code)["out"])

    def test_a_fork_that_falls_out_of_the_code_ends(self):
        result = self.run_code("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('one')\nif not pid: 1/0")
        self.assertEqual(result["out"], "one\none\n")
        self.check_alive()

    def test_a_shadowed_module_does_not_mislead_helpers(self):
        for name in ("subprocess", "fcntl", "textwrap", "codeop"):
            (self.dir / (name + ".py")).write_text("raise RuntimeError('shadow')\n")
        self.assertEqual(self.value("run('echo hi')['stdout']"), "hi\n")
        self.assertEqual(self.value("workspace_write('a', 'b') is not None"), True)

    def test_stdin_is_empty(self):
        self.assertEqual(self.run_code("input()")["error"][0], "EOFError")

    def test_interrupt_stops_the_code_and_keeps_the_state(self):
        self.run_code("z = 1")
        self.driver.n += 1
        self.driver.send({"op": "exec", "id": self.driver.n, "code": "print('in', flush=True)\nwhile True: pass"})
        self.wait_output(b"in\n")
        self.driver.process.send_signal(signal.SIGINT)
        self.assertEqual(self.driver.finish(self.driver.n, {})["error"][0], "KeyboardInterrupt")
        self.assertEqual(self.value("z"), 1)

    def test_interrupt_between_executes_is_nothing(self):
        for _ in range(20):
            self.driver.process.send_signal(signal.SIGINT)
            self.check_alive()

    def test_interrupt_while_waiting_for_the_host(self):
        self.driver.n += 1
        self.driver.send({"op": "exec", "id": self.driver.n, "code": "llm_query('x')"})
        self.assertEqual(self.driver.receive()["op"], "tool_call")
        self.driver.process.send_signal(signal.SIGINT)
        self.assertEqual(self.driver.finish(self.driver.n, {})["error"][0], "KeyboardInterrupt")
        self.check_alive()

    def wait_output(self, text):
        while text not in self.driver.output[self.driver.out]:
            self.driver.output[self.driver.out] += os.read(self.driver.out, 65536)

    def test_a_client_that_died_in_a_frame_does_no_harm(self):
        self.driver.socket.send(b"B\x00\x00\xff\xff" + b"x" * 100)
        self.driver.socket.send(b"Cyyy")
        self.driver.socket.send(b"?")
        self.assertEqual(self.driver.hello()["epoch"], 7)
        self.check_alive()

    def test_hello_frees_calls_of_a_lost_host(self):
        for _ in range(100):  # its end may come at once: "ready" says it is busy only if that is told later
            self.driver.n += 1
            self.driver.send({"op": "exec", "id": self.driver.n, "code": "try:\n    llm_query('x')\nexcept RuntimeError as e:\n    print(e)"})
            while self.driver.receive()["op"] != "tool_call":
                pass  # the end of the one before, told after "ready" said that nothing runs
            if self.driver.hello()["busy"] is not None:
                self.assertIn("is gone", self.driver.finish(self.driver.n, {})["out"])
            else:
                self.driver.take_output()

    def test_threads_left_behind_cannot_call_the_host_later(self):
        self.run_code("import threading\ngo = threading.Event(); seen = []\ndef f():\n    go.wait()\n    try: llm_query('late')\n"
                      "    except RuntimeError as e: seen.append(str(e))\nt = threading.Thread(target=f); t.start()")
        result = self.run_code("go.set(); t.join(); SUBMIT(seen)")
        self.assertEqual(result["calls"], [])
        self.assertIn("not part of the running execute", result["final"]["output"][0])


class Helpers(Case):
    def test_b13_13_peek(self):
        self.assertEqual(self.value("peek('abcdef', 2, 3), peek('abc', 9), peek('abc', -4, 2), peek('abc', 0, -1)"),
                         ["cde", "", "ab", ""])

    def test_b13_14_grep(self):
        before = "t = 'one\\ntwo\\nthree\\ntwofold'"
        self.assertEqual(self.value("grep(t, 'two')", before), ["two", "twofold"])
        self.assertEqual(self.value("grep(t, 'th', context=1)", before), ["two\nthree\ntwofold"])
        self.assertEqual(self.value("grep(t, 'TWO'), grep(t, '^t.o$'), grep('', 'x')", before), [[], ["two"], []])

    def test_b13_15_chunk_by_size(self):
        self.assertEqual(self.value("chunk_by_size('abcdefghij', 4)"), ["abcd", "efgh", "ij"])
        self.assertEqual(self.value("chunk_by_size('abcdef', 4, 2)"), ["abcd", "cdef"])
        self.assertEqual(self.value("chunk_by_size('abc', 1), chunk_by_size('abcd', 2), chunk_by_size('', 5), chunk_by_size('a', 5)"),
                         [["a", "b", "c"], ["ab", "cd"], [], ["a"]])
        for call in ("chunk_by_size('a', 0)", "chunk_by_size('a', 2, -1)", "chunk_by_size('a', 2, 2)"):
            self.assertTrue(self.error(call).startswith("ValueError"))
        self.assertEqual(self.value("[len(c) for c in chunk_by_size('x' * 500000)]"), [200000, 200000, 100000])

    def test_b13_16_chunk_by_headers(self):
        chunks = self.value("chunk_by_headers('intro\\n# A\\ntext\\n## B\\n')")
        self.assertEqual([(c["header"], c["content"], c["start_pos"]) for c in chunks],
                         [("", "intro", 0), ("# A", "# A\ntext", 6), ("## B", "## B", 15)])
        self.assertEqual(self.value("len(chunk_by_headers('none')), len(chunk_by_headers('== x', '^== '))"), [1, 1])

    def test_b13_17_chunk_by_timestamps(self):
        chunks = self.value("chunk_by_timestamps('pre\\n2024-01-01T10:00:00 a\\nmore\\n2024-01-02 11:00 b')")
        self.assertEqual([(c["timestamp"], c["content"]) for c in chunks],
                         [("", "pre"), ("2024-01-01T10:00:00", "2024-01-01T10:00:00 a\nmore"),
                          ("2024-01-02 11:00", "2024-01-02 11:00 b")])
        self.assertEqual(self.value("len(chunk_by_timestamps('x')), chunk_by_timestamps(''), len(chunk_by_timestamps('[1] a\\n[2] b', r'^\\[\\d'))"), [1, [], 2])

    def test_b13_18_chunk_by_json_keys(self):
        chunks = self.value("chunk_by_json_keys('{\"a\": [1], \"b\": \"x\"}')")
        self.assertEqual([(c["key"], c["value_type"], json.loads(c["content"])) for c in chunks], [("a", "list", [1]), ("b", "str", "x")])
        self.assertEqual(self.value("chunk_by_json_keys('{}')"), [])
        self.assertIn("ValueError: Invalid JSON", self.error("chunk_by_json_keys('nope')"))
        self.assertIn("ValueError: Invalid JSON", self.error("chunk_by_json_keys('')"))
        self.assertEqual(self.error("chunk_by_json_keys('[1]')"), "ValueError: Expected JSON object, got list")

    def test_b13_19_buffers(self):
        self.assertEqual(self.value("add_buffer(' a ', 1), add_buffer('a', 2), add_buffer('', 3)"),
                         [{"status": "ok", "name": "a", "count": 1}, {"status": "ok", "name": "a", "count": 2},
                          {"status": "ok", "name": "default", "count": 1}])
        self.run_code("get_buffer('a').append(9)\n1/0")
        self.assertEqual(self.value("get_buffer('a'), get_buffer('none')"), [[1, 2], []])
        self.assertEqual(self.value("clear_buffer('a'), get_buffer('a'), get_buffer('default')"),
                         [{"status": "ok", "scope": "single", "name": "a"}, [], [3]])
        self.assertEqual(self.value("clear_buffer(), get_buffer('default')"), [{"status": "ok", "scope": "all"}, []])

    def test_b13_20_volume_helpers_without_a_volume(self):
        self.assertIn("no volume", self.value("save_to_volume('a', 'b')"))
        self.assertIn("no volume", self.value("load_from_volume('a')"))

    def test_b13_21_workspace_paths(self):
        full = str(self.dir / "d" / "a.txt")
        self.assertEqual(self.value("workspace_write('d/a.txt', 'x'), workspace_append('d/a.txt', 'y'), workspace_read('d/a.txt')"),
                         [full, full, "xy"])
        for path in ("../x", "/etc/passwd", "d/../../x", "a\\0b"):
            self.assertIn("invalid workspace path", self.value("workspace_read('%s')" % path))
        os.symlink("/etc", self.dir / "link")
        self.assertIn("invalid workspace path", self.value("workspace_write('link/x', '')"))
        self.assertEqual(self.value("workspace_read(' ')"), "[error: workspace path cannot be empty]")

    def test_b13_22_workspace_list(self):
        self.assertEqual(self.value("workspace_list()"), [])
        self.assertEqual(self.value("workspace_write('a.txt', '') and workspace_list('*.txt')"), ["a.txt"])

    def test_b13_23_history(self):
        self.assertEqual(self.value("get_session_history(), get_last_execution()"), [[], None])
        self.assertEqual(self.value("get_last_execution()['code']", "log_execution({'code': 'x'})"), "x")

    def test_files_and_shell(self):
        (self.dir / "src").mkdir()
        (self.dir / "src" / "m.py").write_text("import os\nclass C:\n    def m(self): pass\ndef f(a): pass\n")
        (self.dir / "bad").write_bytes(b"a\xff")
        self.assertEqual(self.value("list_files(), list_files('none'), find_files(pattern='*.py'), read_file('bad')"),
                         [["bad", "src"], [], ["src/m.py"], "a\ufffd"])
        self.assertEqual(self.value("sandbox_find_in_files('.', '^class')"), [{"path": "src/m.py", "line": 2, "text": "class C:"}])
        self.assertEqual(self.value("run('echo o; echo e >&2; exit 3')"), {"exit_code": 3, "stdout": "o\n", "stderr": "e\n", "ok": False})
        self.assertEqual(self.value("extract_python_ast('src/m.py')")["classes"][0]["methods"], ["m"])
        self.assertEqual(self.value("resolve_path('a/../b')"), str(self.dir / "b"))

    def test_background_processes(self):
        self.assertEqual(self.value("start_background_process('s', 'echo up; exec sleep 60'), start_background_process('s', 'x')"),
                         ["Process s started.", "Process s is already running."])
        end = time.monotonic() + 20
        while "up" not in (logs := self.value("read_process_logs('s')")) and time.monotonic() < end:
            pass
        self.assertEqual(logs, "Status: RUNNING\nup")
        self.assertEqual(self.value("kill_process('s'), kill_process('s'), kill_process('t')"),
                         ["Process s killed.", "Process s is not running.", "Process t is not running."])
        self.assertIn("Status: EXITED(-9)", self.value("read_process_logs('s')"))

    def test_context_is_ours_until_the_user_takes_it(self):
        self.assertEqual(self.value("context['repo_path'], REPO_PATH"), [str(self.dir)] * 2)
        self.run_code("context = 5")
        self.assertEqual(self.value("context"), 5)


class Volume(Case):
    config = {"has_volume": True}

    def test_layout_is_made_and_kept(self):
        for name in ("memory", "artifacts", "buffers", "meta", "memories", "knowledge/ingested", "knowledge/summaries",
                     "skills/system", "skills/user", "sessions", "logs", "uploads"):
            self.assertEqual((self.dir / "memory" / name).stat().st_mode & 0o777, 0o755)
        self.driver.hello()

    def test_what_is_in_the_way_of_the_layout_stays(self):
        (self.dir / "memory" / "artifacts").rmdir()
        (self.dir / "memory" / "artifacts").write_text("mine")
        (self.dir / "memory" / "uploads").rmdir()
        self.run_code("import os\nos.chdir('/')")
        self.assertIsNone(self.driver.hello()["problem"])
        self.assertEqual(self.value("os.getcwd()"), str(self.dir))
        self.assertTrue((self.dir / "memory" / "uploads").is_dir())
        self.assertEqual((self.dir / "memory" / "artifacts").read_text(), "mine")

    def test_save_and_load(self):
        full = str(self.dir / "memory" / "a" / "b.txt")
        self.assertEqual(self.value("save_to_volume('a/b.txt', 'ä'), load_from_volume('%s')" % full), [full, "ä"])
        self.assertEqual(os.listdir(self.dir / "memory" / "a"), ["b.txt"])
        self.assertEqual(self.value("load_from_volume('none')"), "[error: file not found: %s]" % (self.dir / "memory" / "none"))
        self.assertEqual(self.value("save_to_volume('', 1)"), "[error: volume path cannot be empty]")
        for path in ("../x", "/etc/x", "a/../../x"):
            self.assertEqual(self.value("save_to_volume('%s', '')" % path), "[error: invalid volume path: %s]" % path)

    def test_writers_at_once_leave_one_whole_file(self):
        code = ("import threading\nts = [threading.Thread(target=save_to_volume, args=('f', str(i) * 100000)) for i in range(8)]\n"
                "[t.start() for t in ts]; [t.join() for t in ts]\nSUBMIT(load_from_volume('f'))")
        text = self.run_code(code)["final"]["output"]
        self.assertEqual(text, text[0] * 100000)

    def test_remember_and_recall(self):
        self.assertEqual(self.value("recall('x')"), {"status": "ok", "note": "no memories yet", "results": []})
        self.value("remember('colour', 'blue'), remember('shape', '50%'), remember('colour', 'red')")
        self.assertEqual([r["value"] for r in self.value("recall('colour')")["results"]], ["red"])
        self.assertEqual([r["key"] for r in self.value("recall('%')")["results"]], ["shape"])
        self.driver.hello(depth=1)
        self.assertEqual(self.value("remember('k', 'v')")["status"], "skipped")


class Documents(Case):
    """fetch_document_text, and the reader behind it, on small real documents."""

    def setUp(self):
        super().setUp()
        make_documents.make(self.dir)

    def text(self, name):
        return self.value("fetch_document_text(%r)" % name)

    def test_b6_documents_of_every_kind_give_their_text(self):
        for name, want in (("paper.pdf", "Paper says (hi)\nsecond line\n"), ("letter.docx", "Dear reader\nsecond ä\n"),
                           ("talk.pptx", "two\n\nten\n"), ("sums.xlsx", "name\t42\n"),
                           ("open.odt", "open text here\nhead\n"), ("book.epub", "first\n\nlast\n"),
                           ("page.html", "T\n\nHead\n\na & b\n"), ("note.rtf", "Hello bold\ncafé €x\n")):
            with self.subTest(name):
                self.assertEqual(self.text(name), want)

    def test_b6_a_pdf_is_read_by_pdftotext_and_without_it(self):
        tool = shutil.which("pdftotext")
        if not tool:
            self.skipTest("build: poppler-utils isn't installed")
        asked = self.dir / "asked"
        fake = self.dir / "bin"
        fake.mkdir()
        (fake / "pdftotext").write_text('#!/bin/sh\n: >%s\nexec %s "$@"\n' % (asked, tool))
        (fake / "pdftotext").chmod(0o755)
        code = "import os\nos.environ['PATH'] = %r\nSUBMIT(fetch_document_text('paper.pdf'))"
        for path, is_asked in ((str(fake) + ":" + os.environ["PATH"], True), ("/nowhere", False)):
            asked.unlink(missing_ok=True)
            result = self.run_code(code % path)
            self.assertEqual(result["final"]["output"], "Paper says (hi)\nsecond line\n")
            self.assertEqual(asked.exists(), is_asked)

    def test_b6_plain_text_is_its_own_text(self):
        (self.dir / "a.txt").write_bytes("\ufeffä\n".encode("utf-8"))
        self.assertEqual(self.text("file://" + str(self.dir / "a.txt")), "ä\n")

    def test_b6_what_has_no_text_is_said(self):
        (self.dir / "x.bin").write_bytes(b"\0\1\2")
        (self.dir / "x.docx").write_bytes(b"PK\3\4 broken")
        self.assertIn("ValueError: no text in x.bin: a binary file", self.error("fetch_document_text('x.bin')"))
        self.assertIn("ValueError: no text in x.docx: damaged", self.error("fetch_document_text('x.docx')"))
        self.assertIn("RuntimeError: fetch_document_text failed: ", self.error("fetch_document_text('nowhere')"))
        self.assertEqual(self.error("fetch_document_text(' ')"), "ValueError: url cannot be empty")
        self.assertEqual(self.error("fetch_document_text('ftp://x')"), "ValueError: unsupported URL scheme: ftp")

    def test_b6_a_document_by_http_and_by_its_type(self):
        pages = {"/p": ("text/html; charset=utf-8", b"<p>over <b>HTTP</b></p>")}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                kind, body = pages.get(self.path, ("text/plain", None))
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *args):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            base = "http://127.0.0.1:%d" % server.server_port
            self.assertEqual(self.text(base + "/p"), "over HTTP\n")
            self.assertIn("RuntimeError: fetch_document_text failed: Not Found", self.error("fetch_document_text(%r)" % (base + "/q")))
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def test_b6_a_tool_of_the_host_comes_before_ours(self):
        self.driver.hello(tools=[["fetch_document_text", None]])
        result = self.run_code("SUBMIT(fetch_document_text('u'))", tools={"fetch_document_text": lambda u: "host " + u})
        self.assertEqual(result["final"], {"output": "host u"})

    def test_hostile_documents_end_in_a_word_not_in_the_session(self):
        """Every document with bytes changed, cut and repeated: text or a ValueError, and the driver lives."""
        space = {"__name__": "documents"}
        exec(compile(DOCUMENTS.read_text(encoding="utf-8"), "documents.py", "exec"), space)
        chance = random.Random(5)
        for path in sorted(self.dir.iterdir()):
            if not path.is_file():
                continue
            data = path.read_bytes()
            for _ in range(150):
                bad = bytearray(data)
                for _ in range(chance.randrange(1, 8)):
                    at = chance.randrange(len(bad))
                    what = chance.randrange(3)
                    if what == 0:
                        bad[at] = chance.randrange(256)
                    elif what == 1:
                        del bad[at:at + chance.randrange(1, 40)]
                    else:
                        bad[at:at] = bad[at:at + chance.randrange(1, 200)] * chance.randrange(1, 5)
                    bad = bad or bytearray(b"x")
                try:
                    self.assertIsInstance(space["text_of"](bytes(bad), path.name), str)
                except space["NoDocument"]:
                    pass


class Mutations(Case):
    """The other direction of the bridge: whatever bytes a host sends, the driver answers the next good command."""

    FRAMES = tuple(json.dumps(m).encode() for m in (
        {"op": "exec", "id": 900, "code": "x = 1", "vars": {"a": "1"}, "envs": {"A": "b"}, "outputs": [["o", None]],
         "profile": "RLM_ROOT", "interactive": True},
        {"op": "hello", "epoch": 3, "config": {"tools": [["t", "(a, b=1)"]], "submit_limit": 100000}},
        {"op": "probe", "code": "if x:"},
        {"op": "tool_result", "call": 1, "value": "[1, {\"a\": NaN}]"},
        {"op": "tool_error", "call": 1, "type": "ValueError", "message": "no"},
        {"op": 5}, [], {"op": ["exec"]}, "text", None))

    def still_answers(self, what):
        self.driver.send({"op": "exec", "id": 77, "code": "SUBMIT('alive')"})
        final = None
        while True:
            message = self.driver.receive()
            self.assertIsNotNone(message, "the driver died of %r" % what)
            if message["op"] == "final" and message["id"] == 77:
                final = message["fields"]
            if message["op"] == "done" and message["id"] == 77:
                break
        self.assertEqual(final, [['"output"', None, '"alive"']], what)

    def mutate(self, chance, data):
        data = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data) + 1)
            what = chance.randrange(4)
            if what == 0:
                data[at:at + 1] = bytes([chance.randrange(256)])
            elif what == 1:
                del data[at:at + chance.randrange(1, 9)]
            elif what == 2:
                data[at:at] = chance.choice((b"\xff", b"[", b"{", b'"', b"null", b"-1", b"\\ud800", b"1e999", b"\0", b"9" * 400))
            else:
                data[at:at] = data[at:at + chance.randrange(1, 30)]
        return bytes(data)

    def test_b13_10_mutated_frames_never_end_the_session(self):
        chance = random.Random(1)
        for n in range(5000):
            data = self.mutate(chance, chance.choice(self.FRAMES))
            if b"shutdown" not in data:
                self.driver.send_bytes(data)
            if n % 25 == 24:
                self.driver.hello()
                self.still_answers(data)

    def test_b13_10_mutated_packets_never_end_the_session(self):
        chance = random.Random(2)
        for n in range(5000):
            whole = chance.choice(self.FRAMES)
            length = chance.choice((len(whole), 0, 1, len(whole) - 1, len(whole) + 1, 1 << 31, 0xFFFFFFFF, 129 << 20))
            lead = chance.choice((b"B" + length.to_bytes(4, "big"), b"C", b"B", b"X", b"BB", b"\0", b"C" + whole))
            cut = chance.randrange(len(whole) + 1)
            for packet in (lead + whole[:cut], b"C" + whole[cut:]):
                self.driver.socket.send(packet)
            if n % 25 == 24:
                self.driver.hello()
                self.still_answers(lead)

    def test_b13_10_nesting_and_size_of_a_frame_have_an_end(self):
        for data in (b"[" * 100000, b'{"op":' * 50000, b'{"op": "exec", "code": ' + b"9" * 10000 + b"}"):
            self.driver.send_bytes(data)
            self.still_answers(data[:20])


if __name__ == "__main__":
    tap.main(__name__)
