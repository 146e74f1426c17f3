"""What an H100 measured on 2026-11-27: the lines made of its rows, beside arithmetic by hand."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tools.card_check.judging import judge
from tools.card_check.table import Line
from tools.card_check.workfolder import WorkFolder

RECORDED = Path(__file__).parent / "recorded/h100_runs.tar.gz"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> WorkFolder:
    folder = WorkFolder(tmp_path_factory.mktemp("h100"))
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder.runs, filter="data")
    folder.write("kernels", {"n_planned": 78, "problems": []})
    return folder


@pytest.fixture(scope="module")
def lines(work: WorkFolder) -> dict[str, Line]:
    return {line.name: line for line in judge(work)}


def test_every_trial_of_the_plan_has_time_and_energy(work: WorkFolder) -> None:
    rows = work.kernel_rows()
    assert len(rows) == 78
    assert all(row.seconds_s and row.energy for row in rows)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        # Of 132 SMs at the clock in the row. fp32: 65.44 TFLOP/s of 256 FLOP a cycle at 1994 MHz,
        # 67.4 TFLOP/s. wgmma in bf16: 928.5 of 4096 at 1745 MHz, 943.5. Reads: 3.108 TB/s of
        # 2619 MHz x 2 x 5120 bit / 8, 3.352 TB/s.
        ("fma fp32", 0.971),
        ("wgmma bf16", 0.984),
        ("read DRAM", 0.927),
    ],
)
def test_shares_of_the_limit(lines: dict[str, Line], name: str, share: float) -> None:
    assert lines[name].criteria[0].value == pytest.approx(share, abs=0.003)
    assert lines[name].verdict == "pass"


def test_one_kernel_of_a_sound_card_misses_its_goal(lines: dict[str, Line]) -> None:
    assert [name for name, line in lines.items() if line.verdict == "FAIL"] == ["copy DRAM"]


def test_power_stays_within_the_limit_of_the_card(lines: dict[str, Line]) -> None:
    assert lines["highest power"].criteria[0].value == pytest.approx(715 / 700, abs=0.001)
