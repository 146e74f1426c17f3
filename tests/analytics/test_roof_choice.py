"""Which kernel makes the roof of a level, and which prices the traffic of networks."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.analytics.models.roofs.roofline import (
    NOT_SETTLED,
    TOO_FAST,
    Roofline,
    choose_roof,
    most_ratio,
    rooflines,
)
from mansard.analytics.models.sanity.runs import _roughness
from mansard.analytics.pages.results import compute
from tests.analytics.factory import MIB, fma_trials, manifest, trial, write_run
from tests.analytics.score_factory import layer, score, write_scores

# Recorded on a shared virtual machine from main memory, GB/s: the copy did not settle.
RECORDED = {"read": 42.4e9, "triad": 50e9, "scale": 61e9, "copy": 94.9e9}


def roof_of(runs: Path, unsettled: set[str], rates: dict[str, float] = RECORDED) -> Roofline:
    trials = [
        trial(
            "r",
            kernel,
            rate,
            working_set_bytes=128 * MIB,
            stability="unstable" if kernel in unsettled else "stable",
        )
        for kernel, rate in rates.items()
    ]
    write_run(runs / "r", manifest("r", 2, len(trials)), [*fma_trials("r"), *trials])
    (found,) = rooflines(ingest(runs))
    return found


def test_a_kernel_that_did_not_settle_makes_no_roof(tmp_path: Path) -> None:
    roof = roof_of(tmp_path, {"copy"})
    assert roof.bandwidth("DRAM").kernel == "scale"
    assert roof.bandwidth("DRAM").value == pytest.approx(61e9)
    ((left_out, why),) = roof.left_out("DRAM")
    assert (left_out.kernel, why) == ("copy", NOT_SETTLED)


@pytest.mark.parametrize("unsettled", [set(), set(RECORDED)])
def test_nor_does_one_that_the_others_rule_out(tmp_path: Path, unsettled: set[str]) -> None:
    # 94.9 / 61 = 1.56 of the scale, which moves the same, and 1.9 of the triad, of which a copy
    # can be 4/3: 1.25 and 1.67 with another overlap. 2.2 of the read is within 2 × 1.25.
    roof = roof_of(tmp_path, unsettled)
    assert roof.bandwidth("DRAM").kernel == "scale"
    assert [(c.kernel, why) for c, why in roof.left_out("DRAM")] == [("copy", TOO_FAST)]


def test_traffic_is_priced_at_the_rate_of_reads(tmp_path: Path) -> None:
    # One layer of 424 MB and next to no work: 424e6 / 42.4e9 = 10 ms, under the copy 4.5 ms.
    write_scores(tmp_path, [score("net", [layer(0, 1000, 424 * 10**6)])])
    roof = roof_of(tmp_path, {"copy"})
    assert roof.traffic_bandwidth().kernel == "read"
    results = compute(ingest(tmp_path))
    assert results.networks["time_s"].to_list() == [pytest.approx(10e-3)]
    assert results.predictions["latency_s"].to_list() == [pytest.approx(10e-3)]


def test_reads_that_did_not_settle_price_nothing_beside_others_that_did(tmp_path: Path) -> None:
    roof = roof_of(tmp_path, {"copy", "read"})
    assert roof.traffic_bandwidth().kernel == "scale"


def test_reads_above_the_roof_price_nothing(tmp_path: Path) -> None:
    # The lower end decides the roof: reads between 21 and 84 GB/s are no better known than 40.
    wild = (0.5, 0.6, 0.9, 1.0, 1.1, 1.6, 2.0)
    trials = [
        trial("r", "read", 42e9, working_set_bytes=128 * MIB, spread=wild),
        trial("r", "copy", 40e9, working_set_bytes=128 * MIB),
    ]
    write_run(tmp_path / "r", manifest("r", 2, 2), trials)
    (roof,) = rooflines(ingest(tmp_path))
    assert roof.bandwidth("DRAM").kernel == roof.traffic_bandwidth().kernel == "copy"


def test_two_blocks_of_reads_neither_price_nor_rule_out(tmp_path: Path) -> None:
    trials = [
        trial("r", "read", 20e9, working_set_bytes=128 * MIB, spread=(1.0, 1.01)),
        trial("r", "triad", 60e9, working_set_bytes=128 * MIB),
    ]
    write_run(tmp_path / "r", manifest("r", 2, 2), trials)
    (roof,) = rooflines(ingest(tmp_path))
    assert roof.bandwidth("DRAM").kernel == roof.traffic_bandwidth().kernel == "triad"


def test_within_a_kernel_settled_trials_decide(tmp_path: Path) -> None:
    trials = [
        trial("r", "read", 16e9, working_set_bytes=128 * MIB),
        trial("r", "read", 31e9, working_set_bytes=160 * MIB, stability="unstable"),
    ]
    write_run(tmp_path / "r", manifest("r", 2, 2), trials)
    (roof,) = rooflines(ingest(tmp_path))
    assert roof.bandwidth("DRAM").value == pytest.approx(16e9)
    assert roof.bandwidth("DRAM").stable is True


@pytest.mark.parametrize(
    ("kernel", "other", "most"),
    [
        ("copy", "scale", 1.0),  # the same traffic
        ("copy", "read", 2.0),  # half of what a copy moves are loads
        ("triad", "read", 1.5),  # two thirds
        ("copy", "triad", 4 / 3),  # where loads are all that takes time: 2 / 1 beside 3 / 2
        ("triad", "copy", 1.5),  # where stores are: 3 / 1 beside 2 / 1
        ("read", "copy", None),
        ("gather", "read", None),
    ],
)
def test_most_ratio(kernel: str, other: str, most: float | None) -> None:
    assert most_ratio(kernel, other) == (None if most is None else pytest.approx(most))


def made(kernel: str, value: float, width: float, *, stable: bool) -> Ceiling:
    return Ceiling(
        subject="DRAM",
        family="stream",
        kernel=kernel,
        backend="numba-cpu",
        unit="B/s",
        value=value,
        low=value / width,
        high=value * width,
        n_blocks=9,
        trial_ids=(kernel,),
        sets_bytes=(1, 1),
        n_disturbed=0,
        stable=stable,
        source="measured",
    )


names = st.sampled_from(["read", "copy", "scale", "triad", "gather"])
rates = st.floats(min_value=1e9, max_value=1e12)
widths = st.floats(min_value=1.0, max_value=3.0)
ceilings = st.builds(made, names, rates, widths, stable=st.booleans())
levels = st.lists(ceilings, min_size=1, max_size=6)


@given(levels, st.builds(made, names, rates, widths, stable=st.just(False)))
def test_one_more_that_did_not_settle_never_raises_the_roof(
    found: list[Ceiling], one: Ceiling
) -> None:
    before, after = choose_roof(found), choose_roof([*found, one])
    if any(each.stable for each in found):
        assert (after.roof, after.traffic) == (before.roof, before.traffic)


@given(levels)
def test_there_is_always_a_roof_and_traffic_is_never_faster(found: list[Ceiling]) -> None:
    choice = choose_roof(found)
    assert choice.roof in found
    assert choice.traffic.value is not None
    assert choice.roof.value is not None
    assert choice.traffic.value <= choice.roof.value
    assert all(each is not choice.roof for each, _ in choice.left_out)


@given(levels, st.randoms())
def test_the_order_of_kernels_does_not_matter(found: list[Ceiling], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = choose_roof(found), choose_roof(shuffled)
    assert (one.roof.value, one.roof.low) == (other.roof.value, other.roof.low)


@given(st.floats(0.1, 10.0), st.floats(0.1, 10.0), st.floats(0.0, 1.0))
def test_kernels_of_one_memory_never_rule_each_other_out(
    load_s: float, store_s: float, overlap: float
) -> None:
    """Times between max(r·a, s·b) and r·a + s·b, all with the same overlap."""
    found = []
    for kernel, (loads, stores) in {
        "read": (1, 0),
        "copy": (1, 1),
        "scale": (1, 1),
        "triad": (2, 1),
    }.items():
        together = max(loads * load_s, stores * store_s)
        apart = loads * load_s + stores * store_s
        time_s = overlap * together + (1 - overlap) * apart
        found.append(made(kernel, (loads + stores) * 1e9 / time_s, 1.0, stable=True))
    assert choose_roof(found).left_out == ()


@pytest.mark.parametrize(
    ("low", "value", "high", "expected"),
    [(90.0, 100.0, 105.0, 0.1), (98.0, 100.0, 130.0, 0.3), (None, 100.0, 105.0, math.inf)],
)
def test_how_rough_a_ceiling_is(
    tmp_path: Path, low: float | None, value: float, high: float, expected: float
) -> None:
    """The wider side of the interval over the value."""
    measured = roof_of(tmp_path, set()).bandwidth("DRAM")
    unknown = {} if low is not None else {"low": "too few blocks"}
    ceiling = msgspec.structs.replace(measured, low=low, value=value, high=high, unknown=unknown)
    assert _roughness(ceiling) == pytest.approx(expected)
