"""The first table of the report, and what is folded below it."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.published.hardware import hardware_rates
from mansard.analytics.data.published.importing import import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import write_published
from mansard.analytics.decisions.roof_times import ROOF_LONGEST, ROOF_MARGIN, expected_span_s
from mansard.analytics.pages.figures.parameters import first_choice
from mansard.analytics.pages.report.opening import choice_tables
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.advice import overview
from mansard.analytics.pages.tables.headline import NO_METER, Headline, headlines
from mansard.analytics.pages.tables.practice import Practice, find_practices, practice_title
from mansard.core.records import Measurement
from mansard.core.units import (
    ROOF_ENGINE,
    ROOF_RATIOS,
    ROOF_TIE,
)
from tests.analytics.board_runs import power_mode, write_board
from tests.analytics.factory import (
    measurement,
    program,
    write_networks,
    write_programs,
    write_two_modes,
)
from tests.analytics.gpu_factory import board
from tests.analytics.page_reader import Page
from tests.analytics.score_factory import layer, score, write_scores

NET = score("net", [layer(0, 1_280_000_000, 10**6)])
OTHER = score("other", [layer(0, 10**7, 10**6)])


def results(folder: Path, *rows: Measurement) -> Results:
    runs = write_two_modes(folder)
    write_scores(runs, [NET, OTHER])
    if rows:
        write_networks(runs, rows)
    return compute(ingest(runs))


def headline(found: Results) -> Headline:
    (only,) = headlines(found, first_choice(found))
    return only


def starred(found: Results) -> list[str]:
    """The modes of the first table of modes with a star."""
    (table,) = choice_tables(found, first_choice(found).device)
    return [row[0] for row in table.rows if "★" in row[0]]


def cells(found: Headline) -> list[dict[str, str]]:
    return [dict(zip(found.table.columns, row, strict=True)) for row in found.table.rows]


def test_the_first_table_has_what_ran_in_the_units_of_its_reader(tmp_path: Path) -> None:
    times_s = [0.0125 * factor for factor in (0.99, 1.0, 1.01)]
    row = measurement("nets", times_s, model_hash=NET.model_hash, batch=1)
    found = headline(results(tmp_path, row))
    (net,) = cells(found)  # "other" did not run
    assert net["Network"] == "net"
    assert net["Latency, ms"].startswith("12.50")
    assert net["Recommended mode"] == "measure more"  # it ran in 2c alone
    assert net["Items/s"] == "80.0"  # 1 / 12.5 ms
    assert net["mJ per item"] == net["Power, W"] == "unknown"
    assert net["Source"] == "measured"
    assert "Networks that ran" in found.table.title
    assert "batch 1, fp32, onnxruntime cpu, mode 2c" in found.table.title
    assert found.note == NO_METER


def test_the_mode_is_recommended_of_those_in_which_a_network_ran(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path)
    write_scores(runs, [NET, OTHER])
    for cores, time_s in ((1, 0.025), (2, 0.0125)):
        times_s = [time_s * factor for factor in (0.99, 1.0, 1.01)]
        row = measurement(f"nets-{cores}", times_s, model_hash=NET.model_hash, batch=1)
        write_networks(runs, [row], cores)
    found = compute(ingest(runs))
    (net,) = cells(headline(found))
    assert net["Recommended mode"] == "2c"
    assert starred(found) == ["2c ★"]
    (line,) = overview(found)
    assert line == "2c is fastest for all 2 networks, for 1 of them by the roofs alone."


def test_networks_that_ran_in_one_mode_alone_are_not_counted_with_choices(tmp_path: Path) -> None:
    row = measurement("nets", (0.0124, 0.0125, 0.0126), model_hash=NET.model_hash, batch=1)
    found = results(tmp_path, row)
    by_name = {each.network: each for each in found.recommendations}
    assert by_name["net"].n_measured == 1
    assert by_name["net"].lacks_rivals
    assert not by_name["other"].lacks_rivals
    only = dataclasses.replace(found, recommendations=(by_name["net"],))
    assert starred(only) == []
    (line,) = overview(found)
    assert line == "2c is fastest for 1 of 2 networks, by the roofs alone."


def test_one_mode_is_not_recommended(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path)
    shutil.rmtree(runs / "run-1c")
    write_scores(runs, [NET])
    row = measurement("nets", [0.012, 0.0125, 0.013], model_hash=NET.model_hash, batch=1)
    write_networks(runs, [row])
    (net,) = cells(headline(compute(ingest(runs))))
    assert "Latency, ms" in net
    assert "Recommended mode" not in net


def test_a_disturbed_network_has_its_median_and_its_interval(tmp_path: Path) -> None:
    rejected_s = (0.020, 0.021, 0.022)
    row = measurement(
        "nets",
        (),
        model_hash=NET.model_hash,
        rejected_s=rejected_s,
        rejected_reason=("another program ran",) * 3,
        block=(),
        call_seconds_s=(),
    )
    found = headline(results(tmp_path, row))
    (net,) = cells(found)
    assert net["Source"] == "measured, disturbed"
    assert net["Latency, ms"].startswith("21.0")
    assert net["Items/s"] == "47.6"  # 1 / 21 ms
    assert "Disturbed measurements (other programs) are in no conclusion." in found.note


def test_the_note_names_the_kind_of_disturbance(tmp_path: Path) -> None:
    why = ("the CPU clock was at 1728 MHz, above its cap of 1113.6 MHz", "throttled once")
    row = measurement("nets", (0.02,) * 3, model_hash=NET.model_hash, disturbances=why)
    found = headline(results(tmp_path, row))
    assert (
        "Disturbed measurements (clocks outside the mode and heat or current limits) are in no "
        "conclusion." in found.note
    )


def test_a_wide_interval_has_its_median_before_it(tmp_path: Path) -> None:
    times_s = (0.004, 0.006, 0.012)
    row = measurement(
        "nets",
        (),
        model_hash=NET.model_hash,
        rejected_s=times_s,
        rejected_reason=("another program ran",) * 3,
        block=(),
        call_seconds_s=(),
    )
    (net,) = cells(headline(results(tmp_path, row)))
    assert net["Latency, ms"].startswith("6.00 (")
    assert net["Items/s"] == "167"  # 1 / 6 ms


def test_a_bound_has_the_range_of_real_times_beside_it(tmp_path: Path) -> None:
    found = headline(results(tmp_path))
    # 1.28 GFLOP at 128 GFLOP/s; a CPU: no range was recorded
    rows = {row["Network"]: row for row in cells(found)}
    assert rows["net"]["Latency, ms"] == "≥ 10.0"  # the value of the roof
    assert rows["net"]["Items/s"] == "≤ 100"
    assert rows["net"]["Source"] == "modelled"
    assert "none ran" in found.table.title
    assert "1.1 to 82.5 times" in found.note
    assert "2.5 to 971 times" in found.note
    # 10 ms × 1.13 and 1.25 · (42.1 + 56.1 · 7.01 / 27.71) = 70.4 ms
    # 0.6 ms × 1.13 and 1.25 · (11.4 + 21.2 · 0.271 / 1.601) = 18.7 ms
    gpu = Practice(is_recorded=True)
    assert (gpu.text(0.01), gpu.text(0.0006)) == ("11 to 70", "0.68 to 19")
    # × 1.5 and × 3 where the page has ratios of its own
    assert Practice(ratios=(1.5, 3.0)).text(0.01) == "15 to 30"
    assert Practice().text(0.01) == ""
    assert "which better kernels may exceed" in Practice(is_bound=False).note


def test_ratios_are_of_the_device_that_ran_and_of_no_other(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path)  # a CPU, whose network takes 12.5 ms
    write_scores(runs, [NET])
    write_networks(runs, [measurement("nets", (0.0125,) * 9, model_hash=NET.model_hash)])
    write_published(runs, hardware_rates("orin-nano-8gb"))
    rates = tmp_path / "rates.csv"
    rates.write_text("mode,precision,GFLOP/s,GB/s\nX,fp32,1000,50\n", "utf-8")
    origin = PublishedOrigin(device="Jetson Madeup", processor="gpu", citation="made up")
    write_published(runs, import_table(rates, origin))
    practices = find_practices(compute(ingest(runs)))
    cpu, nano, madeup = (
        next(one for name, one in practices.items() if word in name)
        for word in ("Example", "Nano", "Madeup")
    )
    assert len(cpu.ratios) == 1
    assert (nano.ratios, nano.is_recorded, nano.is_bound) == ((), True, True)
    assert (madeup.ratios, madeup.is_recorded, madeup.is_bound) == ((), False, False)
    assert practice_title(practices.values()) == "Expected, ms"
    assert practice_title([cpu]) == "In practice, ms"


def test_a_time_that_is_open_by_more_than_seven_times_asks_for_more_measurements(
    tmp_path: Path,
) -> None:
    times_s = (0.001, 0.002, 0.004, 0.008, 0.012, 0.016, 0.02, 0.024, 0.03)
    row = measurement("nets", times_s, model_hash=NET.model_hash, batch=1)
    (net,) = cells(headline(results(tmp_path, row)))
    # from 1 to 30 ms: 30 > 7
    assert net["Remark"] == "measure more"
    assert net["Recommended mode"] == "measure more"


def test_a_time_whose_interval_is_too_wide_for_its_protocol_is_marked(tmp_path: Path) -> None:
    known = {"model_hash": NET.model_hash, "batch": 1}
    row = measurement("nets", (0.0124, 0.0125, 0.0126), stability="unstable", **known)
    (net,) = cells(headline(results(tmp_path, row)))
    assert (net["Source"], net["Remark"]) == ("measured", "uncertain")


def test_a_device_whose_networks_ran_comes_first(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path)  # a CPU in two modes
    write_board(runs)  # a GPU in four, with energies
    write_scores(runs, [NET])
    assert "GPU" in first_choice(compute(ingest(runs))).device
    write_networks(runs, [measurement("nets", (0.0125,) * 9, model_hash=NET.model_hash)])
    found = compute(ingest(runs))
    first, second = headlines(found, first_choice(found))
    assert first.table.title.startswith("Networks that ran on ")
    assert second.table.title.startswith("Modelled networks; none ran on ")


def test_every_device_has_its_recommendation_on_the_page(tmp_path: Path) -> None:
    runs = write_board(tmp_path)  # networks of its GPU; the programs are of the whole board
    write_scores(runs, [NET, OTHER])
    for name, wall_s, power_w in (("15W", 4.0, 8.0), ("30W", 2.0, 25.0)):
        for workload in ("first", "second"):
            row = program(f"{workload}-{name}", [wall_s] * 6, power_w=power_w, workload=workload)
            mode = power_mode(name, 1e9, 3e9)
            write_programs(runs, [row], 8, on=board(), meters_missing={}, mode=mode)
    found = compute(ingest(runs))
    assert len(headlines(found, first_choice(found))) == 1  # programs have a table of their own
    lines = overview(found)
    assert len(lines) == 2
    main = Page(render(found)).text
    assert all(line in main for line in lines)


def test_the_recorded_ratios_are_those_of_the_documents() -> None:
    text = Path("docs/understand/trust.md").read_text(encoding="utf-8")
    for engine, (low, middle, high) in ROOF_RATIOS.items():
        found = re.search(rf"{engine}: ([\d.]+) to ([\d.]+), median ([\d.]+)", text)
        assert found is not None, engine
        assert tuple(map(float, found.groups())) == (low, high, middle)
    assert ROOF_ENGINE in ROOF_RATIOS


def test_longest_times_are_those_of_the_documents() -> None:
    text = Path("docs/results/held_back.md").read_text(encoding="utf-8")
    table = text.split("**Longest times by the length of the bound, TensorRT**")[1]
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| [\d.]+ \|$", table, re.M)
    found = [(float(bound_ms), float(longest_ms)) for bound_ms, longest_ms in rows]
    mine = [(float(f"{1e3 * one:.3g}"), float(f"{1e3 * other:.3g}")) for one, other in ROOF_LONGEST]
    assert found == mine
    assert f"x {ROOF_MARGIN}: 1.2 %" in text
    assert f"| all | 540 | x {ROOF_TIE} |" in text


@given(st.floats(1e-7, 10.0), st.floats(1.0, 10.0))
def test_a_longer_bound_has_a_longer_time_and_no_greater_ratio(bound_s: float, by: float) -> None:
    longest_s, longer_s = expected_span_s(bound_s)[1], expected_span_s(by * bound_s)[1]
    assert longest_s <= longer_s * (1 + 1e-12)
    assert longer_s <= longest_s * by * (1 + 1e-12)


def test_the_longest_time_lies_on_the_envelope() -> None:
    # 1.93 to 2.99 ms: 32.6 to 42.1 ms, in the middle 37.35; 670 ms: twice 415 ms
    longest = [expected_span_s(bound_s)[1] / 1.25 for bound_s in (1e-6, 2.46e-3, 0.67)]
    assert longest == pytest.approx([1.1e-3, 37.35e-3, 0.83])
    assert expected_span_s(0.001)[0] == pytest.approx(0.00113)


@pytest.mark.parametrize("part", ["How ceilings are computed", "Sources of all numbers"])
def test_evidence_is_folded_and_questions_are_not(tmp_path: Path, part: str) -> None:
    text = render(results(tmp_path))
    main = text.split("<main>")[1].split("</main>")[0]
    opened = re.sub(r"<details(?:(?!<details).)*?</details>", "", main, flags=re.DOTALL)
    while "<details" in opened:
        opened = re.sub(r"<details(?:(?!<details).)*?</details>", "", opened, flags=re.DOTALL)
    assert f"<summary>{part}" in main
    assert part not in opened
    headings = re.findall(r"<h2>(.*?)</h2>", opened)
    assert headings[:2] == ["Results", "Which power mode?"]
    assert headings[2:] == ["What limits it?", "Which layers?", "How was it measured?"]
    # The first table, and no other, is on the page without a click.
    assert opened.count("<table") <= 2
    assert "<details open" not in main
    # One count of the notices, in the navigation.
    assert len(re.findall(r"\d+ notice|Notices \(\d+\)", Page(text).text)) <= 1
