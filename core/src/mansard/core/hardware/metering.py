"""The power rails of each kind of board, and which of them make its total.

Labels: recorded tegrastats lines. Totals: the r36 developer guide's description of the
power monitors for AGX Orin ("VDDQ_VDD2_1V8AO" is fed from "VIN_SYS_5V0"), and the
recorded lines, where VDD_IN or VIN always exceeds the sum of the others. Measured at the
wall, boards take 10 to 15 % more than these totals (reports of users).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Metering(msgspec.Struct, frozen=True, kw_only=True):
    """``total_rails`` add up to the total; ``part_rails`` lie inside it, never added."""

    rails: tuple[str, ...]  # in the board's order
    total_rails: tuple[str, ...]
    rule: str
    boundary: str
    source: str

    @property
    def part_rails(self) -> tuple[str, ...]:
        """Rails that the total holds already: together they cannot exceed it."""
        return tuple(rail for rail in self.rails if rail not in self.total_rails)


_WALL = "the wall is 10 to 15 % higher"
_RECORDED = "labels and total recorded on boards by others"

ORIN_NX = Metering(
    rails=("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"),
    total_rails=("VDD_IN",),
    rule="VDD_IN alone; it holds VDD_CPU_GPU_CV and VDD_SOC",
    boundary=f"module input; the carrier board is left out; {_WALL}",
    source=_RECORDED,
)
AGX_ORIN = Metering(
    rails=("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"),
    total_rails=("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    rule="VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0; VDDQ_VDD2_1V8AO (memory) is fed from "
    "VIN_SYS_5V0 and not added",
    boundary=f"sum of module rails; the 19 V input is not metered; {_WALL}",
    source="labels recorded on boards by others; the sum by NVIDIA's description of the rails",
)
AGX_XAVIER = Metering(
    rails=("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
    total_rails=("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
    rule="GPU + CPU + SOC + CV + VDDRQ + SYS5V; no rail holds the others",
    boundary=f"sum of module rails; the board's input is not metered; {_WALL}",
    source=_RECORDED,
)
_TX2_WIFI = "VDD_4V0_WIFI"
TX2 = Metering(
    rails=("VDD_SYS_GPU", "VDD_SYS_SOC", _TX2_WIFI, "VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"),
    total_rails=("VDD_IN",),
    rule="VDD_IN alone; it holds the other rails",
    boundary=f"module input; the carrier board is left out; {_WALL}",
    source=_RECORDED,
)
TX2_NX = msgspec.structs.replace(TX2, rails=tuple(r for r in TX2.rails if r != _TX2_WIFI))
NANO = Metering(
    rails=("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"),
    total_rails=("POM_5V_IN",),
    rule="POM_5V_IN alone; it holds POM_5V_GPU and POM_5V_CPU (some carriers of others swap "
    "the labels, so that a part exceeds the total)",
    boundary=f"module input; the carrier board is left out; {_WALL}",
    source=_RECORDED,
)
THOR = Metering(
    rails=("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0", "VIN"),
    total_rails=("VIN",),
    rule="VIN alone; it holds VDD_GPU, VDD_CPU_SOC_MSS and VIN_SYS_5V0",
    boundary=f"board input; the power supply is left out; {_WALL}",
    source=_RECORDED,
)

_KINDS = (ORIN_NX, AGX_ORIN, AGX_XAVIER, TX2, TX2_NX, NANO, THOR)


def metering_of(labels: Iterable[str]) -> Metering | None:
    """How the rails called ``labels`` make a total; None where they are not those of one board.

    Every rail that the total adds has to be among them; parts may be missing.
    """
    names = frozenset(labels)
    known = [kind for kind in _KINDS if set(kind.total_rails) <= names <= set(kind.rails)]
    totals = {kind.total_rails for kind in known}
    return known[0] if len(totals) == 1 else None
