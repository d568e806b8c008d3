"""Paths, folders, packed and damaged input, and how several files become one run."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zstandard

from playbook.errors import PlaybookError
from playbook.readers import merge, read
from playbook.readers.names import canonical, rank_in, step_names
from playbook.readers.source import Source
from playbook.readers.table_shape import torn
from tests import wandb_files
from tests.event_files import event, simple, version

CSV = "step,loss\n1,2.50\n2,2.40\n3,2.30\n"


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(*losses: float, start: int = 0) -> str:
    return "".join(json.dumps({"step": start + i, "loss": loss}) + "\n" for i, loss in enumerate(losses))


BAD = {
    "empty.csv": (b"", "empty"),
    "blank.csv": (b"\n\n  \n", "blank lines"),
    "nul.log": (b"\0" * 5000, "NUL"),
    "pointer.csv": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
    "page.csv": (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "web page"),
    "model.csv": (b"PK\x03\x04" + b"\1\2\3" * 40, "zip archive"),
    "state.json": (b"\x80\x04\x95" + b"\0\1" * 40, "pickle"),
    "noise.dat": (bytes(range(1, 32)) * 40, "binary"),
    "half.json": (b'{"log_history": [{"step": 1, "loss": 2.5}, {"step": 2, "lo', "ends in the middle"),
    "merge.json": (b'{\n"log_history": [\n<<<<<<< HEAD\n{"step": 1, "loss": 2.5}\n=======\n]}\n', "merge-conflict"),
    "header.csv": (b"step,loss,lr\n", "no rows"),
    "foreign.csv": (b"name,age\nanna,3\nbert,4\n", "--map"),
    "numbers.csv": (b"1,2,3\n4,5,6\n7,8,9\n", "--map"),
    "other.jsonl": (b'{"instruction": "a", "output": "b"}\n{"instruction": "c", "output": "d"}\n', "--map"),
    "config.yaml": (b"lr: 0.1\nbatch_size: [1, 2\nepochs: 3\n", "YAML"),
    "titan.toml": (b"[optimizer]\nlr = 0.1\n[training]\nsteps = \n", "TOML"),
    "cut.gz": (gzip.compress(CSV.encode() * 3)[:9], "cut or damaged"),
    "flow.yaml": (b"model: {hidden_size: 64\ntraining: [1,\nb: }\n", "not valid YAML"),
    "prose.txt": (b"Dear all,\nthe run seems odd. Loss is high.\n", "no row with a step"),
    "days.csv": (b"date,loss\n2025-03-01,3.5\n2025-03-02,3.25\n2025-03-03,3.0\n", "columns: date, loss"),
    "schritt.csv": (b"Schritt;Verlust;Gradnorm\n1;5,5;1,5\n2;5,25;1,75\n3;5,0;2,0\n", "Schritt, Verlust, Gradnorm"),
    "digits.jsonl": (b'{"step": ' + b"9" * 6000 + b', "loss": 2.0}\n', "number of 6000 digits"),
    "glued.json": (b'{\n"lr": 1\n}\n{\n"lr": 2\n}\n', "several JSON documents"),
    "wandb.wandb": (b":W&B\xe1\xbe\x00", "no whole record"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    path = write(tmp_path / name, content)
    with pytest.raises(PlaybookError) as caught:
        read([path])
    text = str(caught.value)
    assert words in text and str(path) in text and "\n" not in text
    assert caught.value.problem.hint, "says how to mend it"


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    for path in ("nothing.csv", "pipe", "dangling", "folder", "*.nothing"):
        with pytest.raises(PlaybookError):
            read([tmp_path / path])
    with pytest.raises(PlaybookError):
        read(["/dev/zero"])
    with pytest.raises(PlaybookError):
        read([])


def test_a_folder_is_read_whole_and_steps_over_what_is_not_a_log(tmp_path: Path) -> None:
    write(tmp_path / "run/metrics.csv", CSV)
    write(tmp_path / "run/empty.csv", "")
    write(tmp_path / "run/notes/weights.bin", b"\1\2\3")
    write(tmp_path / "run/.git/config", "loss: 3")
    write(tmp_path / "run/.hidden.csv", "step,loss\n1,99\n")
    write(tmp_path / "run/ds_config.json", '{"train_batch_size": 8, "fp16": {"enabled": true}}')
    os.mkfifo(tmp_path / "run/pipe")
    (tmp_path / "run/loop").symlink_to(tmp_path / "run")
    run = read([tmp_path / "run"])
    assert run.get("loss").values.tolist() == [2.5, 2.4, 2.3]
    assert run.config["fp16.enabled"] is True
    assert [Path(f.path).name for f in run.files if f.problems] == ["empty.csv"]
    assert len(run.files) == 3


def test_a_folder_without_anything_readable_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "")
    with pytest.raises(PlaybookError, match="empty"):
        read([tmp_path])


def test_files_whose_names_hold_digits_that_are_no_number(tmp_path: Path) -> None:
    """`²` is a digit to `str.isdigit` and no number to `int`."""
    for name in ("1²3.csv", "143.csv", "rank②.csv"):
        write(tmp_path / name, CSV)
    assert read([tmp_path]).metrics


def test_globs_and_the_same_file_twice(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", CSV)
    run = read([str(tmp_path / "*.csv"), tmp_path / "a.csv"])
    assert len(run.files) == 1 and len(run.get("loss")) == 3


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(CSV.encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    run = read(["-"])
    assert run.files[0].path == "-" and run.get("loss").values.tolist() == [2.5, 2.4, 2.3]


def test_names_and_steps_can_be_mapped(tmp_path: Path) -> None:
    path = write(tmp_path / "odd.csv", "my_step,my_col,other\n10,2.5,1\n20,2.4,1\n30,2.3,1\n")
    run = read([path], rename={"my_col": "loss", "my_step": "step"})
    assert run.get("loss").steps.tolist() == [10, 20, 30]
    assert run.unmapped == ("other",)
    with pytest.raises(PlaybookError, match="no step column `nope`"):
        read([path], rename={"my_col": "loss"}, step="nope")


def test_ranks_from_files_folders_columns_and_names(tmp_path: Path) -> None:
    for rank, last in ((0, 2.3), (1, math.nan)):
        write(tmp_path / f"files/rank{rank}.jsonl", rows(2.5, 2.4, last))
        write(tmp_path / f"folders/worker{rank}/metrics.csv", CSV.replace("2.30", str(last)))
        write(tmp_path / f"plain/train.{rank}.csv", CSV.replace("2.30", str(last)))
    write(tmp_path / "names/log.csv", "step,rank0/loss,loss_rank_1\n1,2.5,2.5\n2,2.4,2.4\n3,2.3,nan\n")
    for folder in ("files", "folders", "plain", "names"):
        run = read([tmp_path / folder])
        assert run.ranks == [0, 1], folder
        assert math.isnan(run.get("loss", 1).values[-1]) and run.get("loss", 0).values[-1] == 2.3, folder


def test_one_file_of_one_rank_is_the_run(tmp_path: Path) -> None:
    run = read([write(tmp_path / "rank3.jsonl", rows(2.5, 2.4))])
    assert run.get("loss") is not None and run.ranks == []


def test_views_of_one_run_are_merged_and_the_longer_one_counts(tmp_path: Path) -> None:
    write(tmp_path / "metrics.csv", CSV)
    write(tmp_path / "log.jsonl", rows(2.5, 2.4, 2.3, 2.2, start=1))
    write(tmp_path / "args.json", '{"learning_rate": 0.1, "seed": 3}')
    run = read([tmp_path])
    assert len(run.get("loss")) == 4 and run.config["learning_rate"] == 0.1


def test_parts_of_one_run_are_joined(tmp_path: Path) -> None:
    write(tmp_path / "log.2.jsonl", rows(2.0, 1.9, 1.8, 1.7, start=4))
    write(tmp_path / "log.10.jsonl", rows(1.6, 1.5, start=8))
    write(tmp_path / "log.1.jsonl", rows(2.5, 2.4, 2.3, 2.2, 2.1))
    assert read([tmp_path]).get("loss").steps.tolist() == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]


def parts(folder: Path, **bounds: tuple[int, int, float]) -> list[int]:
    """Files of a loss from one step to another, that comes down from a first value; the steps as they are read."""
    for name, (start, stop, first) in bounds.items():
        losses = first - 0.02 * np.arange(stop - start)
        write(folder / f"{name}.jsonl", rows(*losses.tolist(), start=start))
    loss = read([folder]).get("loss")
    assert loss is not None and len(loss.seams) == len(bounds) - 1
    return [int(loss.steps[row]) for row in (0, *loss.seams)]


def test_parts_are_joined_by_their_steps_and_not_by_their_names(tmp_path: Path) -> None:
    assert parts(tmp_path / "a", b_before=(0, 100, 9.0), a_after=(100, 140, 7.0)) == [0, 100]
    assert parts(tmp_path / "b", z=(0, 100, 9.0), y=(90, 150, 7.2), x=(150, 190, 6.0)) == [0, 90, 150]
    read_after_first = [tmp_path / "a/a_after.jsonl", tmp_path / "a/b_before.jsonl"]
    assert read(read_after_first).get("loss").seams == (100,)


def test_parts_stay_in_their_order_where_a_counter_begins_again(tmp_path: Path) -> None:
    # the second file goes on with the loss of the first one
    assert parts(tmp_path / "a", log1=(500, 600, 9.0), log2=(0, 100, 7.0)) == [500, 0]
    # and here it is the beginning
    assert parts(tmp_path / "b", log1=(500, 600, 4.0), log2=(0, 100, 9.0)) == [0, 500]


def test_counted_steps_of_a_second_file_go_on_where_its_epochs_do(tmp_path: Path) -> None:
    for name, start in (("b.log", 0), ("a.log", 60)):
        lines = [
            f"{{'loss': {5 - 0.01 * (start + k)}, 'learning_rate': 1e-05, 'epoch': {(start + k) / 50}}}"
            for k in range(60)
        ]
        write(tmp_path / name, "\n".join([*lines, "RuntimeError: CUDA error: device-side assert triggered"]) + "\n")
    run = read([tmp_path])
    loss = run.get("loss")
    assert loss is not None and loss.steps.tolist() == list(range(1, 121)) and loss.seams == (60,)
    # two runs that both begin with the first epoch stay two runs
    write(tmp_path / "a.log", (tmp_path / "b.log").read_text().replace("'loss': ", "'loss': 1"))
    assert "another-run" in [p.code for f in read([tmp_path]).files for p in f.problems]


def test_pieces_of_a_log_that_share_no_step_are_not_compared_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_overlap", lambda one, other: pytest.fail("pairs of 300 files take minutes"))
    bounds = {f"log{k}": (10 * k, 10 * k + 10, 90.0 - k) for k in range(12)}
    assert parts(tmp_path, **bounds) == [10 * k for k in range(12)]


def test_what_files_tell_comes_in_the_order_of_their_steps(tmp_path: Path) -> None:
    for name, start in (("b.log", 0), ("a.log", 100)):
        lines = [f"iteration {start + i}/ 1000 | lm loss: {5.0 - 0.01 * (start + i):.4E} |" for i in range(50)]
        write(tmp_path / name, "\n".join([*lines, f"RuntimeError: CUDA error: of {name}"]) + "\n")
    told = [Path(e.origin.path).name for e in read([tmp_path]).events]
    assert told == ["b.log", "a.log"]


def test_checkpoints_that_carry_the_log_so_far_are_one_curve(tmp_path: Path) -> None:
    history = [{"step": i, "loss": 3.0 - i / 10} for i in range(1, 9)]
    for upto in (4, 8):
        state = {"global_step": upto, "log_history": history[:upto]}
        write(tmp_path / f"checkpoint-{upto}/trainer_state.json", json.dumps(state))
    run = read([tmp_path])
    assert run.get("loss").steps.tolist() == list(range(1, 9)) and not any(f.problems for f in run.files)


def test_another_run_in_the_folder_is_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path / "a/metrics.csv", CSV)
    write(tmp_path / "a/args.json", '{"learning_rate": 0.1, "seed": 1}')
    write(tmp_path / "b/metrics.csv", "step,loss,lr\n1,2.90,9\n2,2.80,9\n3,nan,9\n")
    write(tmp_path / "b/args.json", '{"learning_rate": 0.9, "seed": 2}')
    run = read([tmp_path])
    assert run.get("loss").values.tolist() == [2.5, 2.4, 2.3] and run.get("lr") is None
    assert run.config["learning_rate"] == 0.1
    assert [p.code for f in run.files for p in f.problems] == ["another-run"]


def test_event_files_of_one_folder_are_one_run(tmp_path: Path) -> None:
    for number, start in ((1, 0), (2, 2), (10, 0)):
        records = [event(start + i, simple("train/loss", 3.0 - i)) for i in range(3)]
        write(tmp_path / f"events.out.tfevents.{number}.host", version() + b"".join(records))
    loss = read([tmp_path]).get("loss")
    assert loss.steps.tolist() == [0, 1, 2, 2, 3, 4, 0, 1, 2] and len(loss.restarts) == 1


def test_a_new_event_file_with_the_version_only(tmp_path: Path) -> None:
    write(tmp_path / "events.out.tfevents.1.host", version() + event(1, simple("loss", 2.0)))
    write(tmp_path / "events.out.tfevents.2.host", version())
    run = read([tmp_path])
    assert len(run.get("loss")) == 1 and "no record yet" in run.files[1].problems[0].what


def test_several_runs_of_a_tracker_are_kept_apart(tmp_path: Path) -> None:
    for run, time, loss in (("aaa", 1700000000000, 9.0), ("bbb", 1800000000000, 5.0)):
        write(tmp_path / f"mlruns/0/{run}/metrics/loss", f"{time} {loss} 0\n{time} {loss - 1} 1\n")
        write(tmp_path / f"mlruns/0/{run}/params/lr", "0.1" if run == "bbb" else "0.9")
        write(tmp_path / f"mlruns/0/{run}/meta.yaml", f"run_id: {run}\nartifact_uri: x\nstatus: 4\n")
    run = read([tmp_path / "mlruns"])
    assert run.get("loss").values.tolist() == [5.0, 4.0] and run.config["lr"] == 0.1
    assert any(p.code == "other-runs" for f in run.files for p in f.problems)


def test_a_wandb_folder_is_one_run(tmp_path: Path) -> None:
    for run_id, time, loss in (("old", 1.6e9, 9.0), ("new", 1.7e9, 5.0)):
        folder = tmp_path / f"wandb/run-2026-{run_id}"
        records = [
            wandb_files.run(run_id, {"lr": loss}),
            wandb_files.history({"loss": loss, "_timestamp": time}, step=3),
        ]
        write(folder / f"run-{run_id}.wandb", wandb_files.run_file(records))
        write(folder / "files/wandb-summary.json", json.dumps({"loss": loss, "_step": 3}))
        write(
            folder / "files/config.yaml", f"wandb_version: 1\nbatch_size:\n  value: {int(loss)}\nlr:\n  value: {loss}\n"
        )
        write(folder / "files/requirements.txt", "torch==2.8\n")
    run = read([tmp_path / "wandb"])
    assert run.get("loss").values.tolist() == [5.0] and run.config["batch_size"] == 5
    assert not any("run-2026-old" in f.path for f in run.files)


def test_a_wandb_record_over_several_blocks_and_a_killed_run(tmp_path: Path) -> None:
    records = [
        wandb_files.history({"loss": 5.0, "note": "x" * 100_000}, step=1),
        wandb_files.history({"loss": 4.0}, step=2),
    ]
    whole = wandb_files.run_file([*records, wandb_files.history({"loss": 3.0, "note": "x" * 100_000}, step=3)])
    assert read([write(tmp_path / "a.wandb", whole)]).get("loss").values.tolist() == [5.0, 4.0, 3.0]
    run = read([write(tmp_path / "b.wandb", whole[: 5 * wandb_files.BLOCK])])
    assert run.get("loss").values.tolist() == [5.0, 4.0] and run.files[0].problems[0].code == "cut"


def test_files_beside_a_run_and_hydra(tmp_path: Path) -> None:
    write(tmp_path / "metrics.csv", CSV)
    write(tmp_path / "tokenizer.json", "{")
    write(tmp_path / "README.md", "# A model")
    write(tmp_path / ".hydra/config.yaml", "optim:\n  lr: 0.1\nbatch_size: 8\n")
    write(tmp_path / ".hydra/hydra.yaml", "hydra:\n  run:\n    dir: out\nlr: 9\n")
    run = read([tmp_path])
    assert run.config == {"optim.lr": 0.1, "batch_size": 8} and not any(f.problems for f in run.files)


def test_ranks_that_share_a_file_without_a_label_are_told(tmp_path: Path) -> None:
    text = "step,loss\n" + "".join(f"{step},{2.5 + rank / 10}\n" for step in range(5) for rank in range(4))
    run = read([write(tmp_path / "a.csv", text)])
    assert [p.code for p in run.files[0].problems] == ["unlabelled-ranks"] and len(run.get("loss")) == 20


def test_packed_files_by_content(tmp_path: Path) -> None:
    for name, data in (("a.gz", gzip.compress(CSV.encode())), ("b.csv", zstandard.compress(CSV.encode()))):
        assert read([write(tmp_path / name, data)]).get("loss").values.tolist() == [2.5, 2.4, 2.3]


def test_a_cut_packed_file_gives_its_beginning(tmp_path: Path) -> None:
    text = "step,loss\n" + "".join(f"{i},{2 + math.sin(i):.6f}\n" for i in range(5000))
    data = gzip.compress(text.encode())
    run = read([write(tmp_path / "a.csv.gz", data[: len(data) // 2])])
    assert 1000 < len(run.get("loss")) < 4999
    assert any("cut or damaged" in p.what for p in run.files[0].problems)


def test_a_decompression_bomb_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(b"step,loss\n" + b"1,2.5\n" * 60_000_000, 9)
    assert len(data) < 2_000_000
    with pytest.raises(PlaybookError, match="unpacks to more than"):
        read([write(tmp_path / "bomb.csv.gz", data)])


def test_nul_holes_gbk_and_endless_lines(tmp_path: Path) -> None:
    hole = write(tmp_path / "hole.csv", b"\0" * 200_000 + CSV.encode() + b"4,2.2\0\0" + b"5\n")
    assert read([hole]).get("loss").values.tolist() == [2.5, 2.4, 2.3, 2.25]
    gbk = write(tmp_path / "gbk.csv", "step,loss,备注\n1,2.5,好\n2,nan,坏\n".encode("gbk"))
    assert read([gbk]).get("loss").values[0] == 2.5
    endless = write(tmp_path / "endless.jsonl", rows(2.5, 2.4) + "x" * 5_000_000 + "\n" + rows(2.3, start=2))
    run = read([endless])
    assert run.get("loss").values.tolist() == [2.5, 2.4, 2.3] and run.files[0].problems[0].line == 3
    assert max(len(text) for _, text in Source(endless, "x").lines()) <= 1 << 20


@pytest.mark.parametrize("long", [range(1), range(3, 4), range(6)], ids=["first", "between", "all"])
@pytest.mark.parametrize("first", [True, False], ids=["text-first", "numbers-first"])
def test_rows_with_long_texts(tmp_path: Path, long: range, first: bool) -> None:
    """A table of samples or a prompt beside the numbers makes a row of megabytes."""
    lines = []
    for step in range(6):
        text = {"samples": '\u00e9\\"x' * (400_000 if step in long else 1)}
        numbers = {"step": step, "loss": 2.5 - step / 10}
        lines.append(json.dumps(text | numbers if first else numbers | text))
    run = read([write(tmp_path / "log.jsonl", "\n".join(lines) + "\n")])
    assert run.files[0].format == "jsonl" and not run.files[0].problems
    assert run.get("loss").values.tolist() == [2.5 - step / 10 for step in range(6)]
    assert run.get("loss").lines.tolist() == [1, 2, 3, 4, 5, 6]


def test_a_row_without_end_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from playbook.readers.documents import json_lines

    monkeypatch.setattr(json_lines, "MAX_ROW", 4 << 20)
    endless = rows(2.5, 2.4) + '{"step": 2, "text": "' + "x" * (6 << 20) + '", "loss": 9.0}\n' + rows(2.3, start=3)
    run = read([write(tmp_path / "log.jsonl", endless)])
    assert run.get("loss").values.tolist() == [2.5, 2.4, 2.3]
    assert [(problem.line, problem.code) for problem in run.files[0].problems] == [(3, "too-long")]


def test_a_progress_bar_line_is_many_lines(tmp_path: Path) -> None:
    bar = write(tmp_path / "bar.log", b"".join(b"\rstep %d loss 2.5" % i for i in range(200_000)) + b"\n")
    assert sum(1 for _ in Source(bar, "x").lines()) == 200_000


@pytest.mark.parametrize(
    ("last", "before", "is_torn"),
    [
        ("2.3", ["2.5012", "2.4420"], True),
        ("2.3991", ["2.5012", "2.4420"], False),
        ("2.", ["2.5"], True),
        ("1e-", ["1e-05"], True),
        ("1e-0", ["1e-05"], True),
        ("1.5", ["1.5e-05", "1.4e-05"], True),
        ("9.97", ["0.0001", "0.00012"], True),
        ("nan", ["2.5"], False),
        ("na", ["2.5"], True),
        ("-inf", ["2.5"], False),
        ("104", ["1048", "1052"], True),
        ("1060", ["1048", "1052"], False),
        ("2.5", [], True),
    ],
)
def test_a_torn_number_is_known_by_its_column(last: str, before: list[str], is_torn: bool) -> None:
    assert torn(last, before) is is_torn


def test_a_cut_last_line_is_dropped_and_told(tmp_path: Path) -> None:
    run = read([write(tmp_path / "a.csv", "step,loss\n1,2.5031\n2,2.4420\n3,2.")])
    assert run.get("loss").steps.tolist() == [1, 2] and run.files[0].problems[0].line == 4
    run = read([write(tmp_path / "b.csv", "step,loss\n1,2.5031\n2,2.4420\n3,2.3991")])
    assert run.get("loss").steps.tolist() == [1, 2, 3]
    run = read([write(tmp_path / "c.jsonl", rows(2.5, 2.4) + '{"step": 2, "loss": 2.')])
    assert run.get("loss").steps.tolist() == [0, 1] and run.files[0].problems[0].code == "cut"


def test_rows_that_do_not_fit_and_headers_that_come_again(tmp_path: Path) -> None:
    text = "step,loss,lr\n" + "".join(f"{i},{3 - i / 100},0.1\n" for i in range(20)) + "20,2.8\n" + "21,2.79,0.1,7\n"
    text += "step,loss,lr\n0,3.1,0.1\n" + "step,lr,loss,grad_norm\n1,0.2,3.0,9.5\n"
    run = read([write(tmp_path / "a.csv", text)])
    assert run.get("loss").values[-2:].tolist() == [3.1, 3.0] and run.get("lr").values[-1] == 0.2
    assert len(run.get("loss")) == 22 and len(run.get("loss").restarts) == 1
    assert [p.line for p in run.files[0].problems] == [23, 22]


def test_nan_infinity_and_missing_stay_three_things(tmp_path: Path) -> None:
    csv = write(tmp_path / "a.csv", "step,loss,grad_norm\n1,nan,\n2,-inf,3.0\n3,2.5,Infinity\n")
    lines = '{"step": 1, "loss": NaN, "grad_norm": null}\n{"step": 2, "loss": "-inf", "grad_norm": "3.0"}\n'
    lines += '{"step": 3, "loss": 2.5, "grad_norm": Infinity}\n'
    for path in (csv, write(tmp_path / "b.jsonl", lines)):
        run = read([path])
        assert math.isnan(run.get("loss").values[0]) and run.get("loss").values[1] == -math.inf
        assert run.get("grad_norm").steps.tolist() == [2, 3] and run.get("grad_norm").values[1] == math.inf


def test_huge_and_odd_numbers(tmp_path: Path) -> None:
    lines = (
        '{"step": 1, "loss": 1' + "0" * 400 + ', "lr": true}\n{"step": 1e3, "loss": 2.5}\n{"step": 2.5, "loss": 2.4}\n'
    )
    lines += '{"step": 1e300, "loss": 2.3}\n{"step": null, "loss": [2.2]}\n'
    loss = read([write(tmp_path / "a.jsonl", lines)]).get("loss")
    assert loss.values.tolist() == [math.inf, 2.5, 2.4, 2.3] and loss.steps.tolist() == [1, 1000, 1000, 1000]


@pytest.mark.parametrize(
    "middle",
    [
        "",
        "step,loss,lr,note\r\n",
        "step,lr,loss,note\r\n",
        "<<<<<<< HEAD\r\n",
        "# resumed\r\n",
        "\r\n",
        '5,2.5,0.1,"a, b"\r\n',
        "5,n/a,0.1,x\r\n",
        "5,,nan,x\r\n",
    ],
)
def test_large_tables_with_something_in_the_middle(
    middle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "step,loss,lr,note\r\n" + "".join(f"{i},{3 - i / 1e4},0.1,x\r\n" for i in range(3000))
    text += middle + "".join(f"{i},{2.5 - i / 1e4},0.2,y\r\n" for i in range(2000))
    path = write(tmp_path / "a.csv", text)
    small = read([path])
    from playbook.readers.tables import csv_table

    monkeypatch.setattr(csv_table, "_LARGE", 1)
    large = read([path])
    for key, series in small.series.items():
        np.testing.assert_array_equal(large.series[key].steps, series.steps)
        np.testing.assert_array_equal(large.series[key].values, series.values)
        if large.series[key].lines is not None:
            np.testing.assert_array_equal(large.series[key].lines, series.lines)
    assert small.get("loss").values[-1] == (0.2 if middle.startswith("step,lr") else 2.5 - 1999 / 1e4)


@pytest.mark.parametrize(("kind", "way"), [("csv", ""), ("jsonl", "columns"), ("jsonl", "duckdb")])
def test_large_files_read_as_small_ones(kind: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways of large files and the line by line way give the same series, lines and problems."""
    rng = np.random.default_rng(3)
    text = [] if kind == "jsonl" else ["step,loss,grad_norm,rank,note\n"]
    for step in range(3000):
        for rank in range(2):
            loss = "NaN" if step == 1500 else repr(2 + rng.random())
            if kind == "csv":
                text.append(f"{step},{loss.lower()},{'' if step % 3 else 0.5},{rank},abc\n")
            else:
                grad = "" if step % 3 else ', "opt": {"grad_norm": "0.5"}'
                text.append(f'{{"step": {step}, "loss": {loss}{grad}, "rank": {rank}, "note": "abc"}}\n')
        if kind == "jsonl" and step % 1000 == 999:
            text += [f'{{"step": {step}, "eval_loss": 2.5}}\n', "not json\n"]
            text += [f'{{"step": {step}, "loss": "n/a", "rank": 1, "opt": {{"grad_norm": 3.5}}}}\n']
    path = write(tmp_path / f"a.{kind}", "".join(text) + ("3000,2." if kind == "csv" else '{"step": 3000, "lo'))
    small = read([path])
    from playbook.readers.documents import json_columns, json_lines
    from playbook.readers.tables import csv_table

    if way == "duckdb":
        monkeypatch.setattr(json_columns, "read", lambda source, builder: False)
    monkeypatch.setattr(csv_table, "_LARGE", 1)
    monkeypatch.setattr(json_lines, "_LARGE", 1)
    monkeypatch.setattr(json_lines, "_HUGE", 1)
    large = read([path])
    assert large.metrics == small.metrics and large.ranks == small.ranks == [0, 1]
    for key, series in small.series.items():
        other = large.series[key]
        np.testing.assert_array_equal(other.steps, series.steps)
        np.testing.assert_array_equal(other.values, series.values)
        np.testing.assert_array_equal(other.lines, series.lines)
    assert [p.code for p in large.files[0].problems] == [p.code for p in small.files[0].problems]
    assert large.unmapped == small.unmapped


