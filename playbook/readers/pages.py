"""Memory that a reader gives back stays with the process, so that the next megabyte does not cost new pages.

A block at a time means temporary arrays of a megabyte, thousands of them. By default glibc hands each one back to the
system, and every page that comes anew is cleared first: half of the time of reading a large CSV went there. glibc
moves its limits up when a larger piece is freed (mallopt(3), M_MMAP_THRESHOLD: "dynamic"), at most to 32 MB; one array
that is never written to does that, without a setting of the environment. Other allocators are not changed by it.
"""

from __future__ import annotations

import numpy as np

_KEPT = 16 << 20  # bytes: pieces up to this come from memory that is kept, of which at most twice as much lies idle


def keep() -> None:
    """Call it before work on many blocks; once is enough, more often costs some microseconds."""
    np.empty(_KEPT, np.uint8)
