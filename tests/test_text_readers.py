"""Text logs and system-side files: cut, coloured, damaged, and the laws that every reader keeps."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playbook.errors import PlaybookError
from playbook.readers import read, readers
from playbook.readers.base import RunBuilder
from playbook.readers.logs import megatron_columns, text_log
from tests.reading import logged, parsed, samples

MINE = (
    "megatron", "hf_print", "fairseq", "torchtitan", "litgpt", "olmo", "mm_text", "lightning_bar", "deepspeed",
    "nanogpt", "kernel_log", "nvidia_smi_q", "nvidia_smi", "dcgm", "ethtool", "infiniband", "fabric_manager",
    "nccl_log", "text_log",
)  # fmt: skip
SAMPLES = samples(*MINE)
IDS = [f"{path.parent.name}/{path.name}" for path in SAMPLES]


def _logged(builder: RunBuilder) -> set[tuple[str, int, str]]:
    """(raw name, step, value) of everything that was taken, whoever logged it."""
    return {
        (raw, int(step), repr(float(value))) for (raw, _), points in logged(builder).items() for step, value in points
    }


def _points(builder: RunBuilder) -> dict[tuple[str, int | None], list[tuple[int, str]]]:
    series, _ = builder.finish()
    return {
        key: [(int(step), repr(float(value))) for step, value in zip(one.steps, one.values, strict=True)]
        for key, one in series.items()
    }


def _cuts(data: bytes) -> Iterator[int]:
    """Every byte of a small sample, a fixed choice of a larger one."""
    places = range(1, len(data))
    yield from places if len(data) <= 1_500 else sorted(random.Random(len(data)).sample(places, 400))


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_cut_file_never_gives_a_wrong_number(sample: Path, tmp_path: Path) -> None:
    """Cut anywhere: no exception, and every point is one of the whole file."""
    data = sample.read_bytes()
    name = sample.parent.name
    whole = _logged(parsed(data, tmp_path / sample.name, name))
    for cut in _cuts(data):
        try:
            part = _logged(parsed(data[:cut], tmp_path / sample.name, name))
        except PlaybookError:
            continue
        wrong = part - whole
        assert not wrong or name in BY_CONTEXT, (cut, sorted(wrong)[:3], data[max(0, cut - 60) : cut])


# Formats that number their rows from the whole file, or log sums whose parts look whole.
BY_CONTEXT = frozenset(("hf_print", "ethtool", "infiniband"))


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_colours_crlf_and_noise_change_nothing(sample: Path, tmp_path: Path) -> None:
    data = sample.read_bytes()
    name = sample.parent.name
    plain = _points(parsed(data, tmp_path / "plain", name))
    if b"\r" not in data:
        assert _points(parsed(data.replace(b"\n", b"\r\n"), tmp_path / "crlf", name)) == plain
    if name in MINE[:10]:
        coloured = b"\n".join(b"\x1b[32m" + line + b"\x1b[0m" if line else line for line in data.split(b"\n"))
        assert _points(parsed(coloured, tmp_path / "colour", name)) == plain


@given(data=st.binary(max_size=400), which=st.sampled_from(MINE))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes, which: str) -> None:
    reader = next(r for r in readers() if which == r.NAME)
    assert 0 <= reader.sniff(data, Path("x.log")) <= 100
    try:
        parsed(data, tmp_path / "fuzz", which)
    except PlaybookError as error:
        assert "\n" not in str(error)


@given(seed=st.integers(0, 2**32), which=st.sampled_from(range(len(SAMPLES))))
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mangled_samples_are_read_or_refused(tmp_path: Path, seed: int, which: int) -> None:
    """Bytes dropped, doubled, swapped and overwritten, lines shuffled: never a traceback, never an absurd step."""
    rng = random.Random(seed)
    data = bytearray(SAMPLES[which].read_bytes())
    for _ in range(rng.randint(1, 12)):
        at = rng.randrange(len(data) or 1)
        kind = rng.randrange(5)
        if kind == 0:
            del data[at : at + rng.randint(1, 30)]
        elif kind == 1:
            data[at:at] = data[at : at + rng.randint(1, 30)]
        elif kind == 2:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 3:
            data[at:at] = rng.choice(
                [
                    b"\0\0",
                    b"\r",
                    b"\n",
                    b"\x1b[31",
                    b"9" * 40,
                    b"nan",
                    b"-inf",
                    b"1e999",
                    b"|",
                    b"\xff\xfe",
                    b"{'",
                    b"[[",
                ]
            )
        else:
            lines = bytes(data).split(b"\n")
            rng.shuffle(lines)
            data = bytearray(b"\n".join(lines))
    try:
        builder = parsed(bytes(data), tmp_path / "mangled", SAMPLES[which].parent.name)
    except PlaybookError as error:
        assert "\n" not in str(error)
        return
    for points in _points(builder).values():
        assert all(abs(step) <= 2**62 for step, _ in points)


@given(order=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_labelled_ranks_may_interleave_in_any_order(tmp_path: Path, order: random.Random) -> None:
    lines = {
        rank: [f"[rank{rank}]: step {step} loss {5 - step / 10 + rank / 100:.4f}" for step in range(1, 9)]
        for rank in range(4)
    }
    mixed: list[str] = []
    while any(lines.values()):
        rank = order.choice([rank for rank, left in lines.items() if left])
        mixed.append(lines[rank].pop(0))
    points = _points(parsed("\n".join([*mixed, ""]).encode(), tmp_path / "ranks", "text_log"))
    for rank in range(4):
        assert points["loss", rank] == [(step, repr(round(5 - step / 10 + rank / 100, 4))) for step in range(1, 9)]


@given(copies=st.integers(1, 20), order=st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_all_ranks_repeat_is_taken_once(tmp_path: Path, copies: int, order: random.Random) -> None:
    lines = []
    for step in range(1, 30):
        lines += [f"step {step} | loss {3 + step / 7:.3f} | lr 1e-4"] * copies
    points = _points(parsed("\n".join([*lines, ""]).encode(), tmp_path / "copies", "text_log"))
    assert [step for step, _ in points["loss", None]] == list(range(1, 30))
    labelled = [f"[rank{order.randrange(64)}]: {line}" for line in lines[::copies] for _ in range(1)]
    points = _points(parsed("\n".join([*labelled, ""]).encode(), tmp_path / "labels", "text_log"))
    assert sum(len(found) for (metric, _), found in points.items() if metric == "loss") == 29


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gbk"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "train.log"
    path.write_bytes("编译器 版本 9\nstep 1 loss 2.5 lr 1e-4\nstep 2 loss nan lr 1e-4\n".encode(encoding))
    run = read(path)
    assert run.series["loss", None].steps.tolist() == [1, 2]
    assert np.isnan(run.series["loss", None].values[1])


def test_a_last_line_without_end_is_told_and_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step 1 loss 2.5\nstep 2 loss 2.4\nstep 3 loss 2.3")
    run = read(path)
    assert run.series["loss", None].steps.tolist() == [1, 2]
    assert [problem.code for problem in run.files[0].problems] == ["cut"]


def test_losses_of_adversaries_are_rows(tmp_path: Path) -> None:
    """The log of image translation: a generator's loss, counted by images of an epoch."""
    lines = [
        f"(epoch: {e}, iters: {i}, time: 0.214, data: 0.003) G_GAN: {1.5 + i / 1000:.3f} D_real: 0.412 D_fake: 0.398 \n"
        for e in (1, 2)
        for i in (100, 200, 300)
    ]
    path = tmp_path / "loss_log.txt"
    path.write_text("".join(lines))
    loss = read(path).get("loss")
    assert loss is not None and loss.raw == "G_GAN"
    assert loss.values.tolist() == [1.6, 1.7, 1.8] * 2 and (np.diff(loss.steps) > 0).all()


