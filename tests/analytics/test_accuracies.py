"""Shares and drops of accuracy, by hand and by their laws; which rows are compared."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.accuracies import (
    NetworkAccuracy,
    by_precision,
    paired_drop,
    wilson,
)


def test_a_share_of_wilson_by_hand() -> None:
    # 8 of 10, z² = 3.8415: middle 0.8 + 3.8415 / 20 = 0.99207, half 1.95996 √(0.016 + 0.0096036)
    # = 1.95996 · 0.160011 = 0.31362, scale 1.38415: 0.49016 to 0.94332.
    found = wilson(8, 10)
    assert found.value == 0.8
    assert found.low == pytest.approx(0.49016, abs=1e-5)
    assert found.high == pytest.approx(0.94332, abs=1e-5)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_lies_within_its_interval_and_both_within_0_and_1(numbers: tuple[int, int]) -> None:
    found = wilson(*numbers)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    other = wilson(numbers[1] - numbers[0], numbers[1])
    assert other.low == pytest.approx(1 - found.high)


def test_a_drop_by_hand() -> None:
    # Of 10 samples 3 are lost and 1 won: 0.2. With halves: (3.5 - 1.5) / 12 = 0.16667,
    # √(5 - 4 / 12) / 12 = 0.18002; ends 0.16667 ± 1.95996 · 0.18002.
    in_fp32 = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 0], bool)
    in_int8 = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0], bool)
    found = paired_drop(in_int8, in_fp32)
    assert found.value == pytest.approx(0.2)
    assert found.middle == pytest.approx(1 / 6)
    assert found.deviation == pytest.approx(0.18002, abs=1e-5)
    assert found.low == pytest.approx(1 / 6 - 0.35284, abs=1e-4)
    assert found.probability_at_most(1 / 6) == pytest.approx(0.5)
    # The standard normal is below 1 with 84.134 %.
    assert found.probability_at_most(1 / 6 + 0.18002) == pytest.approx(0.84134, abs=1e-4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_drops_of_two_against_each_other_are_opposite(pairs: list[tuple[bool, bool]]) -> None:
    one, two = np.array(pairs).T
    there, back = paired_drop(one, two), paired_drop(two, one)
    assert there.value == pytest.approx(-back.value)
    assert there.low == pytest.approx(-back.high)
    assert there.high == pytest.approx(-back.low)
    assert there.value == pytest.approx(two.mean() - one.mean())


def accuracy(**changes: Any) -> NetworkAccuracy:
    why = "it is made up"
    names = ("n_classes", "top1", "top5", "agreement", "drop", "reference")
    made = NetworkAccuracy(
        run_id="r",
        device="board",
        source="measured",
        network="net",
        weights_hash="w",
        engine="ort",
        provider="cpu",
        precision="fp32",
        calibration="",
        dataset="val",
        preprocessing="arrays as they are",
        n_samples=100,
        n_not_finite=0,
        remark="",
        **dict.fromkeys(names),
        unknown=dict.fromkeys(names, why),
    )
    return msgspec.structs.replace(made, **changes)


def test_the_data_set_that_most_precisions_were_measured_with_is_taken() -> None:
    rows = [
        accuracy(dataset="val"),
        accuracy(dataset="val", precision="int8"),
        accuracy(dataset="other", precision="fp16"),
        accuracy(dataset="val", precision="fp16", remark="it crashed"),
        accuracy(device="another", precision="bf16"),
    ]
    assert set(by_precision(rows, "board", "net")) == {"fp32", "int8"}
    assert by_precision(rows, "board", "none") == {}
