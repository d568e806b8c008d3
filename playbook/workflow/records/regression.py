"""An incident frozen as a folder of plain files with a pytest test: it must not come back unnoticed.

The test (a) replays the scene to the same verdict byte for byte, (b) asserts the data rule that would have caught the
batch, and with --data that the data of today keep it, (c) runs the captured batch through a callable that is named.
Parts without their material are left out, and the README of the folder says how to get it next time.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook.errors import PlaybookError
from playbook.incidents.scene import thaw
from playbook.workflow.book import Library, open_book
from playbook.workflow.records.datarules import Broken, Rules, check, rules_of
from playbook.workflow.records.replay import Replayed, sentence_of, session_of
from playbook.workflow.records.scenes import said
from playbook.workflow.records.shelf import shelf

if TYPE_CHECKING:
    from playbook.incidents.record import Record
    from playbook.incidents.store import Store

DATA_BATCHES = 50  # batches of the user's data that the test looks at


@dataclass(frozen=True, slots=True)
class Frozen:
    """What was written: the folder, the parts of the test, the data rules that the batch breaks."""

    folder: Path
    parts: tuple[str, ...]
    broken: tuple[str, ...]
    missing: tuple[str, ...]


def freeze(
    incident: str, out: Path, library: Library, db: str | None = None, call: str | None = None, data: str | None = None,
    overwrite: bool = False,
) -> Frozen:  # fmt: skip
    """Write the regression artifact of an incident to the new folder `out`. Raises `PlaybookError`."""
    for name, option in ((call, "--callable"), (data, "--data")):
        if name is not None:
            _split(name, option)
    with shelf(db) as store:
        record = store.get(incident)
        files = _files(record, store)
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]) and not overwrite:
        raise PlaybookError(str(out), "is there already", "name another --out, or --overwrite")
    if call is not None and "batch.npz" not in files:
        raise PlaybookError(
            "--callable", f"{record.id} has no captured batch", "attach one: playbook.capture in training"
        )
    run = thaw(files["scene.jsonl"]) if "scene.jsonl" in files else None
    session = session_of(record, library, run)
    files["expected.json"] = verdict_bytes(record, library, files.get("scene.jsonl"))
    info = _object(files["capture.json"], "capture.json") if "capture.json" in files else {}
    rules = rules_of(info.get("config"), run.config if run is not None else None)
    broken: list[Broken] = []
    if "batch.npz" in files:
        broken = check(_batch(files["batch.npz"]), rules, _ids(info))
        told = {"rules": rules.plain(), "broken": sorted({b.rule for b in broken}), "callable": call, "data": data}
        files["rules.json"] = _json(told)
    elif data is not None:
        files["rules.json"] = _json({"rules": rules.plain(), "broken": [], "callable": None, "data": data})
    parts = _parts(files, call, data)
    missing = _missing(files, call, broken)
    files[f"test_incident_{_identifier(record.id)}.py"] = _test(record, parts).encode()
    files["README.md"] = _readme(record, sentence_of(session).verdict, parts, missing, broken).encode()
    _write(out, files)
    return Frozen(out, tuple(parts), tuple(str(b) for b in broken), tuple(missing))


def _files(record: Record, store: Store) -> dict[str, bytes]:
    """The plain files of an incident under the names that the test knows."""
    files = {"incident.json": _json(record.model_dump(mode="json", by_alias=True))}
    for ref in record.artifacts:
        if ref.kind == "scene":
            files.setdefault("scene.jsonl", store.fetch(ref.sha256, ref.name))
        elif ref.kind == "batch":
            files.setdefault("batch.npz", store.fetch(ref.sha256, ref.name))
        elif ref.kind == "capture":
            name = "rng.json" if ref.name.endswith("rng.json") else "capture.json"
            files.setdefault(name, store.fetch(ref.sha256, ref.name))
    return files


def _batch(data: bytes) -> dict[str, Any]:
    import tempfile

    from playbook.incidents.captured import read_batch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch.npz"
        path.write_bytes(data)
        return read_batch(path)


def verdict_bytes(record: Record, library: Library, scene: bytes | None) -> bytes:
    """The verdict as canonical JSON: the sentence, and what the detectors see in the scene."""
    run = thaw(scene) if scene is not None else None
    session = session_of(record, library, run)
    seen = [e for e in session.evidence if e.source in ("metrics", "log", "config")] if run is not None else []
    return _json({"verdict": sentence_of(session).model_dump(by_alias=True), "seen": said(tuple(seen))})


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode()


def _identifier(incident: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in incident)


def _parts(files: Mapping[str, bytes], call: str | None, data: str | None) -> list[str]:
    parts = ["verdict"]
    if "batch.npz" in files:
        parts.append("rule")
    if data is not None:
        parts.append("data")
    if call is not None:
        parts.append("callable")
    return parts


def _missing(files: Mapping[str, bytes], call: str | None, broken: list[Broken]) -> list[str]:
    missing = []
    if "scene.jsonl" not in files:
        missing.append(
            "no scene: the incident was recorded without metric files; the verdict is replayed from its evidence"
        )
    if "batch.npz" not in files:
        missing.append(
            "no captured batch: call playbook.capture(...) on a bad step and attach its folder to the incident"
        )
    elif not broken:
        missing.append(
            "the captured batch breaks none of the data rules: the data were not at fault, or a rule is missing"
        )
    if call is None and "batch.npz" in files:
        missing.append("no callable: --callable module:function runs the captured batch through your own step")
    return missing


_HEAD = '''"""Incident {id}: {title}