def test_names_of_the_field_become_canonical() -> None:
    pairs = {
        "loss": (
            "train/loss",
            "lm loss",
            "total_loss",
            "train/CrossEntropyLoss",
            "Training Loss",
            "loss_metrics/global_avg_loss",
        ),
        "eval_loss": (
            "val_loss",
            "eval/loss",
            "validation loss",
            "valid_loss",
            "test_loss",
            "eval/c4/CrossEntropyLoss",
        ),
        "grad_norm": (
            "grad_norm",
            "gnorm",
            "optim/total_grad_norm",
            "Grad-Norm",
            "actor/grad_norm",
            "grad_2.0_norm_total",
        ),
        "lr": (
            "learning_rate",
            "optim/learning_rate_group0",
            "x/lr0",
            "lr/pg0",
            "lr-AdamW",
            "train_lr",
            "optim/LR (group 0)",
        ),
        "loss_scale": ("loss_scale", "loss scale", "train/loss_scale", "grad_scale"),
        "throughput": ("tokens_per_second", "throughput/device/tokens_per_second", "wps", "tok/s", "time/fps"),
        "attention_logit_max": ("layers.3.attn.max_logit", "attn_logit_max/layer_5"),
        "gpu_temp": ("system.gpu.1.temp", "temperature.gpu"),
    }
    for metric, raws in pairs.items():
        for raw in raws:
            assert canonical([raw], {}) == {raw: metric}, raw
    for raw in ("best_loss", "loss_ema", "lr_warmup_steps", "bbox/AP", "train_loss_avg10", "accuracy", "val/lr"):
        assert canonical([raw], {}) == {}, raw
    assert canonical(["train_loss", "loss", "train/loss"], {}) == {"loss": "loss"}
    assert canonical(["loss", "train/loss"], {}, {"loss": 1, "train/loss": 500}) == {"train/loss": "loss"}
    assert canonical(["loss", "mine"], {"mine": "loss"}) == {"mine": "loss"}
    assert set(canonical(["layers.0.attn.max_logit", "layers.1.attn.max_logit"], {}).values()) == {
        "attention_logit_max"
    }
    ranks = {"rank3/loss": 3, "loss_rank_3": 3, "loss": None, "gpu.2.temp": 2, "loss/rank12": 12}
    assert {raw: rank_in(raw)[1] for raw in ranks} == ranks
    assert step_names(["epoch", "iter", "_step", "loss"]) == ["_step", "iter"]


