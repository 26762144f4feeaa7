"""python main.py [PATTERN…]: see tap.py. Run by tests/compat/run."""
import importlib
import sys
import warnings

warnings.simplefilter("ignore") # before anything imports the SDK, which warns

# Each adds its tests when it is imported; they run in this order.
for name in ("control", "previews", "process", "sessions", "terminals", "interpreter", "files", "repos", "seeds"):
    importlib.import_module(name)

sys.exit(importlib.import_module("tap").main())
