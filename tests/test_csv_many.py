"""A folder of tables (a file a rank) gives the same run read together and one by one; so does the fleet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_csv_bulk import FAULTS, FEW, _fault

from playbook import readers
from playbook.errors import PlaybookError
from playbook.probes import fleet, fleet_engines
from playbook.readers import read
from playbook.readers.tables import csv_many
from playbook.workflow.fleet import files as fleet_files
from playbook.workflow.fleet import rows as fleet_rows

HEADS = (("step", "loss", "lr"), ("step", "loss", "note", "lr"), ("epoch", "step", "loss"), ("step", "rank", "loss"))
PLAIN = st.floats(0.1, 9).map(lambda x: f"{x:.4f}")
SAID = "nan|NaN|-nan|inf|-inf|+inf|Infinity|-Infinity|None|1e5|2.5e-3|+3|.5|5.|85%|-0|1_0|0x1|1.0e400|2,5"
WORDS = st.sampled_from(SAID.split("|"))
CELLS = st.one_of(PLAIN, PLAIN, PLAIN, PLAIN, FEW, WORDS, st.sampled_from(["", " ", " 2.5 "]))


@st.composite
def folders(draw: Any) -> dict[str, bytes]:
    """Names and contents of files under one header, some with faults, some under another header."""
    head = draw(st.sampled_from(HEADS))
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))
    sign = draw(st.sampled_from([",", ",", ";", "\t"]))
    files: dict[str, bytes] = {}
    length = draw(st.integers(0, 12))
    for rank in range(draw(st.integers(2, 8))):
        own = draw(st.sampled_from([head] * 12 + [(*head, "val_loss"), tuple(reversed(head))]))
        mode = draw(st.sampled_from(["plain", "plain", "plain", "words", "faults"]))
        lines = [sign.join(own)]
        for number in range(length + draw(st.sampled_from([0, 0, 0, 1]))):
            row = [draw(PLAIN if mode == "plain" else CELLS).replace(sign, "") for _ in own]
            row[own.index("step")] = str(number) if mode != "faults" or draw(st.integers(0, 9)) else row[0]
            if "rank" in own:
                row[own.index("rank")] = str(rank)
            if "epoch" in own:
                row[own.index("epoch")] = str(number // 3)
            if "note" in own:
                row[own.index("note")] = draw(st.sampled_from(["warm", "", "gpu 3", "2.5", "好"]))
            kind = draw(st.sampled_from(["row"] * 30 + FAULTS)) if mode == "faults" else "row"
            lines.append(_fault(kind, row, own, sign))
        text = end.join(lines) + (end if mode != "faults" or draw(st.booleans()) else "")
        files[f"rank{rank}.csv"] = text.encode("utf-8", "surrogateescape")
    return files


def written(top: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (top / name).write_bytes(content)
    return top


def outcome(top: Path) -> Any:
    try:
        run = read([top])
    except PlaybookError as error:
        return str(error)
    series = {
        key: (
            one.steps.tolist(),
            one.steps.dtype.str,
            one.values.tobytes(),
            None if one.lines is None else one.lines.tolist(),
            one.origin,
            one.raw,
        )
        for key, one in run.series.items()
    }
    return series, run.files, run.unmapped, run.events, run.config


@settings(max_examples=300, deadline=None)
@given(folders(), st.sampled_from([1, 200, 1 << 20]))
def test_together_and_alone_give_the_same_run(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], block: int
) -> None:
    top = written(tmp_path_factory.mktemp("ranks"), files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_many, "_BLOCK", block)
        together = outcome(top)
        patch.setattr(readers, "_alike", lambda *_: (0, {}))
        alone = outcome(top)
    assert together == alone


def test_plain_files_are_not_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one of them holds a NaN, another one stands under another header, and a third is cut."""
    for rank in range(12):
        rows = "".join(f"{step},{2 + rank / 7 + step / 97:.5f},0.0003\n" for step in range(50))
        rows = rows.replace("7,", "7,nan,", 1).replace("nan,", "nan,0.0003\n8,", 1) if rank == 3 else rows
        (tmp_path / f"rank{rank}.csv").write_text("step,loss,lr\n" + (rows[:-4] if rank == 5 else rows))
    read_alone: list[str] = []
    one = readers.read_one
    monkeypatch.setattr(readers, "read_one", lambda item, *more: read_alone.append(item.path.name) or one(item, *more))
    run = read([tmp_path])
    assert len(run.by_rank("loss")) == 12
    assert set(read_alone) <= {"rank0.csv", "rank3.csv", "rank5.csv"} and "rank5.csv" in read_alone
    one_rate, other = run.by_rank("lr")[1].values, run.by_rank("lr")[2].values
    assert np.shares_memory(one_rate, other)  # what all ranks log alike is held once


class Connection:
    """As much of Ibis' connection as loading needs."""

    def __init__(self) -> None:
        self.con = duckdb.connect()

    def raw_sql(self, text: str) -> None:
        self.con.execute(text)

    def rows(self, logged: bool = False) -> list[tuple[int, int, str]]:
        """All rows with a step, or those of them with a value too."""
        found = self.con.execute(f"SELECT step, rank, value FROM {fleet.NAME} WHERE step IS NOT NULL").fetchall()
        return sorted(
            (step, -1 if rank is None else rank, repr(value))
            for step, rank, value in found
            if value is not None or not logged
        )


@settings(max_examples=150, deadline=None)
@given(folders(), st.sampled_from([1, 200, 1 << 20]))
def test_the_fleet_has_the_rows_that_the_engine_would_read(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], block: int
) -> None:
    top = written(tmp_path_factory.mktemp("ranks"), files)
    try:
        data, _ = fleet_files.describe([str(top)], "loss", {})
    except PlaybookError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet_rows, "_BLOCK", block)
        patch.setattr(fleet_rows, "_ROWS", 20)
        ours, its = Connection(), Connection()
        fleet_engines._loaded(ours, data)
        fleet_engines._loaded(its, replace(data, rows=None))
    assert ours.rows(logged=True) == its.rows(logged=True)  # of a cell that is no number, duckdb may drop the row


def test_the_fleet_keeps_nan_infinity_and_nothing_apart(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank{rank}.csv").write_text(f"step,loss,lr\n0,nan,1\n1,-inf,1\n2,,1\n3,{rank}.5,1\n")
    data, problems = fleet_files.describe([str(tmp_path)], "loss", {})
    assert data.rows is not None and not problems
    parts = list(data.rows())
    assert len(parts) == 1 and not isinstance(parts[0], fleet_engines.File)
    con = Connection()
    fleet_engines._loaded(con, data)
    assert [value for _, _, value in con.rows()] == ["nan"] * 3 + ["-inf"] * 3 + ["None"] * 3 + ["0.5", "1.5", "2.5"]
    assert np.isnan(np.ma.getdata(parts[0].value)[0])
