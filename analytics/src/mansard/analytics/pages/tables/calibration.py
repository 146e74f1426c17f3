"""How far off modelled times are, and what ``--calibrate`` makes of the networks that were run.

Nothing else on a page is calibrated: there measured times stand beside modelled ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import UNKNOWN, digits, seconds
from mansard.analytics.models.predict.class_fit import ClassFactor
from mansard.analytics.models.predict.totals_calibration import (
    Calibration,
    DeviceCalibration,
    Misfit,
    place_name,
)
from mansard.analytics.models.predict.totals_fit import CallCost
from mansard.analytics.models.scaling.coefficients import NodeLaunch
from mansard.analytics.pages.figures.tables import Column, percent_fine, shortened, tabulate
from mansard.core.records import Record
from mansard.core.table import Table

Kind = Literal["classes of operators", "shapes of operators", "totals"]


class CalibrationSummary(Record, frozen=True, kw_only=True):
    """What calibrates one device and phase, and its errors.

    ``before``: by the roofs; ``after``: by the calibration, on its own networks. ``networks`` and
    ``modes``: each by the others; ``networks_other_kind``: by the kind that was not taken.
    ``factors``: of the time at the roof, by class of operators; empty for totals.
    """

    device: str
    engine: str | None
    kind: Kind
    why: str
    n_networks: int
    before: Misfit
    after: Misfit
    networks: Misfit | None
    networks_other_kind: Misfit | None
    modes: Misfit | None
    factors: tuple[ClassFactor, ...]
    costs: tuple[CallCost, ...]
    node_launches: tuple[NodeLaunch, ...]  # of the engine in these modes, timed alone
    engine_share: float | None  # of the layers' time, in none of the network's nodes
    n_left_out: int | None  # terms (work or traffic of a group) without a time


def calibration_summaries(
    calibration: Calibration, launches: Sequence[NodeLaunch]
) -> tuple[CalibrationSummary, ...]:
    """One for each device and phase; ``launches``: what engines need to start a node."""
    return tuple(_summary(*place, calibration[place], launches) for place in sorted(calibration))


def _summary(
    device: str, phase: str, fitted: DeviceCalibration, launches: Sequence[NodeLaunch]
) -> CalibrationSummary:
    classes, other = fitted.classes, fitted.other_networks
    values: dict[str, Any] = {
        "engine": fitted.engine,
        "networks": fitted.networks.misfit,
        "networks_other_kind": None if other is None else other.misfit,
        "modes": fitted.modes.misfit,
        "engine_share": None if classes is None else classes.other_share,
        "n_left_out": None if classes is None else classes.fit.n_left_out,
    }
    used: Kind = "totals" if fitted.shapes is None else "shapes of operators"
    no_layers = f"{used} are used: classes of timed layers are not"
    reasons = {
        "engine": "published times name no engine",
        "networks": "one network was measured: none is left to predict",
        "networks_other_kind": "only one kind of calibration is possible",
        "modes": "one mode was measured: none is left to predict",
        "engine_share": no_layers,
        "n_left_out": no_layers,
    }
    costs = tuple(fitted.lines.call_costs())
    modes = {cost.mode for cost in costs}
    return CalibrationSummary(
        device=place_name(device, phase),
        kind=used if classes is None else "classes of operators",
        why=fitted.why,
        n_networks=fitted.lines.pairs["network"].n_unique(),
        before=fitted.before,
        after=fitted.after,
        factors=() if classes is None else classes.fit.records,
        costs=costs,
        node_launches=tuple(
            launch
            for launch in launches
            if (launch.device, launch.engine) == (device, fitted.engine) and launch.mode in modes
        ),
        **values,
        unknown={name: reasons[name] for name, value in values.items() if value is None},
    )


def calibration_tables(summaries: Sequence[CalibrationSummary]) -> list[Table]:
    """Errors, factors of classes, costs of calls and launches; those that have rows."""
    steps = [step for summary in summaries for step in _steps(summary)]
    tables = [
        tabulate("Errors of modelled times, before and after a calibration", _STEPS, steps),
        tabulate(
            "Factors of the time at the roof, by classes of operators",
            _FACTORS,
            [(summary.device, factor) for summary in summaries for factor in summary.factors],
        ),
        tabulate(
            "What a calibration adds to the roofs",
            _COSTS,
            [(summary, cost) for summary in summaries for cost in summary.costs],
        ),
    ]
    return [shortened(table) for table in tables if table.rows]


Step = tuple[CalibrationSummary, str, Misfit | None, str]  # what of it, by what, remark


def _steps(summary: CalibrationSummary) -> Iterator[Step]:
    kind, why = summary.kind, summary.why
    if summary.engine_share is not None:
        why += f"; {percent_fine(summary.engine_share)} of the layers' time is the engine's own"
    if summary.n_left_out:
        why += f"; {summary.n_left_out:,} terms (work or traffic of a group) have no time"
    yield summary, "the roofs alone", summary.before, ""
    yield summary, f"{kind}, on the same networks", summary.after, why
    lost = summary.unknown.get("networks", "")
    yield summary, f"{kind}, each network by the others", summary.networks, lost
    if (other_misfit := summary.networks_other_kind) is not None:
        other = "totals" if kind == "classes of operators" else "classes of operators"
        yield summary, f"{other}, each network by the others", other_misfit, "not used"
    if summary.modes is not None:
        yield summary, f"{kind}, each mode by the others", summary.modes, ""


def _share(misfit: Misfit | None, name: str) -> str:
    return percent_fine(None if misfit is None else getattr(misfit, name))


_STEPS = (
    Column("Device", lambda step: display_name(step[0].device)),
    Column("Engine", lambda step: step[0].engine or "of published times"),
    Column("Predicted by", lambda step: step[1]),
    Column("Median", lambda step: _share(step[2], "median"), is_numeric=True),
    Column("Nine of ten", lambda step: _share(step[2], "nine_of_ten"), is_numeric=True),
    Column("Worst", lambda step: _share(step[2], "worst"), is_numeric=True),
    Column("Networks", lambda step: str(step[0].n_networks), is_numeric=True),
    Column(
        "Times", lambda step: UNKNOWN if step[2] is None else str(step[2].n_times), is_numeric=True
    ),
    Column("Remark", lambda step: step[3]),
)


def _factor_ends(factor: ClassFactor) -> str:
    if factor.low is None or factor.high is None:
        return factor.unknown["low"]
    return f"{digits(factor.low, 2)} to {digits(factor.high, 2)}"


_FACTORS = (
    Column("Device", lambda row: display_name(row[0])),
    Column("Class", lambda row: row[1].op_class),
    Column("Precision", lambda row: display_name(row[1].precision)),
    Column(
        "Factor",
        lambda row: UNKNOWN if row[1].value is None else digits(row[1].value, 3),
        is_numeric=True,
    ),
    Column("95 % interval", lambda row: _factor_ends(row[1])),
    Column("Groups", lambda row: f"{row[1].n_groups:,}", is_numeric=True),
    Column("Networks", lambda row: str(row[1].n_networks), is_numeric=True),
)


def _ends(low_s: float | None, high_s: float | None) -> str:
    if low_s is None or high_s is None:
        return UNKNOWN
    return f"{seconds(low_s)} to {seconds(high_s)}"


Cost = tuple[CalibrationSummary, CallCost]


def _alone(row: Cost, name: str) -> str:
    summary, cost = row
    launches = [launch for launch in summary.node_launches if launch.mode == cost.mode]
    return seconds(getattr(launches[0], name)) if launches else UNKNOWN


_COSTS = (
    Column("Device", lambda row: display_name(row[0].device)),
    Column("Mode", lambda row: display_name(row[1].mode)),
    Column("A launch, fitted", lambda row: seconds(row[1].launch_s), is_numeric=True),
    Column("95 % interval", lambda row: _ends(row[1].launch_low_s, row[1].launch_high_s)),
    Column("timed alone", lambda row: _alone(row, "node_s"), is_numeric=True),
    Column("A call, fitted", lambda row: seconds(row[1].call_s), is_numeric=True),
    Column("95 % interval", lambda row: _ends(row[1].call_low_s, row[1].call_high_s)),
    Column("timed alone", lambda row: _alone(row, "call_s"), is_numeric=True),
    Column("Networks", lambda row: str(row[1].n_networks), is_numeric=True),
)
