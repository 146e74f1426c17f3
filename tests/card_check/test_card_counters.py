"""Nsight Compute's counts beside Mansard's: a made-up ncu counts what the program was to launch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mansard.core.errors import MansardError
from tools.card_check.lines.others import counter_lines
from tools.card_check.software import software_card
from tools.card_check.steps.counters import COUNTINGS, count_kernels
from tools.card_check.workfolder import WorkFolder

# Knows gh100 and the metrics that are asked for, runs the program, and prints a raw page in which
# each launch has what the program said, but the DRAM bytes of triad 1.2 times as many.
NCU = """#!{python}
import csv, json, subprocess, sys
from mansard.core.formats.ncu import CUDA_CORE_WORK, DRAM_TRAFFIC, L1_TRAFFIC, L2_TRAFFIC
from mansard.core.formats.ncu import TENSOR_CORE_WORK, base_name
NAMES = [*CUDA_CORE_WORK, *TENSOR_CORE_WORK, *DRAM_TRAFFIC, *L1_TRAFFIC, *L2_TRAFFIC]
words = sys.argv[1:]
if "--version" in words:
    print("NVIDIA (R) Nsight Compute\\nVersion 2025.3.1.0")
    sys.exit()
if "--query-metrics" in words:
    print("\\n".join(dict.fromkeys(map(base_name, NAMES))))
    sys.exit()
at = words.index("--metrics")
metrics, program = words[at + 1].split(","), words[at + 2:]
subprocess.run(program, check=True)
work = program[program.index("--work") + 1]
table = csv.writer(sys.stdout)
table.writerow(["ID", "Kernel Name", *metrics])
table.writerow(["", "", *("" for _ in metrics)])
def show(kernel, counts):
    table.writerow([0, kernel, *(counts.get(name, 0) for name in metrics)])
for one in json.load(open(work + "/counters_expected.json")):
    show("stamp_before", {{}})
    counts = {{}}
    if one["place"] in ("registers", ""):
        own = [n for n, m in CUDA_CORE_WORK.items() if m.precision == one["precision"]]
        fma = [name for name in own if "fma" in name]
        dense = [n for n, p in TENSOR_CORE_WORK.items() if p == one["precision"]]
        if one["kernel"] == "fma":
            counts[fma[0]] = one["flop"] / CUDA_CORE_WORK[fma[0]].flop
        else:
            counts[dense[0]] = one["flop"]
    else:
        level = {{"L1": L1_TRAFFIC, "L2": L2_TRAFFIC, "DRAM": DRAM_TRAFFIC}}[one["place"]]
        counts[level[0]] = one["bytes"] * (1.2 if one["kernel"] == "triad" else 1.0)
    if one["entry"]:
        show(one["entry"], counts)
    else:  # cuBLAS takes two kernels for a product
        for name in ("nvjet_a", "nvjet_b"):
            show(name, {{name: value / 2 for name, value in counts.items()}})
"""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ncu"
    program.write_text(NCU.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return program


@pytest.mark.usefixtures("ncu")
def test_each_launch_is_compared_and_one_that_differs_fails(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    counters = count_kernels(software_card("h100"), work, 120.0, "h100")
    lines = list(counter_lines(counters))
    # Eleven launches; those of L1 and L2 have a second line, of what passes on to the next level.
    assert len(lines) == len(COUNTINGS) + 2
    failed = [line for line in lines if line.verdict == "FAIL"]
    assert [line.name for line in failed] == ["counted triad fp32 DRAM: DRAM bytes"]
    assert failed[0].value == "1.2000"
    assert {line.value for line in lines if "FLOP" in line.name or "operations" in line.name} == {
        "1.0000"
    }


def test_without_ncu_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MansardError, match="ncu is neither on PATH"):
        count_kernels(software_card("h100"), WorkFolder(tmp_path), 60.0, "h100")
    (line,) = counter_lines({"why": "ncu is neither on PATH"})
    assert line.verdict == "info"
