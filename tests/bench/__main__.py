"""`python -m tests.bench [NAME...] [--full]`: every bench, or those whose name holds one of the words."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

given = sys.argv[1:]
options = next((place for place, word in enumerate(given) if word.startswith("-")), len(given))
words = given[:options]
sys.argv = [sys.argv[0], *(given[options:] if words else ())]  # a named bench may have options of its own
for path in sorted(Path(__file__).parent.glob("bench_*.py")):
    if not words or any(word in path.stem for word in words):
        print(f"== {path.stem}", flush=True)
        runpy.run_path(str(path), run_name="__main__")
