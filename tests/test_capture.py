"""Captures of training code, with a torch of paper: never raising, bounded, read back without running anything."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import playbook
import playbook.capture as module
from playbook.errors import PlaybookError
from playbook.incidents.captured import read, restore_rng
from playbook.workflow.records.datarules import IGNORED, Broken, Rules, check, rules_of


class Tensor:
    """As much of a torch tensor as a capture touches; `numpy()` refuses bf16 as torch does."""

    def __init__(self, values: Any, dtype: str = "torch.float32") -> None:
        self.values, self.dtype, self.grad = np.asarray(values), dtype, None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor(self.values.astype(np.float32))

    def numpy(self) -> np.ndarray:
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


class Model:
    def __init__(self) -> None:
        self.good, self.bad, self.odd = Tensor(np.ones((2, 2))), Tensor([3.0, 4.0]), Tensor([1.0])
        self.good.grad = Tensor(np.full((2, 2), 0.5), "torch.bfloat16")
        self.bad.grad = Tensor([np.nan, np.inf])

    def named_parameters(self) -> Any:
        return iter([("good", self.good), ("bad", self.bad), ("odd", self.odd)])


class Optimizer:
    param_groups = ({"params": [1], "lr": 3e-4, "betas": (0.9, 0.95), "hook": object()},)


def test_a_bad_step_is_kept_whole(tmp_path: Path) -> None:
    batch = UserDict(
        input_ids=Tensor([[1, 2], [3, 4]], "torch.int64"),
        pixels=Tensor([0.5, np.nan], "torch.bfloat16"),
        nested={"mask": [np.ones(2, bool), None], "lengths": [2, 2], "scale": 2.0},
        text=["hello", "world"],
    )
    made = playbook.capture(
        tmp_path, step=1234, batch=batch, loss=float("nan"), grad_norm=Tensor(7.5).values, model=Model(),
        optimizer=Optimizer(), sample_ids=np.array([7, 8]), config={"vocab_size": 10, "lr": 1e-4}, reason="NaN", rank=3,
    )  # fmt: skip
    assert made == tmp_path / "capture-step000001234-rank3"
    got = read(made)
    assert got.info["loss"] == "nan" and got.info["grad_norm"] == 7.5 and got.info["sample_ids"] == [7, 8]
    assert got.batch["input_ids"].tolist() == [[1, 2], [3, 4]] and got.batch["nested.lengths"].tolist() == [2, 2]
    assert got.batch["pixels"].dtype == np.float32 and got.info["batch"]["pixels"]["dtype"] == "torch.bfloat16"
    assert got.info["batch"]["pixels"]["finite"] == 0.5 and got.info["batch"]["input_ids"]["max"] == 4
    assert set(got.batch) == {"input_ids", "pixels", "nested.mask.0", "nested.lengths", "nested.scale"}
    assert got.info["texts"] == {"text": ["hello", "world"]}
    rows = {p["name"]: p for p in got.info["parameters"]}
    assert rows["good"]["grad_norm"] == 1.0 and rows["good"]["grad_nonfinite"] == 0
    assert rows["bad"]["grad_nonfinite"] == 2 and rows["bad"]["weight_norm"] == 5.0
    assert "grad_norm" not in rows["odd"]
    assert got.info["optimizer"] == [{"lr": 3e-4, "betas": [0.9, 0.95]}]
    assert {"python", "numpy"} <= set(got.info["versions"])
    assert sorted(p.name for p in made.iterdir()) == ["batch.npz", "capture.json", "rng.json"]


def test_generators_come_back_to_where_they_were(tmp_path: Path) -> None:
    random.seed(5)
    np.random.seed(5)
    np.random.normal()  # leaves one value in store
    made = module.capture(tmp_path, step=1)
    assert made is not None
    drawn = [random.random(), np.random.normal(), np.random.normal(), random.gauss(0, 1)]
    assert restore_rng(read(made)) == ["python", "numpy"]
    assert drawn == [random.random(), np.random.normal(), np.random.normal(), random.gauss(0, 1)]


def test_a_capture_draws_nothing(tmp_path: Path) -> None:
    """A training run goes on as if nothing had happened."""
    random.seed(1)
    np.random.seed(1)
    expected = (random.random(), np.random.rand())
    random.seed(1)
    np.random.seed(1)
    module.capture(tmp_path, step=1, batch=np.ones(3), model=Model())
    assert (random.random(), np.random.rand()) == expected


def test_there_are_never_more_than_asked_for_a_rank(tmp_path: Path) -> None:
    made = [module.capture(tmp_path, step=k, most=2, rank=0) for k in range(5)]
    assert [m is not None for m in made] == [True, True, False, False, False]
    assert module.capture(tmp_path, step=9, most=2, rank=1) is not None
    assert module.capture(tmp_path, step=9, most=9, rank=1) is None  # the same step again
    assert len(list(tmp_path.iterdir())) == 3


def test_a_large_batch_leaves_its_facts_only(tmp_path: Path) -> None:
    made = module.capture(tmp_path, step=1, batch={"x": np.ones(300_000)}, limit_mb=1.0)
    assert made is not None and not (made / "batch.npz").exists()
    got = read(made)
    assert got.batch == {} and got.info["batch"]["x"]["shape"] == [300_000] and "2 MB" in got.info["batch_left_out"]


class Trap:
    """Raises whatever one touches."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("CUDA error: device-side assert triggered")


