"""What no reader can use, each told in its own line: empty, a Git LFS pointer, a web page, an archive, a pickle."""

from __future__ import annotations

import re

from playbook.errors import PlaybookError
from playbook.readers.source import Source

_MAGIC = (
    (b"PK\x03\x04", "is a zip archive (or a PyTorch checkpoint)", "unpack it, or name the metrics file beside it"),
    (b"\x80\x02", "is a Python pickle, which we never load", "write the metrics as CSV or JSON lines"),
    (b"\x80\x03", "is a Python pickle, which we never load", "write the metrics as CSV or JSON lines"),
    (b"\x80\x04", "is a Python pickle, which we never load", "write the metrics as CSV or JSON lines"),
    (b"\x80\x05", "is a Python pickle, which we never load", "write the metrics as CSV or JSON lines"),
    (b"\x93NUMPY", "is a numpy array", "write the metrics as CSV or JSON lines"),
    (b"\x89HDF", "is an HDF5 file", "write the metrics as CSV or JSON lines"),
    (b"\x89PNG", "is a picture", "name a metrics file or a log"),
    (b"\xff\xd8\xff", "is a picture", "name a metrics file or a log"),
    (b"%PDF", "is a PDF document", "name a metrics file or a log"),
    (b"\x7fELF", "is a program", "name a metrics file or a log"),
    (b"BZh", "is packed with bzip2", "unpack it (bunzip2) first"),
    (b"\xfd7zXZ", "is packed with xz", "unpack it (unxz) first"),
    (b"7z\xbc\xaf", "is a 7z archive", "unpack it first"),
    (b"ARROW1", "is an Arrow file", "write it as parquet"),
)
_HTML = re.compile(rb"^\s*(?:<!--.*?-->\s*)?<(?:!doctype html|html|head)\b", re.IGNORECASE | re.DOTALL)
_TAR = slice(257, 262)


def unusable(source: Source, head: bytes) -> None:
    """Raise `PlaybookError` for content that is no metric file whatever its name says."""
    name = source.name
    if not head:
        if source.damage:
            raise PlaybookError(name, source.damage[0], "unpack it again from the original")
        raise PlaybookError(name, "the file is empty", "check that the job has written to it")
    if not head.strip(b"\0"):
        raise PlaybookError(
            name, "holds nothing but NUL bytes", "the file was truncated or its disk was full; take an older copy"
        )
    if not head.strip():
        raise PlaybookError(name, "holds nothing but blank lines", "check that the job has written to it")
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        raise PlaybookError(name, "is a Git LFS pointer, not the file itself", "fetch it with `git lfs pull`")
    if head.startswith(b"/annex/objects/") or (head.startswith(b"../") and b".git/annex/objects/" in head[:300]):
        raise PlaybookError(name, "is a git-annex pointer, not the file itself", "fetch it with `git annex get`")
    if _HTML.match(head[:4096]):
        raise PlaybookError(
            name,
            "is a web page (HTML), perhaps a login or error page saved by a download",
            "download the raw file again",
        )
    for magic, what, hint in _MAGIC:
        if head.startswith(magic):
            raise PlaybookError(name, what, hint)
    if head[_TAR] == b"ustar":
        raise PlaybookError(name, "is a tar archive", "unpack it first")


def unknown(source: Source, head: bytes) -> PlaybookError:
    """Nobody claims the file: what it is not, and the way out."""
    sample = head[:4096]
    odd = sum(byte < 9 or 13 < byte < 32 for byte in sample if byte != 27)
    if odd > len(sample) // 20:
        return PlaybookError(
            source.name,
            "is binary data of a format that we do not know",
            "write the metrics as CSV or JSON lines, or name the log of the job",
        )
    if source.inner.suffix.lower() in (".yaml", ".yml", ".toml"):
        if re.search(rb"(?m)^defaults:", head):
            hint = "name the files that it is composed of too, or the composed one (.hydra/config.yaml)"
            return PlaybookError(source.name, "takes its settings from other files (defaults:)", hint)
        hint = "name the file that holds rate, batch and length of the training"
        return PlaybookError(source.name, "sets nothing that we know of a training", hint)
    return PlaybookError(
        source.name,
        "no reader knows this format (no table, JSON, log, configuration or tracker file that we know)",
        "for a table or JSON lines name the columns: --map loss=my_col --map step=my_step",
    )
