"""Logs that consoles show: bars and values below a heading, boxes and columns, lines about held-out data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from playbook import readers
from playbook.series import Run

EPOCHS = 6
TRAIN = [round(2.0 / (1 + 0.4 * k), 4) for k in range(EPOCHS)]
HELD_OUT = [round(2.2 / (1 + 0.3 * k), 4) for k in range(EPOCHS)]
HEAD = "2026-11-30 10:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.\n"
KERAS, KERAS_3 = f"23/23 [{'=' * 30}]", f"\x1b[1m23/23\x1b[0m \x1b[32m{'━' * 20}\x1b[0m\x1b[37m\x1b[0m"


class Form(NamedTuple):
    """What is printed for an epoch (`k` from 0, `n` from 1, losses `a` and `b`), and once at the head."""

    epoch: str
    head: str = ""
    step: int = 1  # from one epoch to the next
    both: bool = True  # whether the held-out loss is printed


FORMS = {
    "keras": Form("Epoch {n}/6\n" + KERAS + " - 1s 21ms/step - loss: {a} - accuracy: 0.47 - val_loss: {b}\n"),
    "keras, drawn again": Form(
        "Epoch {n}/6\n\r 3/23 [==>...........................] - ETA: 3s - loss: 9.9 - acc: 0.1"
        + "\b" * 60
        + "\r"
        + KERAS
        + " - 1s 21ms/step - loss: {a} - acc: 0.41 - val_loss: {b} - val_acc: 0.40\n"
    ),
    "keras, one line": Form("Epoch {n}/6\n23/23 - 1s - loss: {a} - val_loss: {b} - 1s/epoch - 52ms/step\n"),
    "keras 3": Form(
        "Epoch {n}/6\n" + KERAS_3 + " \x1b[1m1s\x1b[0m 21ms/step - accuracy: 0.4 - loss: {a} - val_loss: {b}\n"
    ),
    "tutorial": Form("Epoch {k}/5\n----------\ntrain Loss: {a} Acc: 0.6\nval Loss: {b} Acc: 0.7\n\n"),
    "headings": Form("===== Epoch {k} =====\ntrain_loss: {a}\nval_loss: {b}\n"),
    "two bars": Form(
        "\nEpoch: {k}\n [==>..] | Loss: {a} | Acc: 40.0% (200/500) 391/391\n"
        " [====] | Loss: {b} | Acc: 44.1% (441/999) 100/100\n"
    ),
    "columns": Form(
        "{k:<9} {a:<11} {b:<11} 0.41      00:03    \n", "epoch     train_loss  valid_loss  accuracy  time    \n"
    ),
    "markdown": Form("| {k} | {a} | {b} |\n", "| epoch | train loss | val loss |\n|---|---|---|\n"),
    "yolo": Form(
        "\n   Epoch    GPU_mem   box_loss   cls_loss  Instances       Size\n"
        "\r  {n}/6  2.35G  9.9  1.2  24  640: 36%|##  | 3/7 [00:01<00:00,  5.2it/s]"
        "\r  {n}/6  2.35G  {a}  1.2  24  640: 100%|####| 7/7 [00:01<00:00,  5.2it/s]\n"
        "       Class     Images      Box(P          R      mAP50\n         all   128      0.6      0.5      0.6\n",
        both=False,
    ),
    "box": Form(
        "-------------------------------\n| rollout/           |        |\n|    ep_rew_mean     | 2{n}     |\n"
        "| time/              |        |\n|    total_timesteps | {n}000   |\n| train/             |        |\n"
        "|    approx_kl       | 8.1e-3 |\n|    loss            | {a} |\n|    value_loss      | 23.1   |\n"
        "-------------------------------\n",
        step=1000,
        both=False,
    ),
    "mnist": Form(
        "Train Epoch: {n} [0/640 (0%)]\tLoss: {a}\n\nTest set: Average loss: {b}, Accuracy: 9421/10000 (94%)\n\n",
        step=640,
    ),
    "held out": Form("Train epoch {k}: loss={a} acc=0.3\nValidation epoch {k}: loss={b} acc=0.4\n"),
    "results": Form("Training Results - Epoch: {k}  Avg loss: {a}\nValidation Results - Epoch: {k}  Avg loss: {b}\n"),
    "dicts": Form("{{'epoch': {k}, 'train_loss': {a}, 'val_loss': {b}}}\n"),
    "brackets": Form("[{k}/6][0/391]\tLoss_D: 0.7 Loss_G: {a} D(x): 0.5\n", step=391, both=False),
}


def printed(folder: Path, form: Form) -> Run:
    epochs = enumerate(zip(TRAIN, HELD_OUT, strict=True))
    path = folder / "train.log"
    path.write_text(HEAD + form.head + "".join(form.epoch.format(k=k, n=k + 1, a=a, b=b) for k, (a, b) in epochs))
    return readers.read([path])


@pytest.mark.parametrize("name", FORMS)
def test_each_epoch_is_a_row(name: str, tmp_path: Path) -> None:
    made = printed(tmp_path, FORMS[name])
    loss, held_out = made.get("loss"), made.get("eval_loss")
    assert loss is not None and loss.values.tolist() == TRAIN
    assert (np.diff(loss.steps) == FORMS[name].step).all()
    assert (None if held_out is None else held_out.values.tolist()) == (HELD_OUT if FORMS[name].both else None)
    assert not any(problem.what for file in made.files for problem in file.problems)


def test_a_box_tells_its_steps_reward_and_kl(tmp_path: Path) -> None:
    made = printed(tmp_path, FORMS["box"])
    reward, kl = made.get("reward"), made.get("kl")
    assert reward is not None and reward.values.tolist() == [21, 22, 23, 24, 25, 26] and reward.steps[0] == 1000
    assert kl is not None and kl.values.tolist() == [8.1e-3] * EPOCHS


def test_rows_that_count_themselves_below_a_heading_stay_as_they_are(tmp_path: Path) -> None:
    epochs = [
        f"Starting epoch {k}\n" + "".join(f"step {k * 10 + n}: loss 2.{n}\n" for n in range(10)) for k in range(3)
    ]
    path = tmp_path / "a.log"
    path.write_text("".join(f"{epoch}best val loss: 1.9\nvalidation loss: 2.{k}\n" for k, epoch in enumerate(epochs)))
    loss = readers.read([path]).get("loss")
    assert loss is not None and loss.steps.tolist() == list(range(30))


def test_a_block_of_values_below_a_heading_keeps_whole_names(tmp_path: Path) -> None:
    block = "####\n  Learning iteration {k}/1500\n\n  Value function loss: 0.0{k}1\n  Surrogate loss: -0.01\n"
    block += "  Mean reward: {k}.25\n----\n"
    (tmp_path / "a.log").write_text("".join(block.format(k=k) for k in range(1, 8)))
    made = readers.read([tmp_path / "a.log"])
    reward = made.get("reward")
    assert made.get("loss") is None, "the loss of the value function is not the loss"
    assert reward is not None and reward.values.tolist() == [k + 0.25 for k in range(1, 8)] and reward.steps[0] == 1
