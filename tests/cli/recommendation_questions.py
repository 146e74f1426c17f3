"""Questions to ``mansard recommend``, each with the runs and tables that it is asked of.

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
from tests.analytics.board_runs import write_board
from tests.analytics.factory import measurement, write_networks, write_two_modes
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
INT8 = ("llama,int8,1,20.0,6.04", "llama,int8,1,13.5,8.56", "llama,int8,1,12.1,10.54")
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


LF = "\n"


def nano_modes(*modes: str) -> str:
    """A table of these modes of the Nano, to choose from."""
    return lines("mode,gpu_mhz,emc_mhz,cpu_mhz,sms", *modes)


def batches() -> str:
    """A network at three batch sizes in three modes."""
    rows = []
    for mode, factor, watts in ((NANO_15W, 1.6, 6.0), (NANO_25W, 1.1, 8.5), (NANO_MAXN, 1.0, 10.5)):
        for batch, time_ms in ((1, 20.0), (4, 55.0), (8, 100.0)):
            rows.append(f"{mode},net,fp16,{batch},{factor * time_ms:.1f},{watts}")
    return lines(NANO, *rows)


def repeats(*times_ms: str) -> str:
    """The Nano's table, where MAXN_SUPER was measured several times."""
    once = nano(NANO_15W, NANO_25W, networks=LLAMA[:2]).splitlines()
    again = [f"{NANO_MAXN},llama,fp16,1,{time_ms},10.54" for time_ms in times_ms]
    rows = [f"{row},{number}" for number, row in enumerate((*once[1:], *again))]
    return lines(f"{once[0]},repeat", *rows)


def others(number: int) -> str:
    """Rows of another network in the Nano's modes, without the line of columns."""
    return nano().replace("llama", f"other{number}").partition(LF)[2]


NAMES_ALONE = lines(
    "mode,network,precision,batch,time_ms,power_w",
    "quiet,net,fp16,1,31.0,6.04",
    "loud,net,fp16,1,21.0,8.5",
)
THREE_OF_TWENTY = lines(
    "mode,network,precision,batch,time_ms,power_w",
    *(
        f"plan{number},net,fp16,1,{20 + number}.0,{f'{20 + number}.0' if number < 3 else ''}"
        for number in range(20)
    ),
)
AGX = lines(
    "mode,gpu_mhz,emc_mhz,cpu_mhz,sms,network,precision,batch,time_ms,power_w",
    "15W,408,2133,1113,6,llama,fp16,1,30.0,9.1",
    "30W,612,3199,1728,8,llama,fp16,1,16.0,14.2",
    "50W,816,3199,1498,16,llama,fp16,1,11.0,24.0",
    "MAXN,1300,3199,2201,16,llama,fp16,1,9.5,35.0",
)


def with_workload(table: str, network: str) -> Lay:
    """A table of the Nano, and a mix of one network."""

    def lay(folder: Path) -> None:
        _lay_tables(folder, {"nano": table})
        _lay_workload(folder, network)

    return lay


def roofed_workload(folder: Path) -> None:
    """The CPU of ``two_cores`` and a mix of one network that never ran on it."""
    two_cores(folder)
    _lay_workload(folder, "alexnet")


def _lay_workload(folder: Path, network: str) -> None:
    text = f'[[network]]\nmodel = "{network}"\nrate = "10/s"\n'
    (folder / "mix.toml").write_text(text, encoding="utf-8")


def noisy_board(folder: Path) -> None:
    """The board of ``metered_board``, whose meter reads a third or three times what is drawn."""
    write_board(folder / "runs", error=lambda number: 3.0 ** ((number * 7) % 3 - 1))


def restless_board(folder: Path) -> None:
    """The same, whose meter is off by up to an eighth."""
    write_board(folder / "runs", error=lambda number: 1.12 ** ((number * 7) % 3 - 1))


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
        measurement("nets-2c", (second_s,) * 9, model=name, model_hash=letter * 64)
        for name, letter, second_s in (("alexnet", "a", 0.060), ("resnet18", "b", 0.110))
    ]
    write_networks(folder / "runs", rows)


