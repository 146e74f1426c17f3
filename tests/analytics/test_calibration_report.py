"""What is said of a calibration: notes of predictions, and tables of the report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from mansard.analytics.models.predict.class_fit import ClassFactor, ClassFactors, ClassFit
from mansard.analytics.models.predict.timed_layers import ROOF_SCHEMA, TimedClasses
from mansard.analytics.models.predict.totals_calibration import (
    DeviceCalibration,
    LeftOut,
    Misfit,
    place_name,
)
from mansard.analytics.models.predict.totals_fit import PAIR_SCHEMA, TotalsLines
from mansard.analytics.models.scaling.coefficients import NodeLaunch
from mansard.analytics.pages.tables.calibration import calibration_summaries, calibration_tables
from mansard.core.table import Table

BOARD, ENGINE = "Board", "onnxruntime cpu 2 threads"
BEFORE = Misfit(median=0.5, nine_of_ten=0.8, worst=0.9, n_times=3)
AFTER = Misfit(median=0.1, nine_of_ten=0.15, worst=0.2, n_times=3)


def left_out(*ratios: float) -> LeftOut:
    """Networks whose predicted time is so many times the measured one."""
    logs = tuple(np.array([-np.log(ratio)]) for ratio in ratios)
    return LeftOut(logs, tuple(float(log[0] ** 2) for log in logs), (1.0, 3))


def by_totals(*networks: str) -> DeviceCalibration:
    """10 ms at the roof and 20 ms measured of each; 5 launches."""
    rows = [
        {
            "mode": "fast",
            "device": BOARD,
            "network": network,
            "batch": 1,
            "precision": "fp32",
            "phase": "inference",
            "model": network,
            "kind": "inference",
            "latency_s": 0.01,
            "compute_s": 0.01,
            "memory_s": 0.0,
            "launch_s": 0.0,
            "n_launches": 5.0,
            "measured_s": 0.02,
            "measured_w": None,
        }
        for network in networks
    ]
    return DeviceCalibration(
        lines=TotalsLines(pl.DataFrame(rows, schema=PAIR_SCHEMA), {}),
        engine=ENGINE,
        classes=None,
        why="no layers of these networks were timed",
        networks=left_out(1.2, 0.8, 1.3) if len(networks) > 1 else left_out(),
        modes=left_out(),
        before=BEFORE,
        after=AFTER,
        other_networks=None,
    )


def classes() -> TimedClasses:
    factors = (
        ClassFactor(
            op_class="conv work", precision="fp32", value=1.25, low=1.1, high=1.4,
            n_groups=1200, n_networks=3,
        ),
        ClassFactor(
            op_class="matmul traffic", precision="fp32", value=0.5, low=None, high=None,
            n_groups=2, n_networks=1,
            unknown=dict.fromkeys(("low", "high"), "only one network has this class"),
        ),
        ClassFactor(
            op_class="recurrent work", precision="fp32", value=None, low=None, high=None,
            n_groups=1, n_networks=1,
            unknown=dict.fromkeys(("value", "low", "high"), "fewer than 2 groups"),
        ),
    )  # fmt: skip
    launches = ClassFactors({("conv work", "fp32"): 1.25}, 1.2, {"fast": 8e-6})
    fit = ClassFit(factors, ("a", "b", "c"), launches, {}, n_groups=1203, n_left_out=4)
    return TimedClasses(fit, pl.DataFrame(schema=ROOF_SCHEMA), ENGINE, 0.021)


def by_classes() -> DeviceCalibration:
    return replace(
        by_totals("a", "b", "c"),
        classes=classes(),
        why="layers of 3 networks were timed",
        modes=left_out(1.1),
        other_networks=left_out(1.4, 0.6, 1.5),
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            by_totals("a", "b", "c"),
            (
                # Errors 20 %, 20 % and 30 %.
                "Board: calibrated by 3 measured times: median error 50.0% before, 10.0% after, "
                "20.0% on networks it was not fitted to, 30% at worst",
            ),
        ),
        (
            by_totals("a"),
            (
                "Board: calibrated by 1 measured time: median error 50.0% before, 10.0% after",
                "Board: one network was measured: its error on other networks is estimated from "
                "recorded networks of other boards; measure two more",
            ),
        ),
        (
            by_classes(),
            (
                "Board: calibrated by 3 measured times: median error 50.0% before, 10.0% after, "
                "20.0% on networks it was not fitted to, 30% at worst",
                "Board: 3 networks timed layer by layer by onnxruntime cpu 2 threads, 1,203 terms "
                "(work or traffic of a group); factors of the roof: conv work × 1.2, matmul "
                "traffic × 0.5; a launch takes 8 µs; 2.1% of the layers' time is the engine's own",
            ),
        ),
    ],
)
def test_the_notes_of_a_calibration(found: DeviceCalibration, expected: tuple[str, ...]) -> None:
    assert tuple(found.notes(BOARD)) == expected


def test_a_phase_that_is_not_inference_is_named() -> None:
    assert place_name(BOARD, "inference") == "Board"
    assert place_name(BOARD, "training") == "Board (training)"


def tables(found: DeviceCalibration, *launches: NodeLaunch) -> dict[str, Table]:
    summaries = calibration_summaries({(BOARD, "inference"): found}, launches)
    return {table.title: table for table in calibration_tables(summaries)}


def plain(rows: list[list[str]]) -> list[list[str]]:
    return [[cell.replace("\u00a0", " ") for cell in row] for row in rows]


ERRORS = "Errors of modelled times, before and after a calibration"
FACTORS = "Factors of the time at the roof, by classes of operators"
COSTS = "What a calibration adds to the roofs"


def test_errors_of_classes_stand_beside_those_of_totals() -> None:
    rows = plain([list(row[2:]) for row in tables(by_classes())[ERRORS].rows])
    # |1.1 - 1|; of 0.2, 0.2 and 0.3 nine of ten lie below 0.2 + 0.8 · 0.1; of 0.4, 0.4, 0.5 0.48.
    assert rows == [
        ["the roofs alone", "50.0 %", "80.0 %", "90.0 %", "3", "3", ""],
        [
            *("classes of operators, on the same networks", "10.0 %", "15.0 %", "20.0 %"),
            *("3", "3"),
            "layers of 3 networks were timed; 2.1 % of the layers' time is the engine's own; "
            "4 terms (work or traffic of a group) have no time",
        ],
        [
            *("classes of operators, each network by the others", "20.0 %", "28.0 %", "30.0 %"),
            *("3", "3", ""),
        ],
        [
            *("totals, each network by the others", "40.0 %", "48.0 %", "50.0 %"),
            *("3", "3", "not used"),
        ],
        [
            *("classes of operators, each mode by the others", "10.0 %", "10.0 %", "10.0 %"),
            *("3", "1", ""),
        ],
    ]


def test_of_one_network_it_is_said_that_nothing_was_left_out() -> None:
    rows = plain([list(row[2:]) for row in tables(by_totals("a"))[ERRORS].rows])
    assert [row[0] for row in rows] == [
        "the roofs alone",
        "totals, on the same networks",
        "totals, each network by the others",
    ]
    assert rows[1][-1] == "no layers of these networks were timed"
    assert rows[2][1:] == [
        *("unknown", "unknown", "unknown", "1", "unknown"),
        "one network was measured: none is left to predict",
    ]


def test_factors_have_an_interval_or_the_reason_why_there_is_none() -> None:
    assert plain([list(row[1:]) for row in tables(by_classes())[FACTORS].rows]) == [
        ["conv work", "fp32", "1.25", "1.1 to 1.4", "1,200", "3"],
        ["matmul traffic", "fp32", "0.500", "only one network has this class", "2", "1"],
        ["recurrent work", "fp32", "unknown", "fewer than 2 groups", "1", "1"],
    ]
    assert FACTORS not in tables(by_totals("a", "b"))


def test_costs_of_launches_and_calls_are_those_of_the_line() -> None:
    found = by_totals("a", "b", "c")
    (cost,) = found.lines.call_costs()
    # The line goes through the three networks of 20 ms: a + b · 10 ms + d · 5.
    arithmetic_s = 0.01 * found.lines.pooled.coefficient("compute", 0.0)
    assert cost.launch_s is not None
    assert cost.call_s + arithmetic_s + 5 * cost.launch_s == pytest.approx(0.02, rel=0.01)
    assert cost.call_low_s < cost.call_s < cost.call_high_s
    # Of logarithms: both ends are as far away.
    assert cost.call_low_s * cost.call_high_s == pytest.approx(cost.call_s**2)
    (row,) = tables(found)[COSTS].rows
    assert (row[0], row[1], row[-1]) == ("Board", "fast", "3")
    assert (row[4], row[7]) == ("unknown", "unknown")


def test_what_a_node_takes_alone_stands_beside_the_fitted_launch() -> None:
    def launch(mode: str, engine: str) -> NodeLaunch:
        return NodeLaunch(
            run_id="nets",
            device=BOARD,
            mode=mode,
            engine=engine,
            node_s=3e-6,
            node_low_s=2e-6,
            node_high_s=4e-6,
            call_s=20e-6,
            source="measured",
        )

    found = by_totals("a", "b", "c")
    own = launch("fast", ENGINE)
    (row,) = tables(found, launch("slow", ENGINE), launch("fast", "another"), own)[COSTS].rows
    assert plain([[row[4], row[7]]]) == [["3.00 µs", "20.0 µs"]]


def test_launches_that_are_not_counted_are_unknown() -> None:
    found = by_totals("a", "b", "c")
    uncounted = found.lines.pairs.with_columns(n_launches=pl.lit(0.0))
    (cost,) = TotalsLines(uncounted, {}).call_costs()
    assert (cost.launch_s, cost.unknown["launch_s"]) == (None, "no launches are counted")