def test_a_family_of_layers_is_its_highest_member(tmp_path: Path) -> None:
    text = "step,layers.0.attn.max_logit,layers.1.attn.max_logit\n1,10,12\n2,11,nan\n3,14,13\n"
    series = read([write(tmp_path / "a.csv", text)]).get("attention_logit_max")
    assert series.values[0] == 12 and math.isnan(series.values[1]) and series.values[2] == 14


def test_reading_stays_light_for_small_files(tmp_path: Path) -> None:
    """No heavy import for a small table or JSON: duckdb alone would cost more than the reading."""
    import subprocess

    code = (
        "import sys; from playbook.readers import read\n"
        "read([sys.argv[1]]); print(sorted({'duckdb', 'pandas', 'rich', 'sqlmodel',"
        "'networkx', 'textual', 'pydantic', 'zstandard'} & set(sys.modules)))"
    )
    path = write(tmp_path / "a.csv", "step,loss\n1,2.5\n2,2.4\n")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_table_without_a_step_column_is_refused_unless_its_rows_are_said_to_count(tmp_path: Path) -> None:
    path = tmp_path / "loss.csv"
    path.write_text("loss,acc\n2.0,0.1\n1.9,0.2\n1.8,0.3\n")
    with pytest.raises(PlaybookError, match="no column counts steps"):
        read([str(path)])
    run = read([str(path)], step="#")
    assert list(run.series["loss", None].steps) == [0, 1, 2]


