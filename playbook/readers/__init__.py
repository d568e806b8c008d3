"""The table of formats, and `read`: paths -> one Run. Exactly one reader claims a file.

`read(paths, rename=None, step=None, progress=None) -> Run`; a path is a file, a folder or a glob; raises `PlaybookError`
for a path that is not there, an empty file or a format that nobody claims.
"""

from __future__ import annotations
