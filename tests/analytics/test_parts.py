"""Layers that were run alone: the terms of their sum against the whole, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.parts import measured_parts, part_sums
from mansard.analytics.pages.tables.workloads import operators_text, signed_share
from mansard.core.records import LayerTime, Measurement, NetworkPart, chain_name
from tests.analytics.factory import measurement, window, write_networks


def layer(index: int, nodes: tuple[int, ...] | None, seconds_s: float) -> LayerTime:
    return LayerTime(
        index=index,
        name=f"layer{index}",
        op_type="Conv",
        provider="CPU",
        nodes=nodes,
        runs=1,
        seconds_s=(seconds_s,),
        unknown={} if nodes is not None else {"nodes": "the engine does not say"},
    )


def timed(model: str, seconds_s: float, *layers: LayerTime, **changes: Any) -> Measurement:
    return measurement(
        "r" * 16, (seconds_s,), model=model, layers=layers, profiled_s=(seconds_s,), **changes
    )


def at(row: Measurement, run_id: str, started_utc: str) -> Measurement:
    """``row`` as one of another run at another time."""
    return msgspec.structs.replace(row, run_id=run_id, started_utc=started_utc)


def part(number: int, nodes: tuple[int, ...], n_parts: int = 3) -> NetworkPart:
    return NetworkPart(
        whole="net",
        whole_hash="a" * 16,
        kind="layer",
        number=number,
        n_parts=n_parts,
        nodes=nodes,
        op_types=("Conv",) * len(nodes),
    )


# The whole: nodes 0 and 1 are one layer of the engine (they are two parts), 2 another, and a
# reorder before and after.
WHOLE = timed(
    "net",
    0.100,
    layer(0, (), 0.002),
    layer(1, (0, 1), 0.050),
    layer(2, (2,), 0.040),
    layer(3, (), 0.003),
)
PARTS = (
    timed("net layer 0", 0.036, layer(0, (), 0.002), layer(1, (0,), 0.030), part=part(0, (0,))),
    timed("net layer 1", 0.032, layer(0, (1,), 0.028), layer(1, (), 0.001), part=part(1, (1,))),
    timed("net layer 2", 0.040, layer(0, (), 0.002), layer(1, (2,), 0.035), part=part(2, (2,))),
)
# t(n) = call + n · node: 64 ms more for 64 nodes more, so a node takes 1 ms and a call 0.5 ms.
CHAINS = (timed(chain_name(1), 0.0015), timed(chain_name(65), 0.0655))


def test_the_terms_by_hand(tmp_path: Path) -> None:
    write_networks(tmp_path, (WHOLE, *PARTS, *CHAINS))
    (found,) = part_sums(open_runs([tmp_path]))
    assert (found.kind, found.n_parts, found.n_measured, found.n_fused) == ("layer", 3, 3, 1)
    # 36 + 32 + 40 = 108 ms against 100.
    assert found.parts_s == pytest.approx(0.108)
    assert found.difference_s == pytest.approx(0.008)
    # Two calls more, 0.5 ms each.
    assert found.calls_s == pytest.approx(0.001)
    # Added at the cuts: 2 + 1 + 2 = 5 ms; in the whole 2 + 3 = 5 ms.
    assert found.conversions_s == pytest.approx(0.0, abs=1e-9)
    # 30 + 28 alone against 50 together.
    assert found.fusion_s == pytest.approx(0.008)
    # 35 alone against 40 in the network.
    assert found.caches_s == pytest.approx(-0.005)
    # 8 − (1 + 0 + 8 − 5) = 4
    assert found.rest_s == pytest.approx(0.004)


def test_without_chains_calls_are_in_the_rest(tmp_path: Path) -> None:
    write_networks(tmp_path, (WHOLE, *PARTS))
    (found,) = part_sums(open_runs([tmp_path]))
    assert found.calls_s is None
    assert "rest" in found.unknown["calls_s"]
    assert found.rest_s == pytest.approx(0.005)


def test_some_parts_have_a_sum_and_no_difference(tmp_path: Path) -> None:
    write_networks(tmp_path, (WHOLE, *PARTS[:2], *CHAINS))
    (found,) = part_sums(open_runs([tmp_path]))
    assert found.parts_s == pytest.approx(0.068)
    assert found.difference_s is None
    assert found.unknown["difference_s"] == "2 of its 3 parts were measured"


def test_an_earlier_cut_of_the_same_network_is_no_part_of_the_sum(tmp_path: Path) -> None:
    """An older version cut it in two, of 50 and 60 ms: parts 0 and 1 of 2."""
    older = [
        timed(f"net old {number}", 0.05 + 0.01 * number, part=part(number, nodes, n_parts=2))
        for number, nodes in enumerate([(0,), (1, 2)])
    ]
    early = [at(row, "o" * 16, "2025-01-02T03:04:05Z") for row in older]
    write_networks(tmp_path, early)
    write_networks(tmp_path, (WHOLE, *PARTS, *CHAINS))
    (found,) = part_sums(open_runs([tmp_path]))
    assert (found.n_parts, found.n_measured) == (3, 3)
    # 36 + 32 + 40
    assert found.parts_s == pytest.approx(0.108)
    assert len(measured_parts(open_runs([tmp_path]))) == 3


@pytest.mark.parametrize("changes", [{"dimensions": {"sequence": 512}}, {"engine_version": "9"}])
def test_a_whole_that_ran_otherwise_is_not_the_whole(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    write_networks(tmp_path, (WHOLE, *PARTS, *CHAINS))
    before = part_sums(open_runs([tmp_path]))
    late = at(timed("net", 0.4, **changes), "n" * 16, "2027-01-02T03:04:05Z")
    write_networks(tmp_path, [late])
    assert part_sums(open_runs([tmp_path])) == before
    assert before[0].whole_s == pytest.approx(0.100)


def test_parts_without_their_whole_say_so(tmp_path: Path) -> None:
    write_networks(tmp_path, PARTS)
    (found,) = part_sums(open_runs([tmp_path]))
    assert found.whole_s is None
    assert found.difference_s is None
    assert "no time is known of the whole network" in found.unknown["rest_s"]


def test_an_engine_that_does_not_trace_its_layers_gives_no_terms(tmp_path: Path) -> None:
    untraced = timed("net", 0.1, layer(0, None, 0.1))
    write_networks(tmp_path, (untraced, *PARTS, *CHAINS))
    (found,) = part_sums(open_runs([tmp_path]))
    assert found.parts_s == pytest.approx(0.108)
    assert found.difference_s is None
    assert "does not say" in found.unknown["difference_s"]


def test_a_profile_that_was_disturbed_gives_no_terms(tmp_path: Path) -> None:
    """Layers of 285 ms in a network of 100 ms explain nothing."""
    slow = timed("net", 0.1, layer(0, (0, 1), 0.2), layer(1, (2,), 0.085))
    write_networks(tmp_path, (slow, *PARTS, *CHAINS))
    (found,) = part_sums(open_runs([tmp_path]))
    assert found.caches_s is None
    # 200 + 85 = 285 ms over 100 ms
    assert "take 2.9 times" in found.unknown["caches_s"]


def test_a_part_has_its_time_in_the_network_and_its_energy(tmp_path: Path) -> None:
    # 8 W over 2 s of 1000 calls: 16 J, 16 mJ a call; 3 W of them are idle: 10 mJ above.
    metered = timed(
        "net layer 2",
        0.002,
        layer(0, (2,), 0.002),
        part=part(2, (2,)),
        energy=(window({"VDD_IN": 8.0}, ["VDD_IN"], repetitions=1000),),
    )
    idle = (window({"VDD_IN": 3.0}, ["VDD_IN"]),)
    write_networks(tmp_path, (WHOLE, *PARTS[:2], metered), idle=idle)
    first, second, third = measured_parts(open_runs([tmp_path]))
    assert third.energy_j == pytest.approx(0.016)
    assert third.above_idle_j == pytest.approx(0.010)
    assert third.power_w == pytest.approx(8.0)
    assert third.in_network_s == pytest.approx(0.040)
    assert [each.part.number for each in (first, second, third)] == [0, 1, 2]
    # Nodes 0 and 1 are in one layer of the engine: each part has all of it.
    assert first.in_network_s == pytest.approx(0.050)
    assert first.energy_j is None


def test_words_of_tables() -> None:
    assert operators_text(("Conv", "Relu")) == "Conv, Relu"
    assert operators_text(("A", "B", "C", "D", "E", "F")) == "A, B, C, D and 2 more"
    assert signed_share(-0.002, 0.1) == "−2.0\N{NO-BREAK SPACE}%"
    assert signed_share(None, 0.1) == "unknown"
