"""Networks that were run, beside what is predicted: tables, curves, and under the roofs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import vl_convert

from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.row_times import NetworkTimes
from mansard.analytics.pages.figures.accuracy import accuracy_figure
from mansard.analytics.pages.figures.batches import batch_chart, batch_points, measured_batches
from mansard.analytics.pages.figures.figure import Missing
from mansard.analytics.pages.figures.network_points import roof_points
from mansard.analytics.pages.figures.parameters import Chosen, first_choice, mode_labels
from mansard.analytics.pages.figures.tables import condensed
from mansard.analytics.pages.report.summary import summary
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.advice import advice, advice_table, overview
from mansard.analytics.pages.tables.networks import measured_tables, network_table, program_table
from mansard.analytics.pages.tables.provenance import origin_table
from mansard.core.records import CHAIN_LENGTHS, Measurement, NamedWindow, chain_name
from tests.analytics.factory import (
    measurement,
    program,
    window,
    write_networks,
    write_programs,
    write_two_modes,
)
from tests.analytics.page_reader import Page, chart_rows, specs
from tests.analytics.score_factory import layer, score, write_scores

# With two cores 128 GFLOP/s: 1.28 GFLOP take 10 ms at best, four times as many 40 ms.
WORK = 1_280_000_000
SECONDS = 0.0125  # measured: the roof allows 80 % of it
ENGINE = "onnxruntime cpu"  # with a thread for each CPU of the mode
HASH = score("net", [layer(0, WORK, 1)]).model_hash


def measured(seconds_s: float = SECONDS, **known: Any) -> Measurement:
    times_s = [seconds_s * factor for factor in (0.99, 1.0, 1.01)]
    return measurement("nets", times_s, model_hash=HASH, **known)


def write_all(runs: Path) -> Path:
    write_two_modes(runs)
    write_scores(
        runs,
        [score("net", [layer(0, batch * WORK, 1000)], batch=batch) for batch in (1, 4)],
    )
    return runs


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = write_all(tmp_path_factory.mktemp("runs"))
    # 12 W in the loop: 150 mJ a call, of which 5 W are drawn by an idle machine: 62.5 mJ.
    loop = window({"VDD_IN": 12.0}, ("VDD_IN",), window_s=2.5, repetitions=200)
    idle = window({"VDD_IN": 5.0}, ("VDD_IN",))
    calls = tuple(0.012 + 0.0001 * at for at in range(100))
    rows = [
        measured(call_seconds_s=calls, energy=(loop,), memory_bytes=64 * 2**20),
        measured(batch=4, seconds_s=0.050, call_seconds_s=calls[:20]),
        measured(threads=1, seconds_s=0.025),
    ]
    failed = measurement(
        "nets", (), model_hash=HASH, batch=4096, failure="it needs more memory than there is"
    )
    write_networks(runs, [*rows, failed], idle=(idle,), total=("VDD_IN",))
    prompt = NamedWindow(
        name="prompt",
        start_s=100.0,
        window_s=0.5,
        energy=window({"VDD_IN": 9.0}, ("VDD_IN",), window_s=0.5),
    )
    llm = program("llm", (2.0, 2.2, 1.8), power_w=10.0, windows=(prompt,), metric=31.5)
    write_programs(runs, [llm])
    return compute(open_runs([runs]))


def found(results: Results, batch: int) -> NetworkTimes:
    (row,) = (each for each in results.measured if (each.batch, each.engine) == (batch, ENGINE))
    return row


def test_a_measured_network_stands_beside_its_prediction(results: Results) -> None:
    row = found(results, 1)
    assert row.engine == ENGINE
    assert row.time_s == pytest.approx(SECONDS)
    assert row.predicted_s == pytest.approx(0.010, rel=1e-3)
    assert row.error == pytest.approx(0.010 / SECONDS - 1, rel=1e-2)  # 20 % too short
    # 12 W × 2.5 s / 200, and 5 W × 12.5 ms less
    assert row.energy_j == pytest.approx(0.150)
    assert row.above_idle_j == pytest.approx(0.150 - 0.0625)
    assert row.power_w == pytest.approx(12.0)
    # of 12.0, 12.1, … 21.9 ms: the middle, the 90th, the 99th and the 100th
    calls_s = [row.p50_s, row.p90_s, row.p99_s, row.worst_s]
    assert calls_s == pytest.approx([0.01695, 0.0209, 0.0218, 0.0219])
    assert row.memory_bytes == 64 * 2**20


def test_few_calls_have_no_high_quantile(results: Results) -> None:
    row = found(results, 4)
    assert row.p90_s is not None
    assert row.p99_s is None
    assert "too few" in row.unknown["p99_s"]


def test_a_repeated_run_names_every_run_that_measured_the_same(tmp_path: Path) -> None:
    write_networks(tmp_path, [measured()])
    again = measurement("again", (), model_hash=HASH, failure="it needs more memory than there is")
    write_networks(tmp_path, [again])
    (row,) = compute(open_runs([tmp_path])).measured
    # The good one counts; who asks for the other run finds it by its id.
    assert (row.run_id, row.run_ids) == ("nets", ("again", "nets"))
    assert row.time_s == pytest.approx(SECONDS)


def test_what_failed_is_there_with_its_reason_and_in_no_model(results: Results) -> None:
    row = found(results, 4096)
    assert (row.time_s, row.error) == (None, None)
    assert row.remark == "it needs more memory than there is"
    assert 4096 not in results.observations["batch"].to_list()
    assert any("it needs more memory" in line for line in results.workload_notes)


def test_models_use_one_engine_and_say_so(results: Results) -> None:
    nets = results.observations.filter(pl.col("network") == "net")
    assert set(nets["engine"]) == {ENGINE}
    assert sorted(nets["batch"]) == [1, 4]
    assert any("onnxruntime cpu 1 thread" in line for line in results.workload_notes)


def test_the_tables_have_both(results: Results) -> None:
    table = network_table(results)
    at = table.columns.index("Measured")
    texts = {(row[1], row[6]): row[at] for row in table.rows}
    assert "12.5" in texts["1", "2c"]
    assert ENGINE in texts["1", "2c"]
    assert texts["1", "1c"] == ""
    ran, calls = measured_tables(results)
    assert (len(ran.rows), len(calls.rows)) == (4, 3)  # one of them failed
    (first,) = (
        row
        for row in (dict(zip(ran.columns, cells, strict=True)) for cells in ran.rows)
        if (row["Batch"], row["Engine"]) == ("1", ENGINE)
    )
    assert first["Predicted"].startswith("at best 10.0")
    assert first["Error"].startswith("−20")
    # fp32 in every row, and no engine but this processor's was there: told once
    shown = condensed(ran)
    told = "in every row: network net, precision fp32, mode 2c, source measured"
    assert shown.title == f"Networks that were run; {told}"
    assert {"Precision", "Mode", "Source"}.isdisjoint(shown.columns)
    single = dict(zip(calls.columns, calls.rows[0], strict=True))
    assert (single["Energy"], single["Above idle"]) == ("150\u00a0mJ", "87.5\u00a0mJ")
    programs = program_table(results)
    at_left = {"Program", "Mode", "Label", "Remark", "Source"}
    assert {programs.columns[at] for at in programs.numeric} == {*programs.columns} - at_left
    assert [row[0] for row in programs.rows] == ["llm", "llm [prompt]"]
    whole = dict(zip(programs.columns, programs.rows[0], strict=True))
    assert whole["Metric"] == "31.50"
    assert "20.0" in whole["Energy"]  # 10 W for 2 s
    assert whole["Memory"] == "1\u00a0MiB"
    named = dict(zip(programs.columns, programs.rows[1], strict=True))
    assert (named["Memory"], named["Metric"]) == ("–", "–")  # of the program as a whole
    assert "Remark" not in condensed(programs).columns  # nothing is to be said of any


def test_a_thread_for_each_cpu_is_one_engine_in_all_modes(tmp_path: Path) -> None:
    write_all(tmp_path)
    write_networks(tmp_path, [measured()])
    one = measurement(
        "one", (0.020, 0.021, 0.022), model_hash=HASH, threads=1, cpus=(0,), trial_id="f" * 16
    )
    write_networks(tmp_path, [one], n_cpus=1)
    results = compute(open_runs([tmp_path]))
    nets = results.observations.filter(pl.col("network") == "net")
    assert nets.select("mode", "engine").sort("mode").rows() == [("1c", ENGINE), ("2c", ENGINE)]
    assert results.workload_notes == ()


def test_a_disturbed_time_is_shown_with_what_disturbed_it(tmp_path: Path) -> None:
    write_all(tmp_path)
    write_networks(tmp_path, [measured(disturbances=("it throttled",))])
    results = compute(open_runs([tmp_path]))
    table = network_table(results)
    at = table.columns.index("Measured")
    (text,) = {row[at] for row in table.rows} - {""}
    assert text.startswith("12.5")
    assert text.endswith(f"ms, {ENGINE} (it throttled)")
    figure = accuracy_figure(results, first_choice(results))
    assert isinstance(figure, Missing)
    assert "has the reasons" in figure.reason


def test_networks_in_modes_without_roofs_say_what_would_predict_them(tmp_path: Path) -> None:
    write_networks(tmp_path, [measured()])
    results = compute(open_runs([tmp_path]))
    figure = accuracy_figure(results, first_choice(results))
    assert isinstance(figure, Missing)
    assert "`mansard bench` measures the roofs" in figure.reason
    ran = condensed(measured_tables(results)[0])
    assert {"Predicted", "Error"}.isdisjoint(ran.columns)


def test_programs_are_no_observations_without_a_prediction(results: Results) -> None:
    figure = accuracy_figure(results, first_choice(results))
    assert not isinstance(figure, Missing)
    assert not [note for note in figure.notes if "not drawn" in note]


def test_advice_on_a_program_names_no_batch_and_the_command_for_more(tmp_path: Path) -> None:
    write_two_modes(tmp_path)
    write_programs(tmp_path, [program("slow", (2.0, 2.02, 1.98), power_w=10.0)], 1)
    results = compute(open_runs([tmp_path]))
    table = advice_table(results)
    assert table.title == "Recommended mode of each network or program"
    assert {"Batch", "Precision"}.isdisjoint(condensed(table).columns)
    (told,) = advice(results)
    assert any("mansard recommend llm says how" in line for line in told.why)


def test_the_overview_claims_what_each_of_its_recommendations_does(results: Results) -> None:
    told = [each for each in results.recommendations if each.choice is not None]

    def claiming(*claims: str) -> list[str]:
        some = [
            msgspec.structs.replace(each, claim=claim, n_measured=2)
            for each, claim in zip(told, claims, strict=False)
        ]
        return overview(dataclasses.replace(results, recommendations=tuple(some)))

    scoped = "uses the least energy of the measured modes"
    assert scoped in claiming(scoped, scoped, scoped)[0]
    # Two networks of which different things are true: nothing is claimed of both.
    assert "is recommended for " in claiming(scoped, "is fastest", scoped)[0]


def test_no_mode_is_recommended_where_networks_ran_in_one_mode_alone(results: Results) -> None:
    told = [each for each in results.recommendations if each.choice is not None][:2]
    assert len(told) == 2
    assert all(each.choice is not None and each.choice.is_measured for each in told)
    alone = tuple(msgspec.structs.replace(each, n_measured=1) for each in told)
    (line,) = overview(dataclasses.replace(results, recommendations=alone))
    assert line == "2c is the only mode in which all 2 programs ran: measure more modes."


def test_without_a_kernel_the_page_says_nothing_of_trials(tmp_path: Path) -> None:
    chain = measurement("nets", (0.001,), model=chain_name(CHAIN_LENGTHS[0]), model_hash="b" * 64)
    write_networks(tmp_path, [measured(), chain])
    results = compute(open_runs([tmp_path]))
    text = Page(render(results)).text
    assert "no kernel was measured" in text
    assert "1 measurement of networks: 3 samples of loops of calls" in text
    for untrue in ("nothing was measured here", "every trial met", "Peaks with their", "(no name)"):
        assert untrue not in text
    rows = {row[0]: row[1:] for row in origin_table(results).rows}
    assert rows["Networks that were run"] == ["measured", "1 time", "runs beside this page"]
    assert "counted from the graphs" not in rows["Networks"][2]


def test_under_the_roof_it_stands_at_its_work_over_the_measured_time(results: Results) -> None:
    points = roof_points(results).measured
    row = points.filter(pl.col("batch") == "1", pl.col("engine") == ENGINE)
    # 1.28 GFLOP in 12.5 ms
    assert row["rate"].to_list() == [102.4]
    assert row["power"].to_list() == [12.0]
    assert row["bound"].to_list() == ["compute\u00a0100\u00a0%"]  # the model's
    # 1.28 GFLOP over 1 MB is far right of the ridge: the roof is the peak, 128 GFLOP/s
    assert row.select("roof", "share").row(0) == (128.0, 80.0)
    assert len(points) == 3


def test_batches_that_were_run_are_on_the_curve(results: Results) -> None:
    labels = mode_labels(results)
    drawn = batch_points(results.predictions, labels, ["1c", "2c"]).frame
    rows = measured_batches(results.measured, labels, drawn)
    two = rows.filter(pl.col("engine") == ENGINE)
    # 1 / 12.5 ms, 4 / 50 ms
    assert two.select("batch", "rate").rows() == [(1, 80.0), (4, 80.0)]
    assert two["energy"].to_list() == [150.0, None]


def test_a_time_without_an_interval_is_drawn_as_well(results: Results) -> None:
    labels = mode_labels(results)
    drawn = batch_points(results.predictions, labels, ["1c", "2c"]).frame
    one = found(results, 1)
    unknown = {**one.unknown, "low_s": "one time", "high_s": "one time"}
    once = msgspec.structs.replace(one, low_s=None, high_s=None, unknown=unknown)
    (row,) = measured_batches([once], labels, drawn).rows(named=True)
    assert (row["rate"], row["items"]) == (80.0, "80.0")


def test_a_curve_beside_measured_marks_is_of_the_chosen_network_alone(results: Results) -> None:
    labels = mode_labels(results)
    drawn = batch_points(results.predictions, labels, ["1c", "2c"]).frame
    rows = measured_batches(results.measured, labels, drawn)
    chosen = Chosen(mode="2c", network=rows["network"][0])
    other = [frame.with_columns(network=pl.lit("another")) for frame in (drawn, rows)]

    def drawing(*, with_other: bool) -> str:
        points, marks = (
            pl.concat([frame, more]) if with_other else frame
            for frame, more in zip((drawn, rows), other, strict=True)
        )
        return str(vl_convert.vegalite_to_svg(batch_chart(points, chosen, marks).to_dict()))

    assert drawing(with_other=True) == drawing(with_other=False)


def test_the_page_draws_measured_marks_solid_and_modelled_ones_hollow(results: Results) -> None:
    text = render(results)
    page = Page(text)
    assert "Networks that were run" in page.text
    assert "it needs more memory than there is" in page.text
    assert "llm [prompt]" in page.text
    assert "● Solid: measured. ○ Hollow: modelled" in page.text
    roofs = str(specs(page)["roofline"])
    assert "'filled': False" in roofs
    assert chart_rows(page, "accuracy")
    assert "Error of predictions, and calibration" in page.text
    assert "totals, each network by the others" in page.text


def test_without_measured_networks_figures_and_tables_are_as_they_were(tmp_path: Path) -> None:
    results = compute(open_runs([write_all(tmp_path)]))
    assert roof_points(results).measured.is_empty()
    assert roof_points(results).every.equals(roof_points(results).networks)
    assert "Measured" not in network_table(results).columns
    assert measured_tables(results) == []
    assert "Error of predictions, and calibration" not in render(results)
    assert isinstance(accuracy_figure(results, first_choice(results)), Missing)


def test_the_summary_holds_what_was_run(results: Results) -> None:
    said = summary(results.dataset, results)
    assert said.measured == results.measured
    assert [each.workload for each in said.programs] == ["llm", "llm [prompt]"]
    (calibrated,) = said.calibrations
    assert (calibrated.kind, calibrated.why) == ("totals", "no layers of these networks were timed")
    assert (calibrated.n_networks, calibrated.after.n_times) == (1, 2)  # in two batches


def test_a_folder_of_networks_alone_has_a_page(tmp_path: Path) -> None:
    write_networks(tmp_path, [measured()])
    text = render(compute(open_runs([tmp_path])))
    assert "Networks that were run" in Page(text).text