Written by `playbook incident regression`; the files beside it are described in README.md.
"""

from pathlib import Path

from playbook.workflow.records import regression

HERE = Path(__file__).parent
'''
_TESTS = {
    "verdict": '''

def test_scene_replays_to_the_same_verdict():
    """Detectors and knowledge still see what was seen then, byte for byte."""
    assert regression.replayed_bytes(HERE) == (HERE / "expected.json").read_bytes()
''',
    "rule": '''

def test_data_rule_would_have_caught_the_batch():
    """The rules that the captured batch breaks are the ones on record."""
    assert regression.broken_rules(HERE) == regression.expected_rules(HERE)
''',
    "data": '''

def test_data_of_today_keep_the_rules():
    """No batch of the data loader breaks a rule."""
    assert regression.broken_by_data(HERE) == []
''',
    "callable": '''

def test_captured_batch_through_the_training_step():
    """The batch that broke the run gives a finite loss now."""
    assert regression.step_is_finite(HERE)
''',
}


def _test(record: Record, parts: Iterable[str]) -> str:
    title = record.title.replace("\\", "/").replace('"', "'").replace("\n", " ")
    return _HEAD.replace("{id}", record.id).replace("{title}", title) + "".join(_TESTS[p] for p in parts)


def _readme(record: Record, verdict: str, parts: list[str], missing: list[str], broken: list[Broken]) -> str:
    lines = [
        f"# Incident {record.id}",
        "",
        " ".join(record.title.split()),
        "",
        f"Verdict: {verdict}; cause: {record.cause or 'not confirmed'}. Run it with `pytest` in this folder.",
        "",
        "| file | what it is |",
        "|---|---|",
        "| `incident.json` | the record: moves, answers, verdict |",
        "| `scene.jsonl` | the run, whole around the onset and thinned elsewhere |",
        "| `expected.json` | the verdict that the scene must replay to |",
        "| `batch.npz`, `capture.json`, `rng.json` | the captured batch, its facts, the generators |",
        "| `rules.json` | the data rules, and which of them the batch breaks |",
        "",
        f"Parts of the test: {', '.join(parts)}.",
        *([""] + [f"- {b}" for b in broken] if broken else []),
        *([""] + [f"- {m}" for m in missing] if missing else []),
        "",
        "After a wanted change of the knowledge write it anew with `playbook incident regression ID --overwrite`.",
    ]
    return "\n".join(lines) + "\n"


def _write(out: Path, files: Mapping[str, bytes]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, data in sorted(files.items()):
            (out / name).write_bytes(data)
    except OSError as error:
        raise PlaybookError(str(out), f"cannot be written: {error.strerror}", "name another --out") from None


# What the written test calls.


def _load(folder: Path) -> tuple[Record, bytes | None]:
    from playbook.incidents.record import parse

    path = folder / "incident.json"
    if not path.is_file():
        raise PlaybookError(str(folder), "is no regression artifact", "it has no incident.json")
    scene = folder / "scene.jsonl"
    return parse(_read_json(path), str(path)), scene.read_bytes() if scene.is_file() else None


def replayed_bytes(folder: Path, library: Library | None = None) -> bytes:
    """The verdict of today."""
    record, scene = _load(folder)
    return verdict_bytes(record, library or open_book(), scene)


def replay_folder(folder: Path, library: Library) -> Replayed:
    """A regression artifact for `playbook replay`."""
    from pydantic import ValidationError

    from playbook.incidents.record import Sentence

    record, scene = _load(folder)
    run = thaw(scene, str(folder / "scene.jsonl")) if scene is not None else None
    path = folder / "expected.json"
    try:
        expected = Sentence.model_validate(_read_json(path).get("verdict"))
    except ValidationError:
        raise PlaybookError(str(path), "holds no verdict", "write the artifact anew") from None
    return Replayed(record.id, "incident", expected, sentence_of(session_of(record, library, run)))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return _object(path.read_bytes(), str(path))
    except OSError as error:
        raise PlaybookError(str(path), f"cannot be read: {error.strerror}", "write the artifact anew") from None


def _object(data: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise PlaybookError(where, f"is no JSON: {str(error)[:120]}", "write the artifact anew") from None
    if not isinstance(found, dict):
        raise PlaybookError(where, "is no JSON object", "write the artifact anew")
    return found


def _ids(info: Mapping[str, Any]) -> list[Any] | None:
    found = info.get("sample_ids")
    return found if isinstance(found, list) else None


def _rules(folder: Path) -> Rules:
    told = _read_json(folder / "rules.json")["rules"]
    return Rules(**told)


def _captured(folder: Path) -> tuple[dict[str, Any], Any]:
    from playbook.incidents.captured import read_batch

    info = _read_json(folder / "capture.json") if (folder / "capture.json").is_file() else {}
    return read_batch(folder / "batch.npz"), _ids(info)


def broken_rules(folder: Path) -> list[str]:
    """Names of the rules that the captured batch breaks."""
    batch, sample_ids = _captured(folder)
    return sorted({b.rule for b in check(batch, _rules(folder), sample_ids)})


def expected_rules(folder: Path) -> list[str]:
    return list(_read_json(folder / "rules.json")["broken"])


def broken_by_data(folder: Path, most: int = DATA_BATCHES) -> list[str]:
    """What the first batches of the named data break: an iterable of mappings of arrays."""
    make = _callable(str(_read_json(folder / "rules.json")["data"]), "--data")
    rules = _rules(folder)
    return [f"batch {k}: {b}" for k, batch in enumerate(islice(make(), most)) for b in check(batch, rules)]


def step_is_finite(folder: Path) -> bool:
    """Run the captured batch through the named callable; whether its loss is finite."""
    import numpy as np

    step = _callable(str(_read_json(folder / "rules.json")["callable"]), "--callable")
    result = step(_captured(folder)[0])
    if isinstance(result, Mapping):
        result = result["loss"]
    elif hasattr(result, "loss"):
        result = result.loss
    if hasattr(result, "detach"):
        result = result.detach().cpu().numpy()
    return bool(np.isfinite(np.asarray(result, dtype=float)).all())


def _split(name: str, option: str) -> tuple[str, str]:
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise PlaybookError(f"{option} {name}", "is not module:function", "write for example train.step:loss_of_batch")
    return module, function


def _callable(name: str, option: str) -> Callable[..., Any]:
    module, function = _split(name, option)
    # The user's own code, by the name that the user gave; tests are run from the project's folder.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise PlaybookError(
            f"{option} {name}", f"cannot be imported: {error}", "run from your project's folder"
        ) from None
    if not callable(found):
        raise PlaybookError(f"{option} {name}", "cannot be called", "name a function")
    return found
