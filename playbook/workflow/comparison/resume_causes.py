"""Causes of the book that a resume can have, by what they break: the words in which the checks of a seam suspect."""

from __future__ import annotations

WRONG_WEIGHTS, INCOMPLETE, CORRUPT = "wrong-weights-loaded", "checkpoint-incomplete", "checkpoint-corrupt"
MASTER_LOST = "master-weights-lost"
MOMENTS_LOST, SCALER_LOST = "optimizer-state-lost", "scaler-not-restored"
OTHER_LAYOUT = "layout-changed-at-resume"
OTHER_ORDER, OTHER_DATA, OTHER_DICE = "sampler-not-restored", "data-version-changed-at-resume", "rng-not-restored"
LOGGED_WRONGLY = "loss-logged-wrongly"

# What the first row shows, before any update: weights that are others, or a little other.
WEIGHTS = (WRONG_WEIGHTS, INCOMPLETE, CORRUPT)
SMALL_STEP = (OTHER_DATA, WRONG_WEIGHTS, MASTER_LOST, OTHER_LAYOUT)
# What the rows behind it show.
UPDATE = (MOMENTS_LOST, SCALER_LOST, OTHER_LAYOUT)
SAMPLES = (OTHER_ORDER, OTHER_DATA, OTHER_DICE)