@pytest.mark.parametrize(
    "named", [{"model": Trap()}, {"batch": Trap()}, {"loss": "x"}, {"optimizer": Trap()}, {"config": 5}]
)
def test_what_cannot_be_read_is_told_and_the_rest_kept(tmp_path: Path, named: dict[str, Any]) -> None:
    """After a device-side assert every look at the GPU fails."""
    made = module.capture(tmp_path, step=1, sample_ids=[7], **named)
    assert made is not None
    got = read(made)
    assert list(got.info["problems"]) == list(named) and got.info["sample_ids"] == [7] and got.rng


def test_it_never_raises_into_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="nothing kept of step 1: .*No space left"):
        assert module.capture(tmp_path, step=1) is None
    assert list(tmp_path.iterdir()) == []  # and leaves no half capture


def test_a_full_or_forbidden_folder_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.warns(RuntimeWarning, match="nothing kept"):
        assert module.capture(tmp_path / "file", step=1) is None


def test_a_tensor_that_cannot_be_read_is_told_and_the_rest_kept(tmp_path: Path) -> None:
    class Broken(Tensor):
        def numpy(self) -> np.ndarray:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    made = module.capture(tmp_path, step=1, batch={"good": np.ones(2), "bad": Broken([1.0])})
    assert made is not None
    got = read(made)
    assert set(got.batch) == {"good"} and set(got.info["batch"]) == {"good", "bad"}


def test_it_loads_nothing_but_itself() -> None:
    heavy = "('numpy', 'torch', 'pydantic', 'yaml')"
    code = f"import playbook, sys; playbook.capture; print([m for m in sys.modules if m.split('.')[0] in {heavy}])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_the_name_works_however_it_is_imported(tmp_path: Path) -> None:
    code = (
        "import playbook; assert playbook.capture({0!r}, step=1);"
        "import playbook.capture; assert playbook.capture({0!r}, step=2);"
        "from playbook.capture import capture; assert capture({0!r}, step=3)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code.format(str(tmp_path))], check=True)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["capture.json", "batch.npz", "rng.json"])
@pytest.mark.parametrize("data", [b"", b"garbage", b"[]", b"\x80\x04"])
def test_a_damaged_capture_is_one_line(tmp_path: Path, name: str, data: bytes) -> None:
    made = module.capture(tmp_path, step=1, batch=np.ones(2))
    assert made is not None
    (made / name).write_bytes(data)
    with pytest.raises(PlaybookError) as told:
        read(made)
    assert "\n" not in str(told.value)


def test_nothing_of_a_capture_is_run(tmp_path: Path) -> None:
    """A pickle inside a batch is refused, not loaded."""

    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "owned",))

    made = module.capture(tmp_path, step=1, batch=np.ones(2))
    assert made is not None
    np.savez(made / "batch.npz", x=np.array([Evil()], dtype=object), allow_pickle=True)
    with pytest.raises(PlaybookError):
        read(made)
    (made / "batch.npz").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(PlaybookError):
        read(made)
    assert not (tmp_path / "owned").exists()


