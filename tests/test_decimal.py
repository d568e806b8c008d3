"""Whole numbers over powers of ten become the float64 that Python reads, or are handed back."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from playbook.readers import decimal

POWERS = list(range(-24, 30))


def near_ties(rng: random.Random, power: int) -> list[int]:
    """Numbers of up to 19 digits that lie in the middle between two float64 over 10**power, and beside it."""
    found = []
    for _ in range(100):
        low = rng.random() * 10.0 ** rng.randint(-8, 0)
        middle = (Fraction(low) + Fraction(float(np.nextafter(low, 2)))) / 2
        found += [int(middle * Fraction(10) ** power) + step for step in (-1, 0, 1)]
    return [n for n in found if 0 <= n < 1 << 64]


@pytest.mark.parametrize("alike", [True, False], ids=["one power", "many powers"])
def test_every_number_is_rounded_as_float_does(alike: bool) -> None:
    rng = random.Random(7)
    sure = 0
    for power in POWERS:
        numbers = [rng.randrange(10 ** rng.randint(1, 19)) for _ in range(200)] + near_ties(rng, power)
        powers = [power if alike else rng.choice(POWERS) for _ in numbers]
        given = power if alike else np.array(powers)
        values, unsure = decimal.scaled(np.array(numbers, np.uint64), given)
        left = set(unsure.tolist())
        for place, (number, own) in enumerate(zip(numbers, powers, strict=True)):
            if place not in left:
                assert values[place] == float(f"{number}e{-own}"), (number, own)
                sure += 1
    assert sure > 0.7 * len(POWERS) * 200, "most are not handed back"


def test_high_powers_are_sums_of_two_floats() -> None:
    for power in range(decimal.FARTHEST + 1):
        assert int(decimal._SCALE[power]) + int(decimal._SCALE_LOW[power]) == 10**power


def test_eight_digits_are_one_number() -> None:
    texts = [b"00000000", b"12345678", b"99999999", b"10000001"]
    words = np.frombuffer(b"".join(texts), np.uint64) ^ np.uint64(0x3030303030303030)
    assert decimal.eight(words).tolist() == [int(text) for text in texts]
