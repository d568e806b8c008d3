"""Rows of logs as people paste them: which number is what, at which step, and whose.

The texts are in our own words; their shapes are those of public issue threads.
"""

# ruff: noqa: E501 - lines of logs are as long as they are

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter

import pytest

from playbook.readers import read, text

Points = list[tuple[int, float]]
NAN = math.nan


def points(tmp_path: Path, said: str) -> dict[str, Points]:
    """metric (with `@rank` where a rank owns it) -> its points in the order of the file."""
    (tmp_path / "out.log").write_text(said)
    found: dict[str, Points] = {}
    for one in read(tmp_path / "out.log").series.values():
        name = one.metric if one.rank is None else f"{one.metric}@{one.rank}"
        found[name] = [(int(step), float(value)) for step, value in zip(one.steps, one.values, strict=True)]
    return found


def same(found: Points, wanted: Points) -> bool:
    return [step for step, _ in found] == [step for step, _ in wanted] and all(
        math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b))
        for (_, a), (_, b) in zip(found, wanted, strict=True)
    )


BAR = "|##        |"
SHAPES: dict[str, tuple[str, dict[str, Points]]] = {
    "what stands behind a bar has a line of its own": (
        f"  1%{BAR} 6/1184 [00:21<1:09:10,  3.52s/it][2024-02-04 15:06:19,825] [INFO] [stage2.py:1:step] [deepspeed] "
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64.0, reducing to 32.0\n"
        f"  1%{BAR} 7/1184 [00:24<1:07:59,  3.47s/it]{{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.01}}\n",
        {"loss_scale": [(6, 32.0)], "loss": [(7, 2.5)]},
    ),
    "numbers before the bar": (
        f"1|1|Loss: 1.93:   5%{BAR} 1/20 [00:05<01:35,  5.00s/it]\r"
        f"1|2|Loss: nan:  10%{BAR} 2/20 [00:10<01:30,  5.00s/it]\n",
        {"loss": [(1, 1.93), (2, NAN)]},
    ),
    "several numbers before the bar": (
        f"[losses/total_loss: 1.64 | losses/value_loss: 7.62]:  16%{BAR} 24/640 [1:14:23<1:13:02,  1.23it/s]\n",
        {"loss": [(24, 1.64)]},
    ),
    "an average of the bar beside the number itself": (
        f"Epoch 0:   1%{BAR} 5/772 [9:07<8:01, 4.3s/it, loss=3.1, v_num=, reduced_train_loss=3.09, global_step=4.0]\n",
        {"loss": [(4, 3.09)]},
    ),
    "darknet": (
        "\n 65: 1.20, 1.34 avg, 0.001000 rate, 3.43 seconds, 4160 images\nLoaded: 0.00003 seconds\n"
        " 66: -nan, nan avg, 0.001000 rate, 3.43 seconds, 4224 images\n",
        {"loss": [(65, 1.2), (66, NAN)], "lr": [(65, 0.001), (66, 0.001)]},
    ),
    "marian": (
        "[2024-07-17 12:54:33] Ep. 1 : Up. 14000 : Sen. 965,843 : Cost 5.25 : Time 359.59s : 3007.5 words/s\n"
        "[2024-07-17 13:13:46] Ep. 1 : Up. 16,000 : Sen. 1,052,108 : Cost nan * 133 after 52 : Time 9.1s : 1942.5 words/s"
        " : gNorm 0.25 : L.r. 3.0000e-04\n"
        "[2024-07-17 13:50:36] [valid] Ep. 1 : Up. 16000 : cross-entropy : 130.97 : new best\n"
        "[2024-07-17 13:51:02] [valid] Ep. 1 : Up. 16000 : perplexity : 187.5 : new best\n",
        {
            "loss": [(14000, 5.25), (16000, NAN)],
            "throughput": [(14000, 3007.5), (16000, 1942.5)],
            "grad_norm": [(16000, 0.25)],
            "eval_loss": [(16000, math.log(187.5))],
        },
    ),
    "espnet": (
        "[gpu01:0/2] 2024-07-19 08:49:04,080 (trainer:464) INFO: 1epoch:train:1-682batch: iter_time=2.5e-04, loss=123.5, "
        "acc=0.013, optim0_lr0=3.5e-06, train_time=1.5\n"
        "[gpu01:0/2] 2024-07-19 09:49:04,080 (trainer:328) INFO: 1epoch results: [train] loss=99.5, time=1 hour, "
        "total_count=6820, [valid] loss=40.5, acc=0.3, time=33.1 seconds\n"
        "[gpu01:0/2] 2024-07-19 10:49:04,080 (trainer:464) INFO: 2epoch:train:1-682batch: loss=51.5, train_time=1.25\n",
        {
            "loss": [(682, 123.5), (1364, 51.5)],
            "eval_loss": [(682, 40.5)],
            "step_time": [(682, 1.5), (1364, 1.25)],
            "data_time": [(682, 2.5e-4)],
        },
    ),
    "held-out batches between those of training": (
        "2024-01-30 18:47:07,107 DEBUG TRAIN Batch 4/200 loss 12.5 loss_ctc 16.6 lr 0.00032 rank 0\n"
        "2024-01-30 18:47:16,614 DEBUG TRAIN Batch 4/200 loss 16.5 loss_ctc 24.6 lr 0.00032 rank 1\n"
        "2024-01-30 18:49:55,773 DEBUG CV Batch 4/0 loss 28.5 loss_ctc 38.7 history loss 27.9 rank 1\n"
        "2024-01-30 18:51:07,107 DEBUG TRAIN Batch 4/300 loss 11.5 loss_ctc 16.6 lr 0.00031 rank 0\n"
        "2024-01-30 18:51:16,614 DEBUG TRAIN Batch 4/300 loss 15.5 loss_ctc 24.6 lr 0.00031 rank 1\n",
        {"loss@0": [(200, 12.5), (300, 11.5)], "loss@1": [(200, 16.5), (300, 15.5)], "eval_loss": []},
    ),
    "share of a rank in front, a row of validation": (
        "2024-10-03 21:05:24,891 INFO [train.py:908] (1/2) Epoch 1, batch 50, loss[loss=0.5, over 24.00 frames.], lr: 2e-03\n"
        "2024-10-03 21:05:24,896 INFO [train.py:908] (0/2) Epoch 1, batch 50, loss[loss=0.25, over 24.00 frames.], lr: 2e-03\n"
        "2024-10-03 21:06:24,891 INFO [train.py:908] (1/2) Epoch 1, batch 100, loss[loss=0.4, over 24.00 frames.], lr: 1e-03\n"
        "2024-10-03 21:06:24,896 INFO [train.py:908] (0/2) Epoch 1, batch 100, loss[loss=0.2, over 24.00 frames.], lr: 1e-03\n"
        "2024-10-03 21:07:24,909 INFO [train.py:942] (0/2) Epoch 1, validation: loss=0.75, over 944034.00 frames.\n",
        {"loss@0": [(50, 0.25), (100, 0.2)], "loss@1": [(50, 0.5), (100, 0.4)], "eval_loss": [(100, 0.75)]},
    ),
    "timm": (
        "Train: 0 [   0/100 (  0%)]  Loss: 6.5 (6.5)  Time: 3.25s,  315.10/s  LR: 1.000e-05  Data: 1.5 (1.5)\n"
        "Train: 0 [  50/100 ( 51%)]  Loss: 6.25 (6.4)  Time: 0.25s, 2925.10/s  LR: 1.000e-05  Data: 0.5 (1.0)\n"
        "Test: [  48/48]  Time: 0.1 (0.2)  Loss:  5.9 (5.95)  Acc@1:  3.1 (3.1)\n"
        "Train: 1 [   0/100 (  0%)]  Loss: 6.0 (6.0)  Time: 3.25s,  315.10/s  LR: 1.000e-05  Data: 1.5 (1.5)\n",
        {"loss": [(0, 6.5), (50, 6.25), (100, 6.0)], "data_time": [(0, 1.5), (50, 0.5), (100, 1.5)], "eval_loss": []},
    ),
    "levanter": (
        "Progress on:train 10.0it/10.0kit rate:1.0s/it remaining:2:46:36 elapsed:00:09 postfix:loss=9.25\n"
        "Progress on:train 1.20kit/10.0kit rate:1.0s/it remaining:2:06:36 elapsed:20:09 postfix:loss=3.25\n",
        {"loss": [(10, 9.25), (1200, 3.25)]},
    ),
    "an epoch above its batches": (
        "Epoch 1/10\n  1/100 [....] - ETA: 19:24 - loss: 0.75 - accuracy: 0.5\n"
        "100/100 [====] - 193s 2s/step - loss: 0.5 - accuracy: 0.7 - val_loss: 0.625\n"
        "Epoch 2/10\n  1/100 [....] - ETA: 19:24 - loss: 0.25 - accuracy: 0.5\n"
        "100/100 [====] - 193s 2s/step - loss: nan - accuracy: 0.7 - val_loss: 0.375\n",
        {"loss": [(1, 0.5), (2, NAN)], "eval_loss": [(1, 0.625), (2, 0.375)]},
    ),
    "an epoch above its two means": (
        "Epoch 0/24\n----------\ntrain Loss: 0.5 Acc: 0.6\nval Loss: 0.25 Acc: 0.9\n\n"
        "Epoch 1/24\n----------\ntrain Loss: 0.375 Acc: 0.7\nval Loss: 0.125 Acc: 0.9\n",
        {"loss": [(0, 0.5), (1, 0.375)], "eval_loss": [(0, 0.25), (1, 0.125)]},
    ),
    "a test set after an epoch": (
        "Train Epoch: 1 [0/600 (0%)]\tLoss: 2.25\nTrain Epoch: 1 [64/600 (10%)]\tLoss: 1.75\n\n"
        "Test set: Average loss: 0.0625, Accuracy: 982/1000 (98%)\n\nTrain Epoch: 2 [0/600 (0%)]\tLoss: 0.5\n",
        {"loss": [(0, 2.25), (64, 1.75), (600, 0.5)], "eval_loss": [(64, 0.0625)]},
    ),
    "parts of an epoch whose number stands above": (
        "2017-12-01 10:00:00,123 - INFO - my.training.trainer - Epoch 0/9\n"
        "2017-12-01 10:00:10,123 - INFO - my.training.trainer - Batch 500/1000: loss: 2.25 ||\n"
        "2017-12-01 10:01:00,123 - INFO - my.training.trainer - Epoch 1/9\n"
        "2017-12-01 10:01:10,123 - INFO - my.training.trainer - Batch 250/1000: loss: nan ||\n",
        {"loss": [(500, 2.25), (1250, NAN)]},
    ),
    "parts of an epoch at the end of the line": (
        "Epoch 1\n-----\nloss: 2.25  [   64/60000]\nloss: 1.75  [ 6464/60000]\n"
        "Epoch 2\n-----\nloss: 0.5  [   64/60000]\n",
        {"loss": [(64, 2.25), (6464, 1.75), (60064, 0.5)]},
    ),
    "one value a line, without a colon": (
        "2024-03-01 10:20:01.123456: Epoch 0\n2024-03-01 10:20:01.123466: Current learning rate: 0.25\n"
        "2024-03-01 10:24:01.123456: train_loss 0.75\n2024-03-01 10:24:01.123466: val_loss 0.5\n"
        "2024-03-01 10:24:02.123456: Epoch 1\n2024-03-01 10:24:02.123466: Current learning rate: 0.125\n"
        "2024-03-01 10:28:01.123456: train_loss nan\n2024-03-01 10:28:01.123466: val_loss nan\n",
        {"loss": [(0, 0.75), (1, NAN)], "eval_loss": [(0, 0.5), (1, NAN)], "lr": [(0, 0.25), (1, 0.125)]},
    ),
    "an epoch and an iteration in one word": (
        "[05/01 10:00:00 my.events]:  eta: 1:20:31  epoch/iter: 0/199  total_loss: 9.75  lr: 1.02e-05\n"
        "[05/01 10:01:00 my.events]:  eta: 1:19:31  epoch/iter: 1/399  total_loss: 8.75  lr: 2.02e-05\n",
        {"loss": [(199, 9.75), (399, 8.75)]},
    ),
    "rates in brackets": (
        "22-05-01 10:00:00.123 - INFO: [train..][epoch:  0, iter:     100, lr:(2.500e-01,)] [eta: 1 day, 3:02:01, time "
        "(data): 0.345 (0.001)] l_pix: 5.0000e-01 \n"
        "22-05-01 10:00:30.123 - INFO: <epoch:  0, iter:     200, lr:1.250e-01> l_pix: nan \n",
        {"loss": [(100, 0.5), (200, NAN)], "lr": [(100, 0.25), (200, 0.125)]},
    ),
    "the development set after an epoch": (
        "epoch 1 - iter 10/20 - loss 0.75 - lr: 0.1\nEPOCH 1 done: loss 0.5\nDEV : loss 0.25 - f1 0.8\n"
        "epoch 2 - iter 5/20 - loss 0.375 - lr: 0.1\n",
        {"loss": [(10, 0.75), (25, 0.375)], "eval_loss": [(20, 0.25)]},
    ),
    "validation and test beside the training loss": (
        "\titers: 100, epoch: 1 | loss: 0.5\n\titers: 200, epoch: 1 | loss: 0.25\n"
        "Epoch: 1, Steps: 200 | Train Loss: 0.375 Vali Loss: 0.75 Test Loss: 0.875\n",
        {"loss": [(100, 0.5), (200, 0.25)], "eval_loss": [(200, 0.75)]},
    ),
    "a time of the data is none of the step": (
        "[INFO 2024/06/19 16:01:34 model.py:61] Train: Rank: 0, epoch: 1, step: 5310, batch : 9/18, lr: 0.5, "
        "data time: 0.000s, train time: 3.25s, batch size: 64, train_loss: 16.5\n",
        {"loss": [(5310, 16.5)], "data_time": [(5310, 0.0)], "step_time": [(5310, 3.25)]},
    ),
    "tokens a second before the share of the peak": (
        "step 00100/21400 (0.47%) | loss: 6.125 | lrm: 1.00 | dt: 480.5ms | tok/sec: 1,092,012 | mfu: 47.90\n",
        {"throughput": [(100, 1092012.0)], "step_time": [(100, 0.4805)]},
    ),
    "a line that ends in a semicolon": (
        "[2025-03-06 13:49:38,771 INFO] Step 400/12000; acc: 17.9; ppl: 1441.5; xent: 7.25; 11915/14711 tok/s;   2684 sec;\n",
        {"loss": [(400, 7.25)]},
    ),
    "an arrow is no comparison": (
        "2024-07-20 06:31:44,244 - INFO: ===> Epoch 103 Complete: Avg. Loss: 0.0156 time: 667.25\n",
        {"loss": [(103, 0.0156)]},
    ),
    "composer": (
        "[epoch=0][batch=1/32]:\n\t Train time/epoch: 0\n\t Train loss/train/total: 11.5\n\t Train lr-AdamW/group0: 0.5\n"
        "[epoch=0][batch=2/32]:\n\t Train loss/train/total: 11.25\n\t Train throughput/tokens_per_sec: 12345.5\n"
        "\t Eval metrics/eval/LanguageCrossEntropy: 10.5\n",
        {"loss": [(1, 11.5), (2, 11.25)], "eval_loss": [(2, 10.5)], "throughput": [(2, 12345.5)], "lr": [(1, 0.5)]},
    ),
    "coqui": (
        "   \x1b[1m--> STEP: 24/377 -- GLOBAL_STEP: 25\x1b[0m\n     | > loss: 2.5  (2.48)\n     | > grad_norm: 71.5  (27.2)\n"
        "     | > current_lr: 0.5 \n     | > step_time: 0.25  (0.62)\n     | > loader_time: 0.125  (0.10)\n\n"
        "  --> EVAL PERFORMANCE\n     | > avg_loader_time: 0.004 (+0.0)\n     | > avg_loss: 0.75 (-0.1)\n\n"
        "   --> STEP: 49/377 -- GLOBAL_STEP: 50\n     | > loss: nan  (nan)\n",
        {
            "loss": [(25, 2.5), (50, NAN)],
            "grad_norm": [(25, 71.5)],
            "step_time": [(25, 0.25)],
            "data_time": [(25, 0.125)],
            "eval_loss": [(25, 0.75)],
        },
    ),
    "a box of stable-baselines": (
        "-----------------------------------\n| rollout/             |          |\n|    ep_rew_mean       | -213     |\n"
        "| time/                |          |\n|    fps               | 26       |\n|    total_timesteps   | 3584     |\n"
        "| train/               |          |\n|    loss              | 20.5     |\n|    learning_rate     | 0.25     |\n"
        "-----------------------------------\nEval num_timesteps=4000, episode_reward=-200.00 +/- 0.00\n"
        "-----------------------------------\n| time/                |          |\n|    total_timesteps   | 7168     |\n"
        "| train/               |          |\n|    loss              | nan      |\n-----------------------------------\n",
        {"loss": [(3584, 20.5), (7168, NAN)], "reward": [(3584, -213.0)], "throughput": [(3584, 26.0)]},
    ),
    "rsl_rl": (
        "################\n       Learning iteration 7/10       \n\n    Steps per second: 255 \n   Mean surrogate loss: -0.25\n"
        "       Mean reward: -4.5\n----------------\n    Iteration time: 1.01s\n",
        {"loss": [(7, -0.25)], "reward": [(7, -4.5)]},
    ),
    "ray": (
        "Result for PPO_Pole_1:\n  date: 2024-07-27_15-41-01\n  episode_reward_mean: 22.5\n  info:\n    learner:\n"
        "      cur_lr: 0.5\n      total_loss: 8.5\n  training_iteration: 3\n\n",
        {"loss": [(3, 8.5)], "reward": [(3, 22.5)], "lr": [(3, 0.5)]},
    ),
    "a table with bars": (
        "      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size\n"
        f"       8/55      9.03G      0.125        8.0         22        640:  50%{BAR} 4/9 [11:41<00:00,  1.36it/s]\r"
        f"       8/55      9.03G       0.25        8.5         22        640: 100%{BAR} 9/9 [11:41<00:00,  1.36it/s]\n"
        f"                 Class     Images      Box(P          R      mAP50: 100%{BAR} 66/66 [00:36<00:00,  1.7it/s]\n"
        "                   all       1049          0          0          0\n\n"
        "      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size\n"
        f"       9/55      9.02G        nan        nan         16        640: 100%{BAR} 9/9 [11:32<00:00,  1.38it/s]\n",
        {"loss": [(8, 0.25), (9, NAN)], "gpu_mem": [(8, 9.03), (9, 9.02)]},
    ),
    "a table behind other lines": (
        "INFO loading the data\nepoch     train_loss  valid_loss  accuracy  time    \n"
        "0         0.250000    0.500000    0.930000  00:10     \n1         nan         0.750000    0.100000  00:10     \n",
        {"loss": [(0, 0.25), (1, NAN)], "eval_loss": [(0, 0.5), (1, 0.75)]},
    ),
    "a count inside a printed record": (
        'json_stats: {"eta": "0:21:51", "iter": 5080, "loss": 0.25, "lr": 0.5, "time": 0.75}\n'
        'json_stats: {"eta": "0:21:41", "iter": 5100, "loss": 0.125, "lr": 0.5, "time": 0.75}\n',
        {"loss": [(5080, 0.25), (5100, 0.125)]},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_read_as_they_are_meant(tmp_path: Path, shape: str) -> None:
    said, wanted = SHAPES[shape]
    found = points(tmp_path, said)
    for metric, row in wanted.items():
        assert same(found.get(metric, []), row), (metric, found)


def test_a_comma_between_numbers_and_one_within_a_number_are_two_shapes(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    rates = ["12,40", "12,41", "12,401.15", "12,402.15", "12,42"]
    path.write_text(
        "".join(f"[Step {n}/1000] Loss: 2.{n} | Tokens/s: {rate} | Mem: 26.79\n" for n, rate in enumerate(rates))
    )
    loss = read([path]).get("loss")
    assert loss is not None
    assert loss.values.tolist() == [2.0, 2.1, 2.2, 2.3, 2.4]


@pytest.mark.parametrize("word", ["QUJDREVGR0hJSktMTU5P" * 4000, "a" + "1" * 80_000, "a-" * 40_000])
def test_a_line_of_one_long_word_is_split_at_once(word: str) -> None:
    """A name of a host has no more than 253 letters: nobody looks for its end in a picture or a weight in base64."""
    begun = perf_counter()
    assert text.split(word) == text.Line(None, None, word)
    assert perf_counter() - begun < 2


def test_long_names_of_hosts_are_taken_off() -> None:
    host = "gpu-node-with-a-rather-long-name-0123.rack-17.cluster.example.org"
    assert text.split(f"{host}: [2023-01-02 03:04:05] step 1").body == "step 1"
    assert text.split(f"{host}:7\tstep 1") == text.Line(7, None, "step 1")
