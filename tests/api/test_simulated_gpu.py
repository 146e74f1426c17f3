"""A simulated AGX Orin whose GPU kernels run on the stand-in: the real path, in virtual time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.roofs.roofline import rooflines
from mansard.core.errors import DeviceError
from mansard.core.records import Trial
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import create_board, running, snapshot


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo of two modes; the board is as it was before."""
    found = tmp_path_factory.mktemp("demo")
    root = create_board("agx-orin", found)
    with running(root):
        before = snapshot(root)
    done = api.demo_simulated(mode="15W,MAXN", folder=found)
    done.check()
    with running(root):
        assert snapshot(root) == before
    return found


def rows_of(folder: Path) -> list[Trial]:
    paths = sorted((folder / "runs").glob("*/trials.jsonl"))
    return [row for path in paths for row in read_rows(path, Trial, folder).rows]


def test_every_row_is_simulated_and_ran_on_the_sms_of_its_mode(folder: Path) -> None:
    rows = rows_of(folder)
    assert {row.source for row in rows} == {"simulated"}
    assert {row.processor for row in rows} == {"gpu"}
    assert {row.n_sms for row in rows} == {6, 16}  # three of eight TPCs are on in 15W
    assert not [row.disturbances for row in rows if row.disturbances]


def test_ceilings_are_those_of_the_stated_physics(folder: Path) -> None:
    dataset = open_runs([str(folder / "runs")])
    roofs = {roof.mode: roof for roof in rooflines(dataset)}
    peaks = {
        (mode, each.name): each.value
        for mode, roof in roofs.items()
        for each in (*roof.peaks, roof.bandwidth("DRAM"))
    }
    # 6 SMs x 256 FLOP a cycle x 408 MHz = 626.7 GFLOP/s; 16 x 2048 x 1300.5 MHz = 42.61 TFLOP/s;
    # DRAM of MAXN: 0.92 x 3199 MHz x 2 x 32 bytes = 188.4 GB/s. A launch takes 4 us of 2 ms.
    assert peaks["15W", "fp32"] == pytest.approx(626.7e9, rel=0.006)
    assert peaks["MAXN", "fp16 tensor"] == pytest.approx(42.61e12, rel=0.006)
    assert peaks["MAXN", "DRAM"] == pytest.approx(188.4e9, rel=0.006)


def test_power_of_a_busy_gpu_is_that_of_the_board(folder: Path) -> None:
    """The agx-orin's table: VDD_GPU_SOC 2.4 W idle, 30 W of the GPU at its highest clock."""
    rows = rows_of(folder)
    powers = [
        row.energy[0].total_j / row.energy[0].window_s
        for row in rows
        if row.n_sms == 16
        and row.kernel == "fma"
        and row.fma_per_element == 256
        and row.precision == "fp32"
        and row.energy
        and row.energy[0].total_j is not None
    ]
    # Idle rails 2.4 + 0.4 + 3.5 W, leakage of 15 C 3 %; GPU 30 W x (0.06 + 0.94 x 0.75) = 23 W;
    # clock trees of CPUs and memory: 0.06 x (13.9 + 3.4 + 2.3) = 1.2 W: together about 31 W.
    assert powers
    assert all(power == pytest.approx(31.0, rel=0.08) for power in powers)


def test_a_board_of_no_known_module_has_no_stand_in(tmp_path: Path) -> None:
    from mansard.device.identity import identify
    from mansard.sweeps.simulated_gpu import stand_in_gpu

    unknown = msgspec.structs.replace(identify(), board=None)
    with pytest.raises(DeviceError, match="its module is unknown"):
        stand_in_gpu(unknown)