def test_a_text_without_rows_or_notable_lines_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.log"
    path.write_text("Dear diary!\nthe weather was fine at 10:00:00 and nothing happened.\n")
    with pytest.raises(PlaybookError, match="no row"):
        read(path)


def _megatron_log(rng: random.Random) -> bytes:
    """A log in one of Megatron's shapes, with everything between its rows that real ones have."""
    dated = rng.random() < 0.5
    label = rng.choice(["", "", "[default7]:", "7: "])
    ending = rng.choice(["\n", "\r\n"])
    lines = ["using world size: 8, data-parallel size: 8", "  lr .......... 0.0003"]
    step = rng.choice([1, 9_990, 99_999_990])
    for i in range(rng.randint(0, 120)):
        step += 1 if rng.random() < 0.98 else -rng.randint(0, 30)
        stamp = f" [2025-03-12 09:31:{i % 60:02d}.{rng.randrange(10**6):06d}]" if dated else ""
        loss = rng.choice(
            ["nan", "inf", f"{rng.gauss(3, 2):.6E}", f"{abs(rng.gauss(3, 2)):.6E}", f"{rng.gauss(3, 1):.6E}"]
        )
        skipped = rng.random() < 0.05
        row = (
            f"{label}{stamp} iteration {max(0, step):8d}/{10**8:8d} | consumed samples: {step * 128:12d} |"
            f" elapsed time per iteration (ms): {abs(rng.gauss(900, 300)):.1f} |"
            f" learning rate: {rng.random() * 10 ** -rng.randrange(1, 9):.6E} | global batch size: {128:5d} |"
            + ("" if skipped else f" lm loss: {loss} |")
            + f" loss scale: {2.0 ** rng.randrange(20):.1f} |"
            + ("" if skipped else f" grad norm: {rng.choice(['nan', '0.000', f'{abs(rng.gauss(1, 9)):.3f}'])} |")
            + f" number of skipped iterations: {int(skipped):3d} | number of nan iterations: {0:3d} |"
        )
        kind = rng.random()
        if kind < 0.02:
            row = row[: rng.randrange(len(row))]
        elif kind < 0.04:
            row = row[: rng.randrange(len(row))] + row
        elif kind < 0.05:
            row = f"\x1b[32m{row}\x1b[0m"
        elif kind < 0.06:
            cut = row.index("| learning")
            row = row[:cut] + ending + row[cut:]
        lines.append(row)
        if rng.random() < 0.1:
            lines.append(
                rng.choice(
                    [
                        "time (ms) | forward-compute: 1.0 | batch-generator: 170.25 | optimizer: 2.0",
                        f" validation loss at iteration {step} | lm loss value: 2.8E+00 | lm loss PPL: 1.6E+01 | ",
                        f"saving checkpoint at iteration {step:7d} to /ckpt",
                        "",
                        "WARNING: found NaN in local grad norm in backward pass",
                    ]
                )
            )
    return (ending.join(lines) + ending).encode()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_megatron_columns_are_what_single_lines_give(tmp_path: Path, seed: int) -> None:
    data = _megatron_log(random.Random(seed))
    fast = parsed(data, tmp_path / "log", "megatron")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(megatron_columns, "block", lambda data: None)
        slow = parsed(data, tmp_path / "log", "megatron")
    assert _points(fast) == _points(slow)
    assert fast.rows == slow.rows
    assert [(e.kind, e.text, e.step, e.origin.line) for e in fast.events] == [
        (e.kind, e.text, e.step, e.origin.line) for e in slow.events
    ]
    mine, its = fast.finish()[0], slow.finish()[0]
    assert all(np.array_equal(mine[key].lines, its[key].lines) for key in mine)
    assert fast.config == slow.config


