"""`python -m tests.bench [NAME...]`: every bench, or those whose name holds one of the words."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

words, sys.argv = sys.argv[1:], sys.argv[:1]  # a bench has arguments of its own
for path in sorted(Path(__file__).parent.glob("bench_*.py")):
    if not words or any(word in path.stem for word in words):
        print(f"== {path.stem}", flush=True)
        runpy.run_path(str(path), run_name="__main__")
