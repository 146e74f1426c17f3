"""Groups by accelerator: differences of whole engines, demands and intervals, by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.counters.by_network import Counted, counted_bytes
from mansard.analytics.models.counters.importing import ExportOrigin
from mansard.analytics.models.predict.group_times import (
    Difference,
    group_times,
    leave_times,
    prefix_times,
    scaled_times,
)
from mansard.analytics.pages.tables.workloads import group_tables
from mansard.core.formats.onnx import label
from mansard.core.records import (
    Board,
    CounterRun,
    Measurement,
    MemoryUse,
    NetworkPart,
    PartKind,
    Spread,
)
from tests.analytics.factory import calm, machine, measurement, window, write_networks
from tests.analytics.score_factory import layer, score, write_scores
from tests.analytics.test_counters_check import kernel, rows_of

# Two-sided 95 % quantile of Student's t with two degrees of freedom.
T_2 = 4.302653
# Changes of 2 and −1 s: half of their mean square is (4 + 1) / 4 = 1.25 s², of one run.
WHOLE_S = {0: 10.0, 1: 12.0, 2: 11.0}


def test_leaving_costs_the_marked_network_less_the_two_beside_it() -> None:
    found = leave_times(WHOLE_S, {0: 13.0, 1: 11.0})
    # 13 − (10 + 12) / 2, and 11 − (12 + 11) / 2; one run and the mean of two: 1.5 variances.
    assert [each.value_s for each in found.values()] == pytest.approx([2.0, -0.5])
    assert found[0].half_s == pytest.approx(T_2 * (1.5 * 1.25) ** 0.5, rel=1e-5)
    # Only the one before it is there: 2 variances; one run of the whole says nothing of a second.
    assert leave_times(WHOLE_S, {2: 14.0})[2] == pytest.approx((3.0, T_2 * 2.5**0.5), rel=1e-5)
    assert leave_times({0: 10.0}, {0: 13.0})[0] == (3.0, None)
    assert leave_times({}, {0: 13.0}) == {}


def test_a_group_on_a_dla_is_the_difference_of_two_prefixes() -> None:
    found = prefix_times(WHOLE_S, {0: 4.0, 1: 9.0}, {}, 3)
    # The last prefix is the whole: (10 + 12 + 11) / 3 = 11, of a third of a variance.
    assert [each.value_s for each in found.values()] == pytest.approx([4.0, 5.0, 2.0])
    halves = [T_2 * (1.25 * n) ** 0.5 for n in (1, 2, 4 / 3)]
    assert [each.half_s for each in found.values()] == pytest.approx(halves, rel=1e-5)
    # Without the second prefix only the first group is known.
    assert list(prefix_times(WHOLE_S, {0: 4.0}, {}, 3)) == [0]
    # Each prefix gives out its last tensor: 4 − 0.5, 9 − 1 − 3.5 and 11 − 8. The second group has
    # two prefixes and two costs, of one and a half variances each: 1 + 1.5 + 1 + 1.5.
    leaves = leave_times(WHOLE_S, {0: 11.5, 1: 12.5})
    found = prefix_times(WHOLE_S, {0: 4.0, 1: 9.0}, leaves, 3)
    assert [each.value_s for each in leaves.values()] == pytest.approx([0.5, 1.0])
    assert [each.value_s for each in found.values()] == pytest.approx([3.5, 4.5, 3.0])
    assert found[1].half_s == pytest.approx(T_2 * (1.25 * 5) ** 0.5, rel=1e-5)


def test_groups_alone_are_scaled_to_the_whole_network() -> None:
    alone = {0: Difference(4.0, 0.04), 1: Difference(1.5, None)}
    found, share = scaled_times(WHOLE_S, alone, 2)
    # 4 + 1.5 where the whole takes (10 + 12 + 11) / 3 = 11: all count twice.
    assert share == pytest.approx(0.5)
    assert [each.value_s for each in found.values()] == pytest.approx([8.0, 3.0])
    # 1 % of its own, and of the whole the interval of a mean of three: a third of a variance.
    of_whole = T_2 * (1.25 / 3) ** 0.5 / 11
    assert found[0].half_s == pytest.approx(8 * (0.01**2 + of_whole**2) ** 0.5, rel=1e-5)
    assert found[1].half_s is None
    # A group that was not run, or no whole network: as they are.
    assert scaled_times(WHOLE_S, alone, 3) == scaled_times({}, alone, 2) == (alone, None)


def part(kind: PartKind, number: int, time_s: float, **known: Any) -> Measurement:
    """Of a network of two groups: nodes 0 and 1, and node 2."""
    groups = ((0, 1), (2,))
    nodes = (0, 1, 2) if kind != "stage" else groups[number]
    described = NetworkPart(
        whole="net",
        whole_hash=hashlib.sha256(b"net").hexdigest(),
        kind=kind,
        number=number,
        n_parts=2,
        nodes=nodes,
        op_types=("Conv",) * len(nodes),
    )
    values: dict[str, Any] = {"engine": "tensorrt", "provider": "tensorrt", "precision": "fp16"}
    name = f"net {kind} {number}"
    trial_id = f"{name} {known.get('options')}"
    return measurement(
        "r" * 16,
        (time_s,) * 9,
        model=name,
        trial_id=trial_id,
        part=described,
        **(values | known),
    )


def on_both() -> list[Measurement]:
    """The GPU's memory use is 0.5 and 0.25, the DLA's 0.1; of the DLA's network 80 % of layers."""
    dla = {"dla_core": "0", "dla_share": "0.8"}

    def used(share: float, **known: Any) -> dict[str, Any]:
        use = MemoryUse(mean_share=share, low_share=0, high_share=1, n_readings=9, source="actmon")
        return {"conditions": calm(memory_use=use), **known}

    metered = {"energy": (window({"VDD_IN": 20.0}, ["VDD_IN"], repetitions=1000),)}
    return [
        part("stage", 0, 0.002, **used(0.5), **metered),
        part("stage", 1, 0.001, **used(0.25)),
        part("prefix", 1, 0.0030),
        part("marked", 0, 0.0033),
        part("prefix", 2, 0.0032),
        part("stage", 0, 0.009, **used(0.1, options=dla)),
        part("stage", 1, 0.009, **used(0.1, options=dla)),
        part("prefix", 0, 0.005, options=dla),
        part("prefix", 1, 0.008, options=dla),
        part("marked", 0, 0.010, options=dla),
        part("prefix", 2, 0.008, options=dla),
    ]


