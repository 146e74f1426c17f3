"""The memory's use that a board reports beside the modelled traffic, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.memory_use import MemoryTraffic, memory_traffic
from mansard.analytics.pages.tables.workloads import memory_table
from mansard.core.records import Board, MemoryUse, ModelScore, Spread
from mansard.core.storage.jsonl import write_rows
from mansard.estimator import zoo
from mansard.estimator.scoring import score
from tests.analytics.factory import calm, machine, measurement, write_networks

NAME = "conv64_112x56_k1"
EMC_HZ = 2.0e9


def use(source: str = "actmon") -> MemoryUse:
    return MemoryUse(mean_share=0.25, low_share=0.0, high_share=0.4, n_readings=9, source=source)


def clock(low: float = EMC_HZ) -> Spread:
    return Spread(before=EMC_HZ, low=low, high=EMC_HZ, after=EMC_HZ)


def scored(runs: Path) -> ModelScore:
    found = score(zoo.read(NAME), name=NAME, batch=1)
    runs.mkdir(exist_ok=True)
    write_rows(runs / "scores.jsonl", ModelScore, [found], runs)
    return found


def write(
    runs: Path,
    *,
    part_number: str = "p3701-0005",
    dimensions: dict[str, int] | None = None,
    **conditions: Any,
) -> None:
    """A run of the convolution on an AGX Orin: a bus of 256 bits."""
    found = scored(runs)
    row = measurement(
        "r" * 16,
        (0.0005,) * 9,
        model=NAME,
        model_hash=found.model_hash,
        dimensions=found.dimensions if dimensions is None else dimensions,
        conditions=calm(**conditions),
    )
    board = Board(
        module="Jetson AGX Orin 64 GB",
        part_number=part_number,
        soc="tegra234",
        l4t="36.4.7",
        jetpack="6.2.1",
    )
    plain = machine("Jetson AGX Orin")
    unknown = {name: why for name, why in plain.unknown.items() if name != "board"}
    on = msgspec.structs.replace(plain, board=board, kind="jetson", unknown=unknown)
    write_networks(runs, [row], on=on)


def test_the_comparison_by_hand(tmp_path: Path) -> None:
    write(tmp_path, memory_use=use(), memory_clock_hz=clock())
    (found,) = memory_traffic(open_runs([tmp_path]))
    # 2 GHz · 2 · 256 / 8 = 128 GB/s, of which a quarter was in use: 32 GB/s.
    assert found.peak_bytes_per_s == pytest.approx(128e9)
    assert found.reported_bytes_per_s == pytest.approx(32e9)
    # One pixel of padding: 114 · 58 outputs of 112 · 56 inputs, 64 channels of 4 bytes, and
    # 64 · 64 weights with 64 biases.
    n_bytes = 4 * (64 * 112 * 56 + 64 * 114 * 58 + 64 * 64 + 64)
    assert found.traffic_bytes == n_bytes == 3_314_944
    # In 0.5 ms.
    assert found.modelled_bytes_per_s == pytest.approx(n_bytes / 0.0005)
    assert found.ratio == pytest.approx(n_bytes / 0.0005 / 32e9)
    (table,) = memory_table([found])
    assert table.rows[0][table.columns.index("GB/s reported")] == "32.00"


def test_traffic_is_of_the_dimensions_that_ran(tmp_path: Path) -> None:
    """Scores of other sequences of the same graph, whichever comes last, are of another network."""
    write(tmp_path, memory_use=use(), memory_clock_hz=clock(), dimensions={"sequence": 8})
    base = score(zoo.read(NAME), name=NAME, batch=1)
    layer = next(row for row in base.layers if row.fused_traffic_bytes)

    def of(sequence: int, n_bytes: int, cache_bytes: int | None = None) -> ModelScore:
        one = msgspec.structs.replace(layer, fused_traffic_bytes=n_bytes)
        return msgspec.structs.replace(
            base,
            layers=(one,),
            dimensions={"sequence": sequence},
            cache_bytes=cache_bytes,
            unknown=base.unknown if cache_bytes is None else {},
        )

    def found(*scores: ModelScore) -> MemoryTraffic:
        (tmp_path / "scores.jsonl").unlink()
        write_rows(tmp_path / "scores.jsonl", ModelScore, scores, tmp_path)
        (row,) = memory_traffic(open_runs([tmp_path]))
        return row

    assert found(of(8, 1000), of(512, 7000)).traffic_bytes == 1000
    assert found(of(512, 7000), of(8, 1000)).traffic_bytes == 1000
    other = found(of(512, 7000))
    assert other.traffic_bytes is None
    assert "not scored with these dimensions" in other.unknown["ratio"]
    differing = found(of(8, 1000), of(8, 2000, cache_bytes=4096))
    assert differing.unknown["traffic_bytes"] == (
        "its scores differ in traffic, as by the trips of a loop"
    )


def test_a_clock_that_changed_gives_shares_and_no_bytes(tmp_path: Path) -> None:
    write(tmp_path, memory_use=use(), memory_clock_hz=clock(low=1.0e9))
    (found,) = memory_traffic(open_runs([tmp_path]))
    assert found.mean_share == 0.25
    assert found.reported_bytes_per_s is None
    assert "changed between 1000 and 2000 MHz" in found.unknown["reported_bytes_per_s"]
    assert found.ratio is None


def test_a_module_that_is_not_known_gives_no_bytes(tmp_path: Path) -> None:
    write(tmp_path, part_number="p9999-0000", memory_use=use(), memory_clock_hz=clock())
    (found,) = memory_traffic(open_runs([tmp_path]))
    assert found.unknown["peak_bytes_per_s"] == "the bus of this board's memory is unknown"


def test_a_share_of_time_is_no_share_of_bandwidth(tmp_path: Path) -> None:
    write(tmp_path, memory_use=use("NVML, share of time"), memory_clock_hz=clock())
    assert memory_traffic(open_runs([tmp_path])) == ()


def test_a_board_that_reports_nothing_has_no_row(tmp_path: Path) -> None:
    write(tmp_path)
    assert memory_traffic(open_runs([tmp_path])) == ()
    assert memory_table(()) == []
