"""``make bench``: ours beside the best known peer, in one run, taking turns; results
are compared before times are.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

for script in sorted(Path(__file__).parent.glob("bench_*.py")):
    print(f"\n=== {script.stem.removeprefix('bench_')}", flush=True)
    begin = time.monotonic()
    if subprocess.run([sys.executable, script]).returncode:
        sys.exit(f"{script.name} failed")
    print(f"({time.monotonic() - begin:.0f} s)", flush=True)
