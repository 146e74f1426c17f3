"""Precisions are recommended by their accuracy: left out, kept, and told beside the choice."""

from __future__ import annotations

import math
from functools import partial

import msgspec
import pytest

from mansard.analytics.data.accuracies import Drop, NetworkAccuracy, by_precision, wilson
from mansard.analytics.decisions.records import Wanted
from mansard.core.errors import UsageError
from tests.analytics.answers import recommend, recommend_each
from tests.analytics.decide_factory import DEVICE, frame, row
from tests.analytics.model_factory import board_modes
from tests.analytics.test_accuracies import accuracy

# The fewer bits, the less energy.
THREE = [
    row("MAXN", 0.010, 0.5, spread=1.01, precision="fp32"),
    row("MAXN", 0.006, 0.3, spread=1.01, precision="fp16"),
    row("MAXN", 0.004, 0.2, spread=1.01, precision="int8"),
]


def known(precision: str, drop: float, deviation: float, **changes: object) -> NetworkAccuracy:
    """Right for 760 of 1,000 in fp32, and less ``drop``."""
    found = accuracy(device=DEVICE, precision=precision, n_samples=1000, **changes)
    half = 1.95996 * deviation
    measured = {
        "top1": wilson(round(1000 * (0.76 - drop)), 1000),
        "drop": Drop(
            value=drop, low=drop - half, high=drop + half, middle=drop, deviation=deviation
        ),
    }
    unknown = {name: why for name, why in found.unknown.items() if name not in measured}
    return msgspec.structs.replace(found, **measured, unknown=unknown)


FP16, INT8 = known("fp16", 0.001, 0.002), known("int8", 0.012, 0.004)


@pytest.mark.parametrize(
    ("wanted", "precision"),
    [
        (Wanted(), "int8"),  # nothing is limited
        # int8: Φ((0.02 - 0.012) / 0.004) = Φ(2) = 0.977.
        (Wanted(max_drop=0.02), "int8"),
        # Φ((0.017 - 0.012) / 0.004) = Φ(1.25) = 0.894, less than 0.9; and with 0.89 it is enough.
        (Wanted(max_drop=0.017), "fp16"),
        (Wanted(max_drop=0.017, probability=0.89), "int8"),
        # fp16: Φ((0.001 - 0.001) / 0.002) = 0.5, and fp32 loses nothing.
        (Wanted(max_drop=0.001), "fp32"),
        (Wanted(max_drop=0.0), "fp32"),
    ],
)
def test_a_precision_has_to_keep_its_drop(wanted: Wanted, precision: str) -> None:
    found = recommend(frame(THREE), wanted, (), {"fp16": FP16, "int8": INT8})
    assert found.choice is not None
    assert found.choice.precision == precision


def test_the_accuracy_of_the_choice_stands_beside_it() -> None:
    found = recommend(frame(THREE), Wanted(), (), {"fp16": FP16, "int8": INT8})
    assert found.accuracy == INT8
    # 748 of 1,000, by Wilson 72.0 to 77.4; 0.012 ± 1.96 · 0.004 = 0.4 to 2.0.
    assert found.sentence.endswith(
        "In int8 it is right for 74.8 (72.0 to 77.4)\N{NO-BREAK SPACE}% of 1,000 samples of val, "
        "on onnxruntime cpu, a drop of 1.2 (0.4 to 2.0)\N{NO-BREAK SPACE}% from fp32."
    )
    (note,) = [each for each in found.notes if "chosen among" in each]
    assert "the accuracy of fp32 is unknown" in note
    assert "int8 is right for 74.8" in note
    blind = recommend(frame(THREE), Wanted())
    assert blind.accuracy is None
    assert blind.unknown["accuracy"] == "it was not measured"


def test_without_labels_the_agreement_with_fp32_is_named() -> None:
    plain = accuracy(device=DEVICE, precision="int8")
    unknown = {name: why for name, why in plain.unknown.items() if name != "agreement"}
    found = msgspec.structs.replace(plain, agreement=wilson(99, 100), unknown=unknown)
    note, *_ = recommend(frame(THREE), Wanted(), (), {"int8": found}).notes
    # 99 of 100, by Wilson 94.6 to 99.8.
    assert "int8 is as in fp32 for 99.0 (94.6 to 99.8)" in note
    assert "the accuracy of fp16, fp32 is unknown" in note


def test_a_program_is_not_limited() -> None:
    programs = frame([row("MAXN", 0.010, 0.5, spread=1.01, precision=None)])
    found = recommend(programs, Wanted(max_drop=0.01))
    assert found.choice is not None
    assert found.notes[0] == "the accuracy of net, which has no precision, is not limited"


def test_what_is_left_out_is_said() -> None:
    found = recommend(frame(THREE), Wanted(max_drop=0.017), (), {"int8": INT8})
    assert found.choice is not None
    assert found.choice.precision == "fp32"
    assert found.n_candidates == 1
    fp16, int8 = found.notes[:2]
    assert fp16.startswith(
        "fp16 is left out: its accuracy compared with fp32 is unknown; mansard mea"
    )
    assert "mansard measure net --precision fp32,fp16 --data DATA" in fp16
    assert "that holds with a probability of 89" in int8


def test_nothing_is_recommended_where_no_accuracy_is_known() -> None:
    found = recommend(frame(THREE[1:]), Wanted(max_drop=0.01))
    assert (found.choice, found.verdict) == (None, "unknown")
    assert "fp16 is left out" in found.sentence
    assert "int8 is left out" in found.sentence


@pytest.mark.parametrize("most", [1.0, -0.1, math.inf, math.nan])
def test_a_drop_that_bounds_nothing(most: float) -> None:
    with pytest.raises(UsageError, match="a limit on the drop of accuracy cannot be"):
        recommend(frame(THREE), Wanted(max_drop=most))


def test_accuracies_of_other_devices_and_networks_do_not_count() -> None:
    rows = [
        msgspec.structs.replace(INT8, device="another"),
        msgspec.structs.replace(INT8, network="other"),
    ]
    known = partial(by_precision, rows)
    wanted = Wanted(max_drop=0.02)
    (found,) = recommend_each(frame(THREE), board_modes(), wanted, accuracies_of=known)
    assert found.choice is not None
    assert found.choice.precision == "fp32"
