"""How near the best mode is what ``recommend`` says of a program, after few measured modes?

    python benchmarks/program_modes.py [--programs 25] [--seed 1] [--most 3]

Random programs of one to three phases on a simulated AGX Orin with twenty modes, ten clocks of the
GPU and two of the memory. A phase takes so many cycles of the GPU or so many of the memory, what
takes longer; what the board draws meanwhile is the simulator's physics. Time and energy of one run
have a relative error of 0.3 % and 0.5 %. Four modes are those of the first ``plan``; then ``plan``
picks one mode after the other, up to ``--most``.

Printed: by how much more energy the recommended mode takes than the best of all twenty, for each
number of measured modes: median, worst, and how many programs are within 2 %.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from mansard import api
from mansard.api import results
from mansard.core.hashing import content_hash
from mansard.core.records import EnergyWindow, PowerMode, ProgramRun
from mansard.core.storage.documents import write_document
from mansard.core.storage.jsonl import write_rows
from mansard.device.controller import LocalController
from mansard.simulator import create_board, running
from mansard.simulator.boards import BY_NAME
from mansard.simulator.clocks import Shares, dynamic, rail_powers

_GRID = 'gpu = { from = "306MHz", to = "1224MHz" }\nemc = ["2133MHz", "3199MHz"]\n'
_BOARD = BY_NAME["agx-orin"]
_TOTAL = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
_TIME_ERROR, _ENERGY_ERROR = 0.003, 0.005
_START_S, _START_J = 0.15, 1.2  # of the program, alike in every mode
_NEAR = 0.02


@dataclass(frozen=True)
class Phase:
    """One part of a program."""

    gpu_cycles: float
    memory_cycles: float
    gpu_share: float
    memory_share: float


def clocks(mode: str) -> tuple[float, float]:
    """Of the GPU and the memory, in Hz, by the mode's name."""
    gpu_mhz, memory_mhz = re.findall(r"(?:gpu|emc)(\d+)MHz", mode)
    return int(gpu_mhz) * 1e6, int(memory_mhz) * 1e6


def cost(phases: list[Phase], mode: str) -> tuple[float, float]:
    """Seconds and joules of one run."""
    gpu_hz, memory_hz = clocks(mode)
    total_s, total_j = _START_S, _START_J
    for phase in phases:
        shares = Shares(
            cpu=0.1,
            gpu=0.5 * dynamic(gpu_hz / _BOARD.gpus[0].hz[-1], phase.gpu_share),
            memory=dynamic(memory_hz / _BOARD.emc_hz[-1], phase.memory_share),
        )
        powers_w = rail_powers(_BOARD.rails, shares, temperature_c=50.0)
        took_s = max(phase.gpu_cycles / gpu_hz, phase.memory_cycles / memory_hz)
        total_s += took_s
        total_j += took_s * sum(powers_w[rail] for rail in _TOTAL)
    return total_s, total_j


def write_run(
    runs: Path,
    template: results.MeasuredProgram,
    mode: PowerMode,
    phases: list[Phase],
    noise: float,
) -> None:
    """One run of the program in ``mode``, as if it had been measured."""
    manifest, row = template.manifest, template.run
    (once,) = row.repetitions
    wall_s, energy_j = cost(phases, mode.name)
    wall_s, energy_j = wall_s * (1 + _TIME_ERROR * noise), energy_j * (1 - _ENERGY_ERROR * noise)
    energy = EnergyWindow(
        start_s=once.start_s,
        window_s=wall_s,
        repetitions=1,
        rails=(),
        total_j=energy_j,
        unknown=dict.fromkeys(("error_j", "is_settled", "disturbed_s"), "made up"),
    )
    once = msgspec.structs.replace(once, wall_s=wall_s, energy=energy)
    run_id = content_hash(mode.name)
    folder = runs / run_id
    folder.mkdir(parents=True)
    manifest = msgspec.structs.replace(
        manifest, run_id=run_id, mode_requested=mode, mode_read_back=mode
    )
    write_document(folder / "manifest.json", manifest, runs)
    row = msgspec.structs.replace(row, run_id=run_id, repetitions=(once,))
    write_rows(folder / "programs.jsonl", ProgramRun, [row], runs)


@dataclass(frozen=True)
class Loop:
    """Where modes are planned: a board, its twenty modes, and the form of a program's run."""

    board: Path
    grid: Path
    template: results.MeasuredProgram


def shares_above(
    loop: Loop, runs: Path, phases: list[Phase], most: int, rng: random.Random
) -> list[float]:
    """How much more than the least the recommended mode takes, after 4, 5, … measured modes."""
    found, is_first = [], True
    modes = {mode.name: mode for mode in LocalController(loop.board).choose_modes(str(loop.grid))}
    least_j = min(cost(phases, name)[1] for name in modes)
    for _ in range(most + 1):
        request = api.PlanRequest(
            runs=None if is_first else runs,
            modes=str(loop.grid),
            n_next=4 if is_first else 1,
            board=loop.board,
        )
        for pick in api.plan(request)[0].plan.picks:
            write_run(runs, loop.template, modes[pick.mode], phases, rng.gauss(0, 1))
        is_first = False
        asked = api.PredictionRequest(
            runs=(str(runs),),
            networks=(api.NetworkRequest(name="program"),),
            modes=str(loop.grid),
            board=loop.board,
        )
        chosen = api.recommend(asked, api.Wanted(minimise="energy"))[0].choice
        above = math.inf if chosen is None else cost(phases, chosen.mode)[1] / least_j - 1
        found.append(above)
    return found


def _random_program(rng: random.Random) -> list[Phase]:
    return [
        Phase(
            10 ** rng.uniform(8, 9.2),
            10 ** rng.uniform(8, 9.5),
            rng.uniform(0.3, 1.0),
            rng.uniform(0.2, 1.0),
        )
        for _ in range(rng.choice([1, 2, 3]))
    ]


def main() -> int:
    """Measure one program for its form, make the others of it, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=3)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    rows: list[list[float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running(create_board("agx-orin", Path(folder) / "board")) as board,
    ):
        grid = Path(folder) / "grid.toml"
        grid.write_text(_GRID)
        request = api.ProgramRequest(
            command=("sleep", "1"),
            name="program",
            profile="brief",
            n_runs=1,
            board=board,
            runs=Path(folder) / "template",
        )
        (template,) = api.measure_program(request).measured
        loop = Loop(board, grid, template)
        for number in range(options.programs):
            runs = Path(folder) / f"runs {number}"
            phases = _random_program(rng)
            rows.append(shares_above(loop, runs, phases, options.most, rng))
    for n_more, found in enumerate(zip(*rows, strict=True)):
        n_near = sum(share <= _NEAR for share in found)
        print(
            f"{4 + n_more} measured: median {median(found):.1%}, worst {max(found):.1%}; "
            f"{n_near} of {len(found)} within {_NEAR:.0%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
