#!/usr/bin/env python3
"""docs/checklist.md names a test for every item, and the tests it names are there."""
import os
import pathlib
import re
import unittest

import tap

SOURCE = pathlib.Path(os.environ["CSN_SOURCE"])
PLACES = ("tests/interp/*.c", "tests/interp/*.py", "tests/interp/*.sh", "tests/blocks/*.c", "tests/blocks/*.sh",
          "src/blocks/test_*.c", "src/interp/test_*.c")


def known_tests():
    names = set()
    for pattern in PLACES:
        for path in SOURCE.glob(pattern):
            text = path.read_text(encoding="utf-8")
            names.update(re.findall(r"^TEST(?:_TIMEOUT)?\((\w+)", text, re.M))
            names.update(re.findall(r"^    def test_(\w+)\(self", text, re.M))
            names.update(re.findall(r'^(?:is|like) "([^"]+)"', text, re.M))
    return names


class Checklist(unittest.TestCase):
    def check(self, heading, count):
        page = (SOURCE / "docs/checklist.md").read_text(encoding="utf-8")
        part = page.split("(%s)\n" % heading)[1].split("\n## ")[0]
        rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", part, re.M)
        self.assertEqual([int(n) for n, _tests in rows], list(range(1, count + 1)))
        names = known_tests()
        for number, tests in rows:
            for test in re.findall(r"`([^`]+)`", tests):
                self.assertIn(test, names, "item %s" % number)
            self.assertTrue("`" in tests or "remote service" in tests, "item %s has no test" % number)

    def test_b13_every_item_has_its_test(self):
        self.check("B.13", 73)

    def test_c7_every_item_has_its_test(self):
        self.check("C.7", 53)


if __name__ == "__main__":
    tap.main(__name__)
