"""Which rails make the total, and whether their labels can be believed.

The rules themselves are data: ``core/hardware/module.py`` for boards, a short rule here
for processors and graphics cards. A rail that holds others is never added to them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mansard.core.hardware import MODULES, Module
from mansard.core.hardware.module import Metering


class Total(msgspec.Struct, frozen=True):
    """How a total is formed: ``rails`` are added; ``parts`` lie inside them and are not."""

    rails: tuple[str, ...]
    rule: str
    boundary: str
    parts: tuple[str, ...] = ()


class TotalPower(msgspec.Struct, frozen=True):
    """The total in watts, or the reason why it is not known."""

    power_w: float | None
    reason: str = ""


def find_total(rails: tuple[str, ...], module: Module | None) -> Total | str:
    """The total of a board's rails, or the reason why there is none.

    The rule of the module counts; a board whose module is not in the table (None) is known
    by the labels of its rails.
    """
    if module is not None:
        absent = [rail for rail in module.total_rails if rail not in rails]
        if not absent:
            return _from_metering(module.metering, rails)
        return (
            f"the total of {module.name} needs {', '.join(absent)}, which is not among the "
            f"rails {', '.join(rails)}"
        )
    boards = {entry.metering.rails: entry.metering for entry in MODULES.values()}
    fitting = [board for board in boards.values() if set(board.total_rails) <= set(rails)]
    if not fitting:
        return f"no board in the table makes a total of the rails {', '.join(rails)}"
    # The board with the most of these rails and the fewest others.
    likest = max(fitting, key=lambda board: (len(set(board.rails) & set(rails)), -len(board.rails)))
    total = _from_metering(likest, rails)
    if set(likest.rails) == set(rails):
        return total
    by_label = f"{' + '.join(total.rails)} by label alone: the module is unknown"
    return msgspec.structs.replace(total, rule=by_label)


def _from_metering(metering: Metering, rails: tuple[str, ...]) -> Total:
    parts = tuple(rail for rail in metering.part_rails if rail in rails)
    return Total(metering.total_rails, metering.rule, metering.boundary, parts)


def total_power(
    powers_w: Mapping[str, float | None],
    total: Total,
    steps_w: Mapping[str, float] | None = None,
    why: Mapping[str, str] | None = None,
) -> TotalPower:
    """The total of one set of readings, or of the means of a window.

    It is refused where its parts exceed it by more than the sensors' steps together: then
    the labels are not what they say (some carriers of the Nano swap POM_5V_GPU with
    POM_5V_IN). ``why`` holds the reasons of rails whose power is None.
    """
    readings = {rail: powers_w.get(rail) for rail in total.rails}
    for rail, power_w in readings.items():
        if power_w is None:
            return TotalPower(None, f"{rail}: {(why or {}).get(rail, 'not read')}")
    sum_w = sum(power_w for power_w in readings.values() if power_w is not None)
    parts_w = {rail: power_w for rail in total.parts if (power_w := powers_w.get(rail)) is not None}
    slack_w = sum((steps_w or {}).get(rail, 0.0) for rail in (*total.rails, *parts_w))
    if sum(parts_w.values()) > sum_w + slack_w:
        return TotalPower(
            None,
            f"labels seem swapped: {' + '.join(total.rails)} is {sum_w:.3f} W, but its parts "
            f"{' + '.join(parts_w)} are {sum(parts_w.values()):.3f} W",
        )
    return TotalPower(sum_w)
