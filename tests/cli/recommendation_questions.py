"""Forty questions to ``mansard recommend``, each with the runs and tables that it is asked of.

Their answers stand in ``recommendations.txt``, as a user reads them. Times and powers of the
language models are those that others recorded on an Orin Nano Super; those of the grids are lawful
and made up, so that what is true of a mode that was not measured can be said.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mansard.cli.__main__ import run
from mansard.core.jsonl import write_rows
from mansard.core.records import Measurement
from tests.analytics.board_runs import write_board
from tests.analytics.factory import write_two_modes
from tests.cli.decide_runs import CLOCKS, latency_ms, power_w

Lay = Callable[[Path], None]  # makes RUNS and its tables in a folder that is empty


@dataclass(frozen=True)
class Question:
    """``tells``: what the reader has to know; ``ask``: the command's arguments."""

    name: str
    tells: str
    lay: Lay
    ask: str

    def arguments(self) -> list[str]:
        """The command line, from the folder in which the tables lie."""
        return ["recommend", *shlex.split(self.ask), "--runs", "runs"]


def tables(**texts: str) -> Lay:
    """Tables that are imported, each of the device that its name says; ``modes`` is one to ask."""
    return partial(_lay_tables, texts=texts)


def _lay_tables(folder: Path, texts: dict[str, str]) -> None:
    (folder / "runs").mkdir(exist_ok=True)
    for name, text in texts.items():
        path = folder / f"{name}.csv"
        path.write_text(text, encoding="utf-8")
        if name.startswith("modes"):
            continue
        device = DEVICES[name.partition("_")[0]]
        arguments = ["import", str(path), "--citation", "recorded", "--device", device]
        assert run([*arguments, "--runs", str(folder / "runs")]) == 0


DEVICES = {
    "nano": "Jetson Orin Nano Super",
    "agx": "Jetson AGX Orin 64GB",
    "grid": "Jetson Madeup",
    "card": "GeForce GTX 1080 Ti",
}
NANO = "mode,gpu_mhz,emc_mhz,cpu_mhz,sms,network,precision,batch,time_ms,power_w"
# Llama3.2-1B decodes a token in 82.88 ms at 7W with 2.26 W.
NANO_7W = "7W,408,2133,960,4"
NANO_15W = "15W,612,2133,1190,8"
NANO_25W = "25W,820,3199,1420,8"
NANO_MAXN = "MAXN_SUPER,1020,3199,1728,8"
LLAMA = ("llama,fp16,1,31.0,6.04", "llama,fp16,1,21.27,8.56", "llama,fp16,1,19.27,10.54")
NANO_MODES = "mode,gpu_mhz,emc_mhz,cpu_mhz,sms\n" + "\n".join(
    (NANO_7W, NANO_15W, NANO_25W, NANO_MAXN)
)


def lines(*rows: str) -> str:
    """A table of these rows."""
    return "\n".join(rows) + "\n"


def nano(*modes: str, networks: Sequence[str] = LLAMA) -> str:
    """The language model in three modes of the Nano."""
    named = modes or (NANO_15W, NANO_25W, NANO_MAXN)
    return lines(NANO, *(f"{mode},{row}" for mode, row in zip(named, networks, strict=True)))


def without_power(text: str) -> str:
    """The table without its last column, which is the power."""
    return lines(*(line.rpartition(",")[0] for line in text.splitlines()))


GRID = "mode,gpu_mhz,emc_mhz,network,precision,batch,time_ms,power_w"


def grid(clocks: Sequence[tuple[int, int]] = tuple(CLOCKS), network: str = "seen") -> str:
    """A lawful network in modes that are clocks, fixed one by one."""
    return lines(
        GRID,
        *(
            f"gpu{gpu}-emc{emc},{gpu},{emc},{network},fp16,1,{latency_ms(gpu, emc):.4f},"
            f"{power_w(gpu, emc):.4f}"
            for gpu, emc in clocks
        ),
    )


def grid_modes(clocks: Sequence[tuple[int, int]]) -> str:
    """The same modes, to choose from."""
    return lines("mode,gpu_mhz,emc_mhz", *(f"gpu{g}-emc{e},{g},{e}" for g, e in clocks))


CORNERS = ((400, 800), (400, 3200), (1200, 800), (1200, 3200), (800, 1600))
FINE = tuple((gpu, emc) for gpu in (400, 600, 800, 1000, 1200) for emc in (800, 1600, 2400, 3200))


