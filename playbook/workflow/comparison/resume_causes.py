"""Causes of the book that a resume can have, by what they break: the words in which the checks of a seam suspect."""

from __future__ import annotations

WRONG_WEIGHTS, INCOMPLETE, CORRUPT = "wrong-weights-loaded", "checkpoint-incomplete", "checkpoint-corrupt"
MASTER_LOST = "master-weights-lost"
MOMENTS_LOST, SCALER_LOST = "optimizer-state-lost", "scaler-not-restored"
OTHER_LAYOUT = "layout-changed-at-resume"
OTHER_ORDER, OTHER_DATA, OTHER_DICE = "sampler-not-restored", "data-version-changed-at-resume", "rng-not-restored"
LOGGED_WRONGLY, LOGGED_ON_AVERAGE, NO_LABEL = "loss-logged-wrongly", "log-averaging", "no-label-in-batch"
COUNTER_RESET = "step-counter-reset"
SCHEDULE_LOST, STEPPED_TOO_OFTEN = "schedule-not-restored", "schedule-stepped-too-often"
OTHER_DEVICES, BATCH_GREW = "gpu-count-changed", "batch-grew-lr-kept"
SCALED_BY_WORLD, NOT_NORMALISED = "gradient-scaled-by-world-size", "accumulation-not-normalised"
HOT, STARVED = "thermal-throttling", "input-pipeline-stall"

# What the first row shows, before any update: weights that are others, or a little other.
WEIGHTS = (WRONG_WEIGHTS, INCOMPLETE, CORRUPT)
SMALL_STEP = (OTHER_DATA, WRONG_WEIGHTS, MASTER_LOST, OTHER_LAYOUT)
# What the rows behind it show.
UPDATE = (MOMENTS_LOST, SCALER_LOST, OTHER_LAYOUT)
RATE = (SCHEDULE_LOST, "schedule-overridden-by-checkpoint", STEPPED_TOO_OFTEN, COUNTER_RESET)
SAMPLES = (OTHER_ORDER, OTHER_DATA, OTHER_DICE)
