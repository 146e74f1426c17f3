"""Logs of made-up boards: loads and powers change freely, temperatures and clocks as they do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Family(NamedTuple):
    """How a board's lines look; ``has_units`` from r34 on."""

    n_cpus: int
    clocks_mhz: tuple[int, ...]
    engines: str  # with {load} where a load stands
    sensors: tuple[str, ...]
    rails: tuple[str, ...]
    numbers: int  # of each rail
    has_units: bool


FAMILIES = {
    "Nano r32": Family(
        4,
        (102, 204, 1224, 1479),
        "EMC_FREQ {load}%@1600 GR3D_FREQ {load}%@921 APE 25",
        ("PLL", "CPU", "PMIC", "GPU", "AO", "thermal"),
        ("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"),
        2,
        False,
    ),
    "TX2 r32": Family(
        6,
        tuple(range(2026, 2040)),
        "EMC_FREQ {load}%@1331 GR3D_FREQ {load}%@1300 APE 150 MTS fg 0% bg 0%",
        ("PLL", "MCPU", "PMIC", "Tboard", "GPU", "BCPU", "thermal", "Tdiode"),
        ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"),
        2,
        False,
    ),
    "Orin Nano r36": Family(
        6,
        (729, 1344, 1510, 1984),
        "GR3D_FREQ {load}%",
        ("cpu", "soc2", "soc0", "gpu", "tj", "soc1"),
        ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"),
        2,
        True,
    ),
    "AGX Orin r35": Family(
        12,
        (729, 1344, 1510, 2201),
        "EMC_FREQ {load}%@2133 GR3D_FREQ {load}%@[407,407] VIC_FREQ 115 APE 174",
        ("CPU", "Tboard", "SOC2", "Tdiode", "SOC0", "GPU", "tj", "SOC1"),
        ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"),
        2,
        True,
    ),
    "Thor r39": Family(
        14,
        (972, 1566, 2106, 2601),
        "EMC_FREQ {load}%@4266 GR3D_FREQ {load}%@[1574,1574,1574] VIC off APE 300",
        ("cpu", "tj", "gpu", "soc012", "soc345"),
        ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0", "VIN"),
        3,
        True,
    ),
}


def lines(family: Family, n_lines: int, seed: int) -> Iterator[str]:
    """So many lines, one for each second of a day in 2026; the same seed gives the same."""
    dice = random.Random(seed)
    draw = dice.random
    degrees = [40.0 + 10 * draw() for _ in family.sensors]
    unit = "mW" if family.has_units else ""
    for number in range(n_lines):
        second = number % 86_400
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        date = f"05-13-2026 {clock} " if family.has_units else ""
        mhz = dice.choice(family.clocks_mhz)
        cpus = ",".join(f"{int(101 * draw())}%@{mhz}" for _ in range(family.n_cpus))
        engines = family.engines.replace("{load}", str(int(100 * draw())))
        degrees = [each + (draw() - 0.5) + (45 - each) / 50 for each in degrees]
        sensors = " ".join(
            f"{name}@{round(each * 32) / 32:.3f}C"
            for name, each in zip(family.sensors, degrees, strict=True)
        )
        rails = " ".join(
            name
            + " "
            + "/".join(f"{int(500 + 8000 * draw())}{unit}" for _ in range(family.numbers))
            for name in family.rails
        )
        yield (
            f"{date}RAM {2900 + int(300 * draw())}/7620MB (lfb {int(60 * draw())}x4MB) SWAP "
            f"0/3810MB (cached 0MB) CPU [{cpus}] {engines} {sensors} {rails}\n"
        )


def write_log(path: Path, family: Family, n_lines: int, seed: int = 1) -> None:
    """Write a log of so many lines."""
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(lines(family, n_lines, seed))