def test_a_network_on_gpu_and_dla(tmp_path: Path) -> None:
    layers = [layer(n, 10**9, n_bytes) for n, n_bytes in enumerate((6_000_000, 4_000_000, 10**6))]
    write_scores(tmp_path, [score("net", layers, precision="fp16")])
    write_networks(tmp_path, on_both())
    dla, gpu = group_times(open_runs([tmp_path]))
    assert (dla.accelerator, gpu.accelerator) == ("dla0", "gpu")
    assert dla.machine_id == gpu.machine_id
    # On the GPU 2 and 1 ms alone, where the whole network takes 3.1; marked less that.
    assert gpu.alone_share == pytest.approx(3 / 3.1)
    assert [each.time_s for each in gpu.groups] == pytest.approx([0.0031 * 2 / 3, 0.0031 / 3])
    assert [each.leave_s for each in gpu.groups] == [pytest.approx(0.0002), None]
    # Fused bytes over time: 10 MB in 2.067 ms, 1 MB in 1.033; the board's bus is not known.
    assert [each.demand_byte_per_s for each in gpu.groups] == pytest.approx([15e9 / 3.1, 3e9 / 3.1])
    assert {each.demand_source for each in (*gpu.groups, *dla.groups)} == {"modelled"}
    # On the DLA differences: 5 ms less the 2 of leaving, then 8 − 3; what each takes alone (9 ms)
    # does not count.
    assert [each.time_s for each in dla.groups] == pytest.approx([0.003, 0.005])
    assert dla.groups[0].leave_s == pytest.approx(0.002)
    # HaX-CoNN's rule: the GPU's demand times the use on the DLA over that on the GPU.
    # 4.839 · 0.1 / 0.5 and 0.968 · 0.1 / 0.25 GB/s.
    assert [each.demand_byte_per_s for each in dla.groups] == pytest.approx(
        [3e9 / 3.1, 1.2e9 / 3.1]
    )
    assert dla.fallback_share == pytest.approx(0.2)
    assert gpu.fallback_share is None
    # Another cut stands beside it, though it is older.
    older = part("stage", 0, 0.004, started_utc="2025-01-01T00:00:00Z")
    write_networks(tmp_path, [replace(older, run_id="q" * 16, part=replace(older.part, n_parts=7))])
    cuts = [(each.accelerator, each.n_groups) for each in group_times(open_runs([tmp_path]))]
    assert cuts == [("dla0", 2), ("gpu", 2), ("gpu", 7)]
    (table,) = group_tables((dla, gpu))
    assert "Device" not in table.columns
    other = replace(gpu, machine_id="b" * 16, machine="Second Board")
    (of_both,) = group_tables((dla, other))
    names = of_both.column(of_both.columns.index("Device"))
    assert sorted(set(names)) == sorted((dla.machine, "Second Board"))
    alike = replace(gpu, machine_id="b" * 16)
    (of_equal_boards,) = group_tables((dla, alike))
    assert f"{dla.machine} (bbbbbb)" in of_equal_boards.column(0)
    assert len(table.rows) == 4