def test_a_configuration_in_flow_style_is_read(tmp_path: Path) -> None:
    text = "model: {name: llama-7b, hidden_size: 4096}\ntraining: {lr: 3.0e-4, warmup_steps: 2000, precision: bf16}\n"
    run = read([write(tmp_path / "run.yaml", text)])
    assert run.files[0].format == "config"
    assert run.config["training.lr"] == 3e-4 and run.config["training.precision"] == "bf16"


def test_aliases_in_a_printed_configuration_are_read_unless_they_stand_for_billions(tmp_path: Path) -> None:
    rows = "step 1 loss 2.5\nstep 2 loss 2.25\nstep 3 loss 2.0\n"
    plain = "betas: &id001 [0.9, 0.95]\nlr: 0.1\nlate:\n  betas: *id001\n"
    known = read([write(tmp_path / "plain.log", ("Full config:\n" + plain + rows).encode())])
    assert known.config["late.betas"] == [0.9, 0.95] and known.config["lr"] == 0.1
    names = "abcdefghij"
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in pairwise(names))
    hostile = read([write(tmp_path / "bomb.log", ("Full config:\n" + bomb + rows).encode())])
    assert hostile.config == {} and len(hostile.series["loss", None]) == 3


def test_what_nobody_reads_is_told_in_words_of_the_field(tmp_path: Path) -> None:
    """Not the names of our modules: which kinds of files there are stands in the documentation."""
    with pytest.raises(PlaybookError) as error:
        read([write(tmp_path / "list.yaml", "- a\n- b\n")])
    assert len(str(error.value)) < 300 and "nvidia_smi_q" not in str(error.value)


