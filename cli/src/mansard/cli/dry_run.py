"""What a bench would do, without touching anything: every write, and the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mansard.cli.console import print_table
from mansard.cli.measuring import ModePlan, describe_time, needs_setting, time_cap_s

if TYPE_CHECKING:
    from mansard.cli.places import Place


def describe_dry_run(plans: Sequence[ModePlan], place: Place) -> dict[str, object]:
    """The modes in their order, each write of each, and the time they will take, for JSON."""
    modes = [
        {
            "mode": each.plan.mode,
            "trials": len(each.plan.trials),
            "missing": each.n_missing,
            "steps": list(lines),
        }
        for each, lines in zip(plans, _steps(plans, place), strict=True)
    ]
    return {"modes": modes, "duration_s": time_cap_s(plans)}


def print_dry_run(plans: Sequence[ModePlan], place: Place) -> None:
    """Print the same for people."""
    rows = [
        (each.plan.mode.name, line)
        for each, lines in zip(plans, _steps(plans, place), strict=True)
        for line in (lines or ("nothing is set",))
    ]
    print_table("What would be done; nothing was touched", ("mode", "step"), rows)
    print(describe_time(plans))  # noqa: T201 - this line is the command's data


def _steps(plans: Sequence[ModePlan], place: Place) -> list[tuple[str, ...]]:
    modes = [each.plan.mode for each in plans if needs_setting(each.plan.mode)]
    taken = iter(place.controller.planned_steps(modes))
    return [next(taken) if needs_setting(each.plan.mode) else () for each in plans]