def test_numbers_of_two_runs_are_never_mixed(tmp_path: Path) -> None:
    """A later run has other cuts, and was killed behind its first group."""
    write_networks(tmp_path, on_both())
    later = [
        replace(part("stage", 0, 0.007), run_id="q" * 16, started_utc="2026-02-01T00:00:00Z"),
        replace(part("prefix", 2, 0.9), run_id="q" * 16, started_utc="2026-02-01T00:00:01Z"),
    ]
    later[0] = replace(later[0], part=replace(later[0].part, nodes=(0,), op_types=("Conv",)))
    write_networks(tmp_path, later)
    _, gpu = group_times(open_runs([tmp_path]))
    assert [each.nodes for each in gpu.groups] == [(0, 1), (2,)]
    # Alone 2 and 1 ms, of the 3.1 ms of the whole network.
    assert [each.time_s for each in gpu.groups] == pytest.approx([3.1e-3 * 2 / 3, 3.1e-3 / 3])
    # 3.3 ms less the mean of 3.0 and 3.2; not of 3.0 and the later 900 ms.
    assert gpu.groups[0].leave_s == pytest.approx(0.0002)
    (only,) = group_times(open_runs([tmp_path]), {"q" * 16})
    assert [each.nodes for each in only.groups] == [(0,)]
    # Of two runs with all groups the newer one counts, and of several engines the newest.
    for run_id, month, version in (("s" * 16, "03", "10"), ("t" * 16, "04", "11")):
        new = {"started_utc": f"2026-{month}-01T00:00:00Z", "run_id": run_id}
        rows = [part("stage", n, 0.005, engine_version=version) for n in (0, 1)]
        write_networks(tmp_path, [replace(row, **new) for row in rows][: 2 if month == "03" else 1])
    _, gpu = group_times(open_runs([tmp_path]))
    assert [each.time_s for each in gpu.groups] == [0.005]


def test_a_dla_without_a_whole_network_has_no_differences(tmp_path: Path) -> None:
    """Nor do its groups' own times stand in their place."""
    dla = {"dla_core": "0"}
    rows = [part("stage", n, 0.009, options=dla) for n in (0, 1)]
    write_networks(tmp_path, rows)
    (alone,) = group_times(open_runs([tmp_path]))
    assert [each.time_s for each in alone.groups] == [0.009, 0.009]  # no prefix was asked for
    rows += [part("prefix", 0, 0.005, options=dla)]
    rows += [part("prefix", n, 0.008, options=dla, disturbances=("throttled",)) for n in (1, 2)]
    write_networks(tmp_path, [replace(row, run_id="q" * 16) for row in rows])
    (found,) = group_times(open_runs([tmp_path]), {"q" * 16})
    assert [each.time_s for each in found.groups] == [None, None]
    assert {each.remark for each in found.groups} == {"a prefix was not measured"}


def test_prefixes_closer_than_the_noise_give_no_time(tmp_path: Path) -> None:
    dla = {"dla_core": "0"}
    times = (("prefix", 0, 0.009), ("prefix", 1, 0.008), ("prefix", 2, 0.008))
    rows = [part(kind, n, time_s, options=dla) for kind, n, time_s in times]  # type: ignore[arg-type]
    write_networks(tmp_path, [*rows, *(part("stage", n, 0.01, options=dla) for n in (0, 1))])
    (found,) = group_times(open_runs([tmp_path]))
    first, second = found.groups
    assert first.time_s == pytest.approx(0.009)
    assert second.time_s is None
    assert "differ by less than a run" in second.remark