QUESTIONS = (
    Question(
        "extrapolated mode",
        "7W was not measured and is slower in every clock; in truth it takes 82.9 ms.",
        tables(nano=nano(), modes=NANO_MODES),
        "llama --mode modes.csv --max-latency 60ms",
    ),
    Question(
        "extrapolated mode, no limit",
        "The same without a limit: 7W takes 187 mJ in truth, 25W 182 mJ.",
        tables(nano=nano(), modes=NANO_MODES),
        "llama --mode modes.csv",
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
        "seen --mode modes.csv",
    ),
    Question(
        "modes between the measured ones, with a limit",
        "The same, at most 5 ms: 800 and 1600 MHz take 5.00 ms.",
        tables(grid=grid(CORNERS), modes=grid_modes(FINE)),
        "seen --mode modes.csv --max-latency 5.2ms",
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
        "Three modes draw 20 W and more, of seventeen nothing is known: no clock is in the table.",
        tables(grid=THREE_OF_TWENTY),
        "net --max-power 15W",
    ),
    Question(
        "power of three of twenty modes, time limited too",
        "The five slowest break the limit of time, whatever they draw.",
        tables(grid=THREE_OF_TWENTY),
        "net --max-power 15W --max-latency 34ms --minimise latency",
    ),
    Question(
        "power modelled from three modes",
        "Three of twenty modes have a power, 8 W and more; all have times and clocks.",
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
    Question(
        "calibrated by itself",
        "Two networks were timed at two cores; one of them is asked for.",
        timed_alexnet,
        "alexnet --calibrate --max-latency 200ms",
    ),
    Question(
        "measured, and a roof",
        "alexnet was timed at two cores, never at one.",
        timed_alexnet,
        "alexnet --max-latency 70ms",
    ),
    Question(
        "one measured mode, a limit inside the bounds",
        "Only 25W was measured: 21.27 ms. At 15W it takes 31.0 ms in truth.",
        tables(nano=nano(NANO_25W, networks=LLAMA[1:2]), modes=nano_modes(NANO_15W)),
        "llama --mode modes.csv --max-latency 30ms",
    ),
    Question(
        "one measured mode, a limit above the bounds",
        "No network takes three times as long in 15W as in 25W.",
        tables(nano=nano(NANO_25W, networks=LLAMA[1:2]), modes=nano_modes(NANO_15W)),
        "llama --mode modes.csv --max-latency 60ms",
    ),
    Question(
        "one measured mode, a limit below the bounds",
        "No clock of 15W is higher than at 25W, where it takes 21 ms.",
        tables(nano=nano(NANO_25W, networks=LLAMA[1:2]), modes=nano_modes(NANO_15W)),
        "llama --mode modes.csv --max-latency 15ms",
    ),
    Question(
        "two measured modes",
        "25W and MAXN_SUPER were measured, 15W is asked for, too.",
        tables(nano=nano(NANO_25W, NANO_MAXN, networks=LLAMA[1:]), modes=NANO_MODES),
        "llama --mode modes.csv --max-latency 40ms",
    ),
    Question(
        "batches",
        "A batch of 8 takes less energy an item, and too long.",
        tables(nano=batches()),
        "net --batch auto --max-latency 50ms",
    ),
    Question(
        "items in a second",
        "At least 60 items a second: batch 4 at MAXN_SUPER does 72.7 in truth.",
        tables(nano=batches()),
        "net --batch auto --min-fps 60",
    ),
    Question(
        "too many items in a second",
        "No batch in any mode does 500 a second.",
        tables(nano=batches()),
        "net --batch auto --min-fps 500",
    ),
    Question(
        "energy of an item limited",
        "At most 190 mJ a token: 25W takes 182 mJ and 15W 187 mJ.",
        tables(nano=nano()),
        "llama --minimise latency --max-energy 190mJ",
    ),
    Question(
        "energy times time",
        "The product of both.",
        tables(nano=nano()),
        "llama --minimise edp",
    ),
    Question(
        "least power",
        "Compared with the mode that the board starts in.",
        tables(nano=nano()),
        "llama --minimise power --default 25W",
    ),
    Question(
        "a half is enough",
        "19.27 ms were measured, 19.3 ms are asked for with 50 %.",
        tables(nano=nano()),
        "llama --max-latency 19.3ms --probability 0.5",
    ),
    Question(
        "repeats that agree",
        "MAXN_SUPER was measured three times: 19.2, 19.27 and 19.3 ms.",
        tables(nano=repeats("19.2", "19.27", "19.3")),
        "llama --max-latency 19.6ms",
    ),
    Question(
        "repeats that contradict each other",
        "MAXN_SUPER was measured three times: 15, 19.27 and 26 ms.",
        tables(nano=repeats("15.0", "19.27", "26.0")),
        "llama --max-latency 21ms",
    ),
    Question(
        "the highest mode is the slowest",
        "MAXN_SUPER takes eight times as long as 15W: this cannot be true.",
        tables(nano=nano(networks=(*LLAMA[:2], "llama,fp16,1,248.0,10.54"))),
        "llama --max-latency 40ms",
    ),
    Question(
        "modes without clocks",
        "The table names modes that no list of NVIDIA's has, and no clock.",
        tables(grid=NAMES_ALONE),
        "net --max-latency 40ms",
    ),
    Question(
        "two devices",
        "Each device has an answer of its own.",
        tables(nano=nano(), agx=AGX),
        "llama --max-latency 40ms",
    ),
    Question(
        "one of two devices",
        "Only the AGX Orin is asked for.",
        tables(nano=nano(), agx=AGX),
        "llama --device AGX --max-latency 40ms",
    ),
    Question(
        "a device that is not there",
        "No board of this name was measured.",
        tables(nano=nano()),
        "llama --device Xavier",
    ),
    Question(
        "a network that is not there",
        "A name that is mistyped.",
        tables(nano=nano()),
        "lama --max-latency 40ms",
    ),
    Question(
        "two precisions",
        "fp16 and int8 were measured; what int8 does to results is unknown.",
        tables(
            nano=nano() + nano().replace("fp16", "int8").replace("31.0", "20.0").partition(LF)[2]
        ),
        "llama --precision fp16,int8 --max-latency 25ms",
    ),
    Question(
        "five networks",
        "More than four answers are one table.",
        tables(nano=nano() + "".join(others(number) for number in range(4))),
        "--max-latency 25ms",
    ),
    Question(
        "noise in the energy",
        "The meter was read, and what it read scatters by a factor: no cost can be told.",
        noisy_board,
        "resnet18",
    ),
    Question(
        "noise in the energy, power limited",
        "The same with a limit on power.",
        noisy_board,
        "resnet18 --max-power 20W",
    ),
    Question(
        "some noise in the energy",
        "The meter is off by up to an eighth: some costs cannot be told.",
        restless_board,
        "resnet18 --minimise energy",
    ),
    Question(
        "a mix on one device",
        "The language model, ten tokens a second.",
        with_workload(nano(), "llama"),
        "--workload mix.toml",
    ),
    Question(
        "a mix that was not measured",
        "alexnet never ran on the CPU.",
        roofed_workload,
        "--workload mix.toml",
    ),
)