@pytest.mark.parametrize("columns", [6_000, 30_000])
def test_thousands_of_columns(tmp_path: Path, columns: int) -> None:
    """A header longer than the part of a file that is looked at first."""
    names = [f"layer.{place}.weight.std" for place in range(columns)]
    rows = [f"{step},{2 - step / 8},{','.join(['1'] * columns)}\n" for step in range(12)]
    run = read([write(tmp_path / "wide.csv", f"step,loss,{','.join(names)}\n{''.join(rows)}")])
    assert run.one("loss") is not None and len(run.one("loss")) == 12
    logged = "".join(json.dumps({"step": s, "loss": 2 - s / 8, **dict.fromkeys(names, 1)}) + "\n" for s in range(12))
    run = read([write(tmp_path / "wide.jsonl", logged)])
    assert run.one("loss") is not None and len(run.one("loss")) == 12


@pytest.mark.parametrize("said", ["inf", "-inf", "1e999", "nan", "1e308"])
def test_a_parameter_of_mlflow_may_be_infinite(tmp_path: Path, said: str) -> None:
    run = tmp_path / "run"
    (run / "params").mkdir(parents=True)
    (run / "metrics").mkdir()
    (run / "meta.yaml").write_text("run_id: 31b\nstatus: 3\nend_time: 1700000000000\n")
    (run / "params" / "max_grad_norm").write_text(said)
    (run / "metrics" / "loss").write_text("".join(f"{1700000000000 + k} {3 - k / 100} {k}\n" for k in range(60)))
    found = read([run])
    assert found.one("loss") is not None and "max_grad_norm" in found.config


ODD_LINES = {"blanks": " " * 100_000, "blanks within": "    A" + " " * 100_000 + "!", "words": "    " + "a " * 50_000}


@pytest.mark.parametrize("odd", ODD_LINES.values(), ids=ODD_LINES)
def test_a_long_line_in_what_nvidia_smi_says_takes_no_time(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "smi.txt"
    head = "==============NVSMI LOG==============\nTimestamp : Mon\nDriver Version : 550.54\n"
    file.write_text(head + f"GPU 00000000:1B:00.0\n    Temperature\n        GPU Current Temp    : 41 C\n{odd}\n")
    assert "gpu_temp" in {metric for metric, _ in read([file]).series}  # with the square of the length it takes minutes
