"""Bundles: a zip with incidents and their artifacts that another team can import and replay; read without trust.

    manifest.json            version, ids, SHA-256 and size of every file, what was removed and what was left out
    incidents/<id>.json      documents of `record.py`
    artifacts/<sha256>       bytes, named by their hash

Reading refuses names that are not of this form (no way out of the folder, no links), more than `Limits` allow (as
counted while unpacking, not as declared), versions that we do not know, and any byte that the manifest does not vouch
for. Nothing is stored before everything was checked. Writing gives the same bytes for the same incidents.
"""

from __future__ import annotations

import io
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError, only_file, reason
from playbook.incidents.artifacts import digest
from playbook.incidents.record import ID_PATTERN, Record, parse

VERSION = 1
_NAME = re.compile(rf"^(?:manifest\.json|incidents/(?:{ID_PATTERN.strip('^$')})\.json|artifacts/[0-9a-f]{{64}})$")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of zip: no clock in a bundle
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a bundle may hold, unpacked."""

    files: int = 20_000
    file_bytes: int = 200_000_000
    total_bytes: int = 2_000_000_000
    ratio: float = 200.0  # unpacked to packed, beyond 1 MB; text of training logs packs 5 to 30 times


@dataclass(frozen=True)
class Bundle:
    """A bundle in memory: documents, artifacts by hash, and what the exporter says was removed or left out."""

    records: tuple[Record, ...]
    artifacts: Mapping[str, bytes]
    removed: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    playbook: str = ""


def write(path: Path, bundle: Bundle) -> None:
    """Write a bundle, aside first. Raises `PlaybookError` where it cannot be written."""
    data = pack(bundle)
    temporary = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise PlaybookError(str(path), f"cannot be written: {error.strerror}", "name another --out") from None


def pack(bundle: Bundle) -> bytes:
    """Bundle -> bytes of the zip."""
    files = {f"incidents/{r.id}.json": _json(r.model_dump(mode="json", by_alias=True)) for r in bundle.records}
    files |= {f"artifacts/{sha}": data for sha, data in bundle.artifacts.items()}
    manifest = {
        "bundle": VERSION,
        "playbook": bundle.playbook,
        "incidents": sorted(r.id for r in bundle.records),
        "removed": bundle.removed,
        "left_out": bundle.left_out,
        "files": {name: {"sha256": digest(data), "size": len(data)} for name, data in sorted(files.items())},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in [("manifest.json", _json(manifest)), *sorted(files.items())]:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def read(path: Path, limits: Limits | None = None) -> Bundle:
    """Read and check a bundle whole. Raises `PlaybookError` with what is wrong; changes nothing anywhere."""
    limits = limits or Limits()
    where = str(path)
    try:
        with zipfile.ZipFile(only_file(path)) as archive:
            files = _unpack(archive, where, limits)
    except FileNotFoundError:
        raise PlaybookError(where, "no such file", "name a bundle (zip) of `playbook incident export`") from None
    except IsADirectoryError:
        raise PlaybookError(where, "is a folder", "name a bundle (zip) of `playbook incident export`") from None
    except OSError as error:
        what = f"cannot be read: {reason(error)}"
        raise PlaybookError(where, what, "name a bundle (zip) of `playbook incident export`") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PlaybookError(where, f"is no whole zip: {what}", "ask for the bundle again") from None
    manifest = _manifest(files.pop("manifest.json", None), where)
    _vouch(files, manifest, where)
    return _assemble(files, manifest, where)


def _unpack(archive: zipfile.ZipFile, where: str, limits: Limits) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > limits.files:
        raise PlaybookError(
            where, f"holds {len(entries)} files, more than {limits.files}", "no playbook writes that many"
        )
    files: dict[str, bytes] = {}
    total = 0
    for entry in entries:
        name = entry.filename
        if not _NAME.match(name) or "\\" in name:
            raise PlaybookError(where, f"holds {_shown(name)}, which is no file of a bundle", "do not trust this file")
        if name in files:
            raise PlaybookError(where, f"holds {_shown(name)} twice", "do not trust this file")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise PlaybookError(where, f"holds a link, {_shown(name)}", "do not trust this file")
        if entry.flag_bits & 0x1:
            raise PlaybookError(where, f"{_shown(name)} is encrypted", "bundles are not; ask for it again")
        files[name] = _read(archive, entry, where, limits, limits.total_bytes - total)
        total += len(files[name])
    return files


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str, limits: Limits, left: int) -> bytes:
    """The bytes of one entry, counted as they come: what a header declares is no promise."""
    most = min(limits.file_bytes, left)
    parts, size = [], 0
    with archive.open(entry) as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > most:
                raise PlaybookError(where, f"{_shown(entry.filename)} unpacks to too much", "do not trust this file")
            if size > _CHUNK and size > limits.ratio * max(entry.compress_size, 1):
                what = f"{_shown(entry.filename)} unpacks to more than {limits.ratio:g} times its size"
                raise PlaybookError(where, what, "do not trust this file")
            parts.append(chunk)
    return b"".join(parts)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "...")


def _loads(data: bytes, where: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise PlaybookError(where, f"is no JSON: {str(error)[:120]}", "ask for the bundle again") from None


def _manifest(data: bytes | None, where: str) -> dict[str, Any]:
    if data is None:
        raise PlaybookError(where, "has no manifest", "it is no bundle of `playbook incident export`")
    manifest = _loads(data, f"{where}:manifest.json")
    if not isinstance(manifest, dict) or "bundle" not in manifest:
        raise PlaybookError(where, "has no manifest of a bundle", "it is no bundle of `playbook incident export`")
    if manifest["bundle"] != VERSION:
        raise PlaybookError(where, f"is a bundle of version {manifest['bundle']!r}", f"this playbook reads {VERSION}")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(f, dict) for f in files.values()):
        raise PlaybookError(where, "its manifest lists no files", "ask for the bundle again")
    return manifest


def _vouch(files: Mapping[str, bytes], manifest: Mapping[str, Any], where: str) -> None:
    listed = manifest["files"]
    if missing := sorted(set(listed) - set(files)):
        raise PlaybookError(where, f"lacks {_shown(missing[0])}", "the bundle was cut; ask for it again")
    for name, data in files.items():
        told = listed.get(name)
        if told is None:
            raise PlaybookError(
                where, f"holds {_shown(name)}, which its manifest does not know", "do not trust this file"
            )
        sha = digest(data)
        if told.get("sha256") != sha or (name.startswith("artifacts/") and name != f"artifacts/{sha}"):
            raise PlaybookError(where, f"{_shown(name)} is not what it was when exported", "do not trust this file")


def _assemble(files: Mapping[str, bytes], manifest: Mapping[str, Any], where: str) -> Bundle:
    records = []
    artifacts = {name.removeprefix("artifacts/"): data for name, data in files.items() if name.startswith("artifacts/")}
    for name, data in sorted(files.items()):
        if name.startswith("incidents/"):
            record = parse(_loads(data, f"{where}:{name}"), f"{where}:{name}")
            if name != f"incidents/{record.id}.json":
                raise PlaybookError(where, f"{_shown(name)} holds incident {record.id}", "do not trust this file")
            if lost := [a.name for a in record.artifacts if a.sha256 not in artifacts]:
                raise PlaybookError(
                    where, f"{record.id} needs {_shown(lost[0])}, which is not there", "ask for it again"
                )
            records.append(record)
    if not records:
        raise PlaybookError(where, "holds no incident", "export with an ID or --all")
    removed = manifest.get("removed")
    left_out = manifest.get("left_out")
    return Bundle(
        tuple(records),
        artifacts,
        removed if isinstance(removed, list) else [],
        [str(x) for x in left_out] if isinstance(left_out, list) else [],
        str(manifest.get("playbook", "")),
    )
