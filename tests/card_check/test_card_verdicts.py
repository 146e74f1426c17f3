"""What the table says of cards in software whose physics is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mansard.core.records import Trial
from mansard.microbench.cuda.sampling import GpuLimits
from tests.card_check.conftest import Checked
from tools.card_check import Software, goals
from tools.card_check.judging import judge
from tools.card_check.lines.compute import compute_lines
from tools.card_check.table import Criterion, Line, as_markdown, as_text, counts
from tools.card_check.workfolder import WorkFolder

Check = Callable[[Software], Checked]


def criterion(line: Line, of: str) -> Criterion:
    return next(one for one in line.criteria if one.of == of)


def test_a_card_that_reaches_what_such_cards_reach_fails_nowhere(checked: Check) -> None:
    h100 = checked("h100")
    assert h100.failed == {}
    assert counts(h100.lines)["pass"] > 20
    fp32 = h100.line("fma fp32")
    # 0.98 of 256 FLOP a cycle × 132 SMs × 1.755 GHz = 58.1 TFLOP/s, but for 4 µs of launch in 2 ms.
    assert fp32.value == "58 TFLOP/s"
    assert criterion(fp32, "the limit").value == pytest.approx(0.978, abs=0.001)
    # 0.93 of 2619 MHz × 2 × 5120 / 8 = 3.352 TB/s, but for the launch.
    assert criterion(h100.line("read DRAM"), "the limit").value == pytest.approx(0.93, abs=0.003)
    assert h100.line("latency L1").value == "33 cycles"


def test_mma_of_a_hopper_is_judged_by_cublas_in_the_same_run(checked: Check) -> None:
    line = checked("h100").line("mma bf16")
    # 0.62 of the limit over cuBLAS's 0.90.
    beside = criterion(line, "cuBLAS")
    assert beside.value == pytest.approx(0.62 / 0.90, abs=0.005)
    assert beside.least == 0.55
    assert criterion(line, "the limit").least is None
    assert line.verdict == "pass"


def test_integers_are_no_floating_point_operations(checked: Check) -> None:
    lines = [line for line in checked("h100").lines if "int8" in line.name]
    assert lines
    assert all(line.value.endswith(" TOP/s") for line in lines)


def test_a_slow_card_fails_in_rates_and_not_in_ratios(checked: Check) -> None:
    failed = checked("slow").failed
    rates = {"fma fp32", "fma fp64", "gemm bf16", "gemm fp64", "read DRAM", "triad DRAM", "read L1"}
    assert rates <= set(failed)
    # 0.7 of what the other one reaches: 0.98 × 0.7 = 0.686 of the limit.
    share = criterion(failed["fma fp32"], "the limit")
    assert share.value == pytest.approx(0.686, abs=0.002)
    # mma and cuBLAS are slow alike, and Numba as CUDA C++; clocks and latencies are as before.
    assert not {"mma bf16", "numba fma fp32", "launch"} & set(failed)


def test_more_than_the_limit_fails_and_is_named(checked: Check) -> None:
    failed = checked("broken").failed
    names = {f"{kernel} int8" for kernel in ("mma", "wgmma", "gemm")}
    assert set(failed) == names | {f"{name}, constant" for name in names}
    for line in failed.values():  # 1.2 of the limit, but for the launch
        assert re.search(r"int8 reached 1\.(19|20)\d* of what 132 SMs", line.failure)


def test_power_and_energy_come_from_the_replayed_counter(checked: Check) -> None:
    h100 = checked("h100")
    assert h100.line("pace of gpu0's counter").value == "100 ms"
    # 98 W and 0.98 × 256 × 132 × 1.755e9 FLOP/s of 5.94 pJ, 345 W, and what L2's bytes cost; the
    # chain of 256 moves one byte for 64 FLOP: 0.9 TB/s of 8 pJ, 7 W.
    constant = re.match(r"(\d+) W on constant data", h100.line("power of fma fp32").note)
    assert constant is not None
    assert int(constant[1]) == pytest.approx(98 + 345, rel=0.03)
    assert h100.line("energy of the trials").value != "none"
    assert "CV" in h100.line("energy of 8 equal windows").value


@pytest.fixture
def rows(checked: Check) -> tuple[Trial, ...]:
    return checked("h100").work.kernel_rows()


@pytest.mark.parametrize(("sm", "verdicts"), [(87, {"FAIL"}), (100, {"info"})])
def test_goals_are_those_of_the_compute_capability(
    checked: Check, rows: tuple[Trial, ...], sm: int, verdicts: set[str]
) -> None:
    gpu = checked("h100").work.gpu()
    assert gpu is not None
    # The same rows under limits of 8.7: mma.sync would have to reach 0.90 there. Of 10.0 nothing
    # is known, so that nothing is judged.
    limits = GpuLimits(msgspec.structs.replace(gpu, sm=sm, n_sms=264), None)
    own = [row for row in rows if row.kernel == "mma" and row.precision == "fp16"]
    lines = list(compute_lines(own, limits, {}))
    assert {line.verdict for line in lines} == verdicts
    assert [line.published for line in lines] == [""]


def test_a_kernel_that_is_absent_has_no_line(checked: Check, rows: tuple[Trial, ...]) -> None:
    gpu = checked("h100").work.gpu()
    assert gpu is not None
    own = [row for row in rows if row.kernel == "fma"]
    names = [line.name for line in compute_lines(own, GpuLimits(gpu, None), {})]
    assert sorted(names) == ["fma bf16", "fma fp16", "fma fp32", "fma fp64"]
    assert goals.goal_of("wgmma", "bf16", 90).of_cublas == 0.90


def test_pytorch_beside_it_is_judged_too(checked: Check, rows: tuple[Trial, ...]) -> None:
    gpu = checked("h100").work.gpu()
    assert gpu is not None
    own = [row for row in rows if row.kernel == "gemm" and row.precision == "bf16"]
    duel = {"ratio": 0.9, "low": 0.88, "high": 0.92, "peer_per_s": 947e12}
    (line,) = compute_lines(own, GpuLimits(gpu, None), {"gemm bf16": duel})
    assert line.verdict == "FAIL"
    assert "PyTorch 947 TFLOP/s" in line.note
    (line,) = compute_lines(own, GpuLimits(gpu, None), {"gemm bf16": {"why": "no such type"}})
    assert line.verdict == "pass"


def test_an_empty_folder_is_a_table_of_what_is_missing(tmp_path: Path) -> None:
    lines = judge(WorkFolder(tmp_path))
    assert [line.name for line in lines if line.verdict == "FAIL"] == ["kernels"]


def test_failures_stand_last_and_are_counted() -> None:
    lines = [
        Line("late", failure="it broke"),
        Line("fine", "1", (Criterion("the limit", 0.98, 0.97, 1.02),), note="a|b"),
        Line("told", "2"),
    ]
    text = as_text(lines).splitlines()
    assert [row.split()[0] for row in text[:3]] == ["pass", "info", "FAIL"]
    assert "0.980 of the limit (0.97 to 1.02)" in text[0]
    assert text[-1] == "1 passed, 1 failed, 1 for information"
    assert "a\\|b" in as_markdown(lines)