def test_the_demand_that_a_board_reports_comes_first(tmp_path: Path) -> None:
    plain = machine("Jetson AGX Orin")
    board = Board(
        module="Jetson AGX Orin 64 GB",
        part_number="p3701-0005",
        soc="tegra234",
        l4t="36.4.7",
        jetpack="6.2.1",
    )
    unknown = {name: why for name, why in plain.unknown.items() if name != "board"}
    on = replace(plain, board=board, kind="jetson", unknown=unknown)

    def use(share: float) -> MemoryUse:
        return MemoryUse(mean_share=share, low_share=0, high_share=1, n_readings=9, source="actmon")

    hz = Spread(before=2e9, low=2e9, high=2e9, after=2e9)
    seen = [calm(memory_use=use(share), memory_clock_hz=hz) for share in (0.25, 0)]
    layers = [layer(n, 10**9, 10**6) for n in range(3)]
    write_scores(tmp_path, [score("net", layers, precision="fp16")])
    rows = [part("stage", n, 0.01, conditions=each) for n, each in enumerate(seen)]
    write_networks(tmp_path, rows, on=on)
    (found,) = group_times(open_runs([tmp_path]))
    # A quarter of 2 GHz · 2 · 256 bits / 8; 0 is below what the monitor resolves: 1 MB in 10 ms.
    assert [each.demand_byte_per_s for each in found.groups] == pytest.approx([32e9, 1e8])
    assert found.groups[1].demand_source == "modelled"
    assert found.groups[0].demand_source == "measured"


def test_the_demand_on_a_gpu_is_what_counters_say(tmp_path: Path) -> None:
    """Two calls of three kernels under Nsight Compute: 3 MB in the first group, 2 in the second."""
    layers = [layer(n, 10**9, n_bytes) for n, n_bytes in enumerate((6_000_000, 4_000_000, 10**6))]
    scored = score("net", layers, precision="fp16")
    write_scores(tmp_path, [scored])
    rows = on_both()
    write_networks(tmp_path, rows)

    def demands(*nodes: tuple[int, ...], **changed: str) -> tuple[list[float], set[str]]:
        """``nodes``: of each kernel, which moves 1 MB more than the one before it, from 1 MB on."""
        counters = [
            kernel("k", 0, 1e6 * (n + 1), 0, nvtx=(f"call {call}", "".join(map(label, own))))
            for call in range(2)
            for n, own in enumerate(nodes)
        ]
        origin = ExportOrigin(
            device="Example CPU",
            mode="2c",
            network="net",
            model_hash=scored.model_hash,
            batch=1,
            precision="fp16",
        )
        fields = [name for name in CounterRun.__struct_fields__ if hasattr(rows[0], name)]
        run = CounterRun(
            **{name: getattr(rows[0], name) for name in fields if name != "unknown"},
            tool="Nsight Compute 1",
            chip="ga10b",
            metrics=(),
            lacking=(),
            n_calls=2,
            cache_control="all",
            export="exports/a.csv",
            unknown={"failure": "it ran"},
        )
        run = replace(run, **{"model_hash": scored.model_hash} | changed)
        found = counted_bytes([Counted(rows_of(counters, origin), run)], [scored])
        chains = group_times(open_runs([tmp_path]), counted=found)
        groups = [each for chain in chains for each in chain.groups]
        values = [each.demand_byte_per_s or 0 for each in groups]
        return values, {each.demand_source or "" for each in groups}

    # (1 + 2) MB in 2 ms, 3 MB in 1 ms, each 3.1 / 3.0 as long in the whole network; on the DLA
    # by the ratio of uses, 0.1 / 0.5 and 0.1 / 0.25.
    longer = 3.1 / 3.0
    values, sources = demands((0,), (1,), (2,))
    assert [longer * each for each in values] == pytest.approx([0.3e9, 1.2e9, 1.5e9, 3e9])
    assert sources == {"measured"}
    # A kernel of both groups, and counters of another version: the modelled ones.
    for values, sources in (demands((0,), (1, 2)), demands((0,), (1,), (2,), engine_version="9")):
        assert [longer * each for each in values] == pytest.approx([1e9, 0.4e9, 5e9, 1e9])
        assert sources == {"modelled"}


@pytest.mark.shared_data
def test_recorded_transition_costs_follow_from_mean_times(shared_data: Path) -> None:
    """HaX-CoNN's own costs are the mean of the marked engine less that of the unmarked one."""
    name = "ismetdagli+HaX-CoNN__output_expected__transition_results.json"
    rows = json.loads((shared_data / "scheduling" / name).read_text(encoding="utf-8"))
    for device in ("gpu", "dla"):
        key = f"googlenet_{device}_mark_at_"
        times_s = {name: row["mean_time"] * 1e-3 for name, row in rows.items() if key in name}
        whole_s = times_s.pop(f"{key}-1")
        marked_s = dict(enumerate(times_s.values()))
        found = leave_times(dict.fromkeys(range(len(marked_s) + 1), whole_s), marked_s)
        costs_s = [rows[name]["transition_cost"] * 1e-3 for name in times_s]
        assert [each.value_s for each in found.values()] == pytest.approx(costs_s, abs=1e-9)
        assert len(costs_s) == 9