_TEMPLATES = (
    "step {i} | loss {f} | lr {e}",
    "Epoch {s} Step {i}: loss={f} acc={f} lr={e}",
    "Epoch: [{s}][{i}/500]\tTime {f} ({f})\tLoss {f} ({f})\tAcc@1 {f} ({f})",
    "[{i}/9000] train_loss: {f}, grad_norm: {f}ms, tokens: {t}",
    "2024-01-01 10:00:{d} INFO trainer - global_step={i} loss={f} tokens/s={t} mem={f}GB",
    "epoch {s}, loss {f}, val_loss {f}",
    "[rank{s}]: iteration {i} loss: {f} loss_scale: {t} kl: {f}",
    "| epoch {s} | {i}/ 500 batches | lr {f} | ms/batch {f} | loss {f} | ppl {f}",
    "validation loss: {f}",
    "loading checkpoint of step {i} loss {f}",
    "iter {i} step {i} loss {f}step {i} loss {f}",
    "resnet50 layer_{s} step={i}, loss_{s}={f}, reward (mean): {f}",
)


def _any_line(rng: random.Random) -> str:
    def number(hit: re.Match[str]) -> str:
        kind = hit[1]
        if kind == "i":
            return str(rng.choice([0, 1, 10, 499, 1000, 12_345, 10**9]))
        if kind == "s":
            return str(rng.randrange(4))
        if kind == "d":
            return f"{rng.randrange(60):02d}"
        if kind == "t":
            return f"{rng.randrange(10**7):,}"
        if kind == "e":
            return f"{rng.random():.1e}"
        return rng.choice(
            ["nan", "inf", "-inf", f"{rng.gauss(0, 3):.4f}", str(rng.randrange(9)), f"{rng.random():.3E}", ".5"]
        )

    return re.sub(r"\{(\w)\}", number, rng.choice(_TEMPLATES))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_known_shapes_are_read_as_new_ones(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = "\n".join([*(_any_line(rng) for _ in range(60)), ""]).encode()
    quickly = parsed(data, tmp_path / "log", "text_log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_log, "FAMILIES", text_log.FAMILIES[1:])
        slowly = parsed(data, tmp_path / "log", "text_log")
    assert _points(quickly) == _points(slowly)
    assert quickly.rows == slowly.rows


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_long_head_does_not_hide_the_rows(sample: Path, tmp_path: Path) -> None:
    """Warnings of a compiler fill the first look: whoever claims the log then finds the same rows."""
    if sample.parent.name not in MINE[:10] or sample.name == "no_bars.log":
        return
    noise = "/opt/torch/utils/cpp_extension.py:283: UserWarning: your compiler (c++) is not compatible\n" * 1_000
    path = tmp_path / sample.name
    path.write_bytes(noise.encode() + sample.read_bytes())
    shown = read(path)
    assert shown.files[0].format == "text_log"
    expected = _points(parsed(sample.read_bytes(), tmp_path / "alone", sample.parent.name))
    found = {
        (metric, rank): [(int(s), repr(float(v))) for s, v in zip(one.steps, one.values, strict=True)]
        for (metric, rank), one in shown.series.items()
    }
    assert found == expected
