"""A whole JSON document as Python values, and a clear line for one that is cut, conflicted or not JSON at all."""

from __future__ import annotations

import json
import re
from typing import Any

from playbook.errors import PlaybookError
from playbook.readers.source import Source

_DIGITS = re.compile(r"\d{4000,}")
_MARKER = re.compile(r"^(?:<<<<<<<|>>>>>>>)", re.MULTILINE)


def parse(source: Source) -> tuple[Any, str]:
    """(value, text). Raises `PlaybookError` with the line."""
    text = source.document().strip("\ufeff")
    try:
        return json.loads(text), text
    except json.JSONDecodeError as error:
        if hit := _MARKER.search(text):
            line = text.count("\n", 0, hit.start()) + 1
            raise PlaybookError(source.name, "holds git merge-conflict markers", "resolve the merge", line) from None
        if error.pos >= len(text.rstrip()) or _inside_last(text, error.pos):
            line = text.rstrip().count("\n") + 1
            what = "the JSON ends in the middle: the file was cut while it was written or copied"
            raise PlaybookError(source.name, what, "take an older copy or fetch it again", line) from None
        if error.msg.startswith("Extra data"):
            what = "holds several JSON documents one after another"
            raise PlaybookError(source.name, what, "write one object a line, of 32 MB at most", error.lineno) from None
        what = f"not valid JSON: {error.msg}"
        raise PlaybookError(source.name, what, "mend the file", error.lineno) from None
    except RecursionError:
        raise PlaybookError(source.name, "the JSON nests too deep", "mend the file") from None
    except ValueError:  # Python turns no whole number of more than 4300 digits into one
        digits = max((len(hit) for hit in _DIGITS.findall(text)), default=0)
        what = f"holds a number of {digits} digits, which counts nothing"
        raise PlaybookError(source.name, what, "mend the file") from None


def _inside_last(text: str, position: int) -> bool:
    """True where the error is in the last token: a text without its end, `tru`, `1.` or `Na`."""
    rest = text[position:].rstrip()
    return "\n" not in rest and not rest.endswith(("}", "]"))
