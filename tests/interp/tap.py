"""unittest as TAP: one line per test method."""
import sys
import traceback
import unittest


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.is_good = True

    def say(self, ok, test, note=""):
        self.n += 1
        name = test.id().split(".")[-1]
        print("%s %d - %s%s" % ("ok" if ok else "not ok", self.n, name, note), flush=True)
        self.is_good = self.is_good and ok

    def addSuccess(self, test):
        self.say(True, test)

    def addSkip(self, test, reason):
        self.say(True, test, " # SKIP " + reason)

    def addFailure(self, test, err):
        for line in "".join(traceback.format_exception(*err)).splitlines():
            print("# " + line)
        self.say(False, test)

    addError = addFailure


def main(module):
    patterns = sys.argv[1:]
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[module])
    tests = [t for group in suite for t in group]
    chosen = [t for t in tests if not patterns or any(p in t.id() for p in patterns)]
    print("1..%d" % len(chosen), flush=True)
    result = TapResult()
    unittest.TestSuite(chosen).run(result)
    sys.exit(0 if result.is_good else 1)
