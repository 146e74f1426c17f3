"""The loop of docs/use/your-program.md: plan, measure, recommend, on a board with twenty modes.

The program stands in for a language model: how long its two phases take follows from the clocks
of the simulated board, and what the board draws from its physics under the program's load.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.simulator import create_board, running, set_load
from mansard.simulator.boards import BY_NAME
from mansard.simulator.clocks import Shares, dynamic, rail_powers

pytestmark = pytest.mark.usefixtures("before_all")

ROOT = Path(__file__).resolve().parents[2]
MANSARD = [sys.executable, "-m", "mansard.cli"]
# Of each phase: cycles of the GPU, cycles of the memory, and how busy it keeps GPU and memory.
PHASES = {"prefill": (0.5e9, 0.4e9, 0.95, 0.4), "decode": (0.3e9, 2.3e9, 0.5, 0.9)}
PROGRAM = f"""
import sys, time
from pathlib import Path
from mansard import api
from mansard.simulator import set_load

board = Path("board/agx-orin")
gpu, memory = (
    board / "sys/class/devfreq/17000000.gpu/cur_freq",
    board / "sys/kernel/debug/bpmp/debug/clk/emc/rate",
)
for name, (gpu_cycles, memory_cycles, gpu_share, memory_share) in {PHASES!r}.items():
    hz, memory_hz = int(gpu.read_text()), int(memory.read_text())
    took_s = max(gpu_cycles / hz, memory_cycles / memory_hz)
    set_load(board, cpu=0.1, gpu=gpu_share, memory=memory_share)
    with api.window(name):
        time.sleep(took_s)
set_load(board, cpu=0.0)
print(f"tokens/s: {{32 / took_s:.2f}}")
"""


def commands() -> list[list[str]]:
    """The commands of the loop, as the document has them."""
    text = (ROOT / "docs/use/your-program.md").read_text(encoding="utf-8")
    block = re.findall(r"```console\n(.*?)```", text, re.DOTALL)[-1]
    return [shlex.split(line.removeprefix("$ mansard")) for line in block.splitlines()]


def energy_j(mode: str) -> float:
    """Of one run of the phases in a mode, by the board's physics, at one temperature."""
    board = BY_NAME["agx-orin"]
    gpu_hz, memory_hz = (int(mhz) * 1e6 for mhz in re.findall(r"(?:gpu|emc)(\d+)MHz", mode))
    cpu = 8 / 12 * dynamic(1728e6 / (board.clusters[0].khz[-1] * 1e3), 0.1)
    total_j = 0.0
    for gpu_cycles, memory_cycles, gpu_share, memory_share in PHASES.values():
        shares = Shares(
            cpu=cpu,
            # The mode that the board starts in has half of its TPCs on.
            gpu=0.5 * dynamic(gpu_hz / board.gpus[0].hz[-1], gpu_share),
            memory=dynamic(memory_hz / board.emc_hz[-1], memory_share),
        )
        powers_w = rail_powers(board.rails, shares, temperature_c=50.0)
        total_w = sum(powers_w[rail] for rail in ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"))
        total_j += total_w * max(gpu_cycles / gpu_hz, memory_cycles / memory_hz)
    return total_j


@pytest.mark.slow
def test_the_loop_finds_a_mode_near_the_best(tmp_path: Path) -> None:
    (tmp_path / "llm.py").write_text(PROGRAM)
    text = (ROOT / "docs/use/your-program.md").read_text(encoding="utf-8")
    (grid,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "grid.toml").write_text(grid)
    every = [f"gpu{mhz}MHz_emc{emc}MHz" for mhz in range(306, 1225, 102) for emc in (2133, 3199)]
    assert len(every) == 20
    said: list[str] = []
    first = next(command for command in commands() if command[0] == "measure")
    with running(create_board("agx-orin", tmp_path / "board")) as board:
        set_load(board, cpu=0.0)
        for command in commands():
            n_words = 2 if command[0] == "board" else 1
            words = [*command[:n_words], "--board", str(board), *command[n_words:]]
            if command[0] == "measure":
                # Those that the plan before it named; on a busy machine the second may differ.
                (modes,) = re.findall(r"^mansard \w+ --mode (\S+)", said[-1], re.MULTILINE)
                if command == first:
                    assert command[command.index("--mode") + 1] == modes
                words[words.index("--mode") + 1] = modes
                # One run is known to 3 %, which is more than the best modes differ by.
                words[1:1] = ["--profile", "brief", "--repeat", "3"]
                words[words.index("python3")] = sys.executable
            done = subprocess.run(
                [*MANSARD, *words], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            said.append(done.stdout)
    # The second plan names the command that measures its mode, for this program.
    assert "mansard measure --mode gpu" in said[3]
    assert "--name llm" in said[3]
    (chosen,) = re.findall(r"^(gpu\S+) (?:uses|is predicted)", said[5], re.MULTILINE)
    # Three runs of each of two modes are known to 2.4 % of one another: five modes lie within 3 %.
    assert energy_j(chosen) <= 1.03 * min(energy_j(mode) for mode in every)
