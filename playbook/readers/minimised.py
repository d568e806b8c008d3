"""Which metrics of XGBoost, LightGBM and CatBoost are losses: only those fall as the training goes on."""

from __future__ import annotations

import re

LOSSES = frozenset((
    "logloss", "mlogloss", "binary_logloss", "multi_logloss", "cross_entropy", "crossentropy", "multiclass",
    "multiclassonevsall", "rmse", "mse", "l1", "l2", "mae", "mape", "huber", "fair", "poisson", "quantile", "gamma",
    "tweedie", "mphe", "rmsle", "gamma-deviance", "poisson-nloglik", "gamma-nloglik",
    "tweedie-nloglik", "cox-nloglik", "focal", "multirmse", "logcosh",
    "lq", "expectile", "kullback_leibler",
))  # fmt: skip


def is_loss(name: str) -> bool:
    """Whether a metric of these libraries is minimised (without its parameters: `Quantile:alpha=0.5`,
    `tweedie-nloglik@1.5`)."""
    return re.split("[:@]", name, maxsplit=1)[0].strip().lower() in LOSSES
