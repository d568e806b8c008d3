"""`python -m tests.bench [NAME...]`: every bench, or those whose name holds one of the words."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

for path in sorted(Path(__file__).parent.glob("bench_*.py")):
    if len(sys.argv) < 2 or any(word in path.stem for word in sys.argv[1:]):
        print(f"== {path.stem}", flush=True)
        runpy.run_path(str(path), run_name="__main__")