def two_cores(folder: Path) -> None:
    """A CPU with roofs at one and two cores, without a meter."""
    write_two_modes(folder / "runs")


def metered_board(folder: Path) -> None:
    """A simulated Orin with roofs and energy costs in four modes."""
    write_board(folder / "runs")


def timed_alexnet(folder: Path) -> None:
    """The CPU of ``two_cores``, where alexnet was timed at two cores."""
    two_cores(folder)
    rows = [
        Measurement(
            run_id="run-2c", model=name, model_hash=letter * 64, source="measured", engine="any",
            phase="inference", batch=1, precision="fp32", seconds_s=(second_s,) * 9, energy=None,
            unknown={"energy": "no power meter was read"},
        )
        for name, letter, second_s in (("alexnet", "a", 0.060), ("resnet18", "b", 0.110))
    ]  # fmt: skip
    write_rows(folder / "runs" / "measurements.jsonl", Measurement, rows)


QUESTIONS = (
    Question(
        "extrapolated mode",
        "7W was not measured and is slower in every clock; in truth it takes 82.9 ms.",
        tables(nano=nano(), modes=NANO_MODES),
        "llama --modes modes.csv --max-latency 60ms",
    ),
    Question(
        "extrapolated mode, no limit",
        "The same without a limit: 7W takes 187 mJ in truth, 25W 182 mJ.",
        tables(nano=nano(), modes=NANO_MODES),
        "llama --modes modes.csv",
    ),
    Question(
        "measured modes alone",
        "Only what was measured is asked for.",
        tables(nano=nano()),
        "llama --max-latency 25ms",
    ),
    Question(
        "a limit by a hair",
        "19.27 ms were measured at MAXN_SUPER, once.",
        tables(nano=nano()),
        "llama --max-latency 19.3ms",
    ),
    Question(
        "infeasible time",
        "No mode is near 10 ms.",
        tables(nano=nano()),
        "llama --max-latency 10ms",
    ),
    Question(
        "infeasible together",
        "25 ms and 7 W are each kept by a mode, never both by one.",
        tables(nano=nano()),
        "llama --max-latency 25ms --max-power 7W",
    ),
    Question(
        "modes between the measured ones",
        "Five corners of a grid of clocks were measured; twenty modes are asked for.",
        tables(grid=grid(CORNERS), modes=grid_modes(FINE)),
        "seen --modes modes.csv",
    ),
    Question(
        "modes between the measured ones, with a limit",
        "The same, at most 5 ms: 800 and 1600 MHz take 5.00 ms.",
        tables(grid=grid(CORNERS), modes=grid_modes(FINE)),
        "seen --modes modes.csv --max-latency 5.2ms",
    ),
    Question(
        "no power in the table",
        "The default wants the least energy, of which nothing is known.",
        tables(nano=without_power(nano())),
        "llama",
    ),
    Question(
        "no power in the table, energy asked for",
        "The least energy was asked for by name.",
        tables(nano=without_power(nano())),
        "llama --minimise energy",
    ),
    Question(
        "no power in the table, power limited",
        "Whether 15 W hold cannot be told.",
        tables(nano=without_power(nano())),
        "llama --max-power 15W",
    ),
    Question(
        "power of three of twenty modes",
        "Three modes draw more than 4 W, of seventeen nothing is known.",
        tables(
            grid=lines(
                GRID,
                *(
                    f"gpu{g}-emc{e},{g},{e},seen,fp16,1,{latency_ms(g, e):.4f},"
                    + (f"{power_w(g, e):.4f}" if e == 3200 and g > 600 else "")
                    for g, e in FINE
                ),
            )
        ),
        "seen --max-power 4W",
    ),
    Question(
        "roofs alone",
        "The CPU was measured with kernels; alexnet never ran on it.",
        two_cores,
        "alexnet",
    ),
    Question(
        "roofs alone, with a limit",
        "Above the roof nothing tells whether a limit holds.",
        two_cores,
        "alexnet --max-latency 200ms",
    ),
    Question(
        "roofs alone, an impossible limit",
        "Below the roof a limit cannot hold.",
        two_cores,
        "alexnet --max-latency 1ms",
    ),
    Question(
        "roofs alone, metered",
        "A board with roofs of time and energy; resnet18 never ran on it.",
        metered_board,
        "resnet18 --max-latency 20ms",
    ),
    Question(
        "calibrated",
        "Two networks were timed at two cores; a third is asked for.",
        timed_alexnet,
        "squeezenet1_1 --calibrate --max-latency 200ms",
    ),
)