# Data rules.

IDS = np.arange(1, 9).reshape(2, 4)
RULES = Rules(max_length=4, vocab_size=10)


def broken(**arrays: Any) -> list[tuple[str, int | None]]:
    return [(b.rule, b.sample) for b in check(arrays, RULES)]


def test_a_good_batch_breaks_nothing() -> None:
    labels = IDS.copy()
    labels[:, 0] = IGNORED
    assert broken(input_ids=IDS, labels=labels, attention_mask=np.ones((2, 4), int), loss=np.float32(1.0)) == []
    assert broken() == [] and broken(images=np.ones((2, 3, 4, 4), np.float32)) == []


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        ({"input_ids": np.arange(5)}, [("length", 0)]),
        ({"input_ids": np.arange(10).reshape(2, 5), "attention_mask": np.array([[1] * 4 + [0], [1] * 5])},
         [("length", 1)]),
        ({"input_ids": np.array([[1, 10]])}, [("token-range", 0)]),
        ({"tokens": np.array([[1, 2], [3, -1]])}, [("token-range", 1)]),
        ({"labels": np.array([[1, -5], [IGNORED, 3]])}, [("token-range", 0)]),
        ({"input_ids": np.zeros((2, 0), int)}, [("empty", None), ("duplicate", 1)]),
        ({"input_ids": IDS, "attention_mask": np.array([[1, 1, 1, 1], [0, 0, 0, 0]])}, [("empty", 1)]),
        ({"labels": np.full((2, 3), IGNORED)}, [("labels", None)]),
        ({"labels": np.array([[1, 2], [IGNORED, IGNORED]])}, [("labels", 1)]),
        ({"labels": np.array([[1, 2], [3, 4]]), "loss_mask": np.array([[1, 0], [0, 0]])}, [("labels", 1)]),
        ({"input_ids": np.array([[1, 2], [3, 4], [1, 2]])}, [("duplicate", 2)]),
        ({"input_ids": IDS, "attention_mask": np.ones((2, 3), int)}, [("mask", None)]),
        ({"input_ids": IDS, "attention_mask": np.full((2, 4), 2)}, [("mask", None)]),
        ({"pixels": np.array([1.0, np.inf])}, [("finite", None)]),
    ],
)  # fmt: skip
def test_each_rule_names_the_sample(arrays: dict[str, Any], found: list[tuple[str, int | None]]) -> None:
    assert broken(**arrays) == found


def test_sample_ids_tell_duplicates_better_than_tokens() -> None:
    same = {"input_ids": np.ones((2, 3), int)}
    assert check(same, RULES, ["a", "b"]) == []
    assert check(same, RULES, [7, 7]) == [Broken("duplicate", 1, "is sample 0 again")]
    assert check(same, Rules(unique=False)) == []


def test_rules_are_read_off_configurations_first_one_first() -> None:
    config = {"model": {"max_position_embeddings": 4096, "vocab_size": "32000"}, "data": {"ignore_index": -1}}
    assert rules_of(config) == Rules(4096, 32000, -1)
    assert rules_of(None, {"seq_length": 8}, config).max_length == 8
    assert rules_of({"max_seq_len": "long"}) == Rules()
    assert json.dumps(rules_of(config).plain())
