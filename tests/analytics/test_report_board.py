"""The whole page of a metered board in four modes with many networks: its parts and its size."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.published.importing import import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import write_published
from mansard.analytics.pages.figures.parameters import EVERY, controls, first_choice, mode_labels
from mansard.analytics.pages.figures.tables import shortened
from mansard.analytics.pages.report.write import LEAST_ROOFS, MOST_ROOFS, for_page, render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.advice import advice_table, overview, overview_sources
from mansard.analytics.pages.tables.provenance import origin_table
from mansard.core.table import Table
from tests.analytics.board_runs import MODES, write_board
from tests.analytics.factory import HOSTILE, write_two_modes
from tests.analytics.page_reader import Page, chart_rows, specs
from tests.analytics.score_factory import layer, score, write_scores

N_NETWORKS = 32


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = write_board(tmp_path_factory.mktemp("runs"))
    names = [HOSTILE, *(f"network-{at:02}" for at in range(1, N_NETWORKS))]
    scores = [
        score(
            name,
            [
                layer(
                    at,
                    batch * 10**7 * (at + 1) * (number + 1),
                    10**6 * (batch + 3),
                    name=f"/features/{at}/convolution",
                    precision=precision,
                )
                for at in range(24)
            ],
            batch=batch,
            precision=precision,
        )
        for number, name in enumerate(names)
        for precision in ("fp16", "fp32")
        for batch in (1, 8)
    ]
    write_scores(runs, scores)
    return compute(ingest(runs))


@pytest.fixture(scope="module")
def text(results: Results) -> str:
    return render(results)


def test_thirty_two_networks_in_four_modes_stay_under_two_megabytes(text: str) -> None:
    assert len(text.encode()) < 2_000_000


def test_every_part_of_the_page_is_there(text: str) -> None:
    page = Page(text)
    assert list(specs(page)) == [
        *("roofline", "roof-shares", "energy-roofline", "power-roof", "pareto", "heat"),
        *("layer-classes", "layers", "layer-energy", "batches"),
        *("staircase", "chains", "latency"),
    ]
    assert text.count("Data of this chart") == 13
    for heading in ("Which power mode?", "Predicted and measured", "Where the numbers come from"):
        assert heading in page.text
    # nobody ran a network: it says what would bring the chart
    assert "No network ran in a predicted mode" in page.text


def test_the_recommendation_is_a_sentence_with_its_saving(results: Results, text: str) -> None:
    (line,) = overview(results)
    modes = [each.choice.mode for each in results.recommendations if each.choice is not None]
    most = max(set(modes), key=modes.count)
    assert line.startswith(f"{most} uses the least energy for ")
    assert f"{modes.count(most)} of {N_NETWORKS} networks" in line or "all 32" in line
    # no network was run: the least is that of the roofs
    assert ", by the roofs alone" in line
    assert overview_sources(results) == [["modelled"]]
    assert line in Page(text).text
    rows = advice_table(results).rows
    assert len(rows) == N_NETWORKS
    assert all(len(row) == len(advice_table(results).columns) for row in rows)


def test_charts_that_draw_the_same_rows_share_them(text: str) -> None:
    found = specs(Page(text))
    layers = set(found["layers"]["datasets"])
    assert layers < set(found["roofline"]["datasets"])
    assert layers < set(found["energy-roofline"]["datasets"])
    assert layers < set(found["power-roof"]["datasets"])


def test_a_hostile_name_is_data_everywhere_and_never_markup(text: str) -> None:
    page = Page(text)
    assert HOSTILE not in text
    assert "img" not in {tag for tag, _ in page.tags}
    for chart in ("pareto", "heat", "batches", "layers", "roofline"):
        networks = {row["network"] for row in chart_rows(page, chart) if "network" in row}
        assert HOSTILE in networks, chart


def test_no_number_of_any_chart_is_missing_where_it_is_drawn(text: str) -> None:
    page = Page(text)
    rows = [row for row in chart_rows(page, "pareto") if "latency" in row]
    # one batch, the four modes, two precisions
    assert len(rows) == 4 * 2 * N_NETWORKS
    assert all(row["latency"] > 0 and row["energy"] > 0 and row["power"] > 0 for row in rows)


def test_the_controls_say_what_the_charts_show_first(results: Results, text: str) -> None:
    chosen = first_choice(results)
    assert chosen.mode in MODES
    assert (chosen.network, chosen.precision, chosen.batch) == (EVERY, "fp16", "1")
    found = {each.name: each for each in controls(results, chosen)}
    assert list(found) == ["mode", "network", "precision", "batch"]
    assert [option.value for option in found["mode"].options] == list(MODES)
    assert found["network"].is_list
    assert len(found["network"].options) == N_NETWORKS + 1  # all of them
    for name, spec in specs(Page(text)).items():
        by = spec["usermeta"]["rule"]["by"]
        for parameter in spec["params"]:
            value = parameter["value"]
            if parameter["name"].startswith("shown_"):  # what a legend names: what is there
                assert value == sorted(set(value)) != [], name
            elif parameter["name"] == "tops":  # the highest peak of each mode and precision
                assert value
            elif parameter["name"] == "heading":  # "network-01, batch 1, fp16", "MAXN"
                assert value, name
            elif by.get(parameter["name"]) in {"first", "main"}:  # of no choice the first
                assert value != EVERY, name
            else:
                assert value == getattr(chosen, parameter["name"]), (name, parameter)


def test_the_page_starts_at_the_mode_that_is_recommended_most_often(results: Results) -> None:
    # The first network wants 15W, all others 50W: so says the summary, and so starts the bar.
    changed = tuple(
        msgspec.structs.replace(
            each, choice=msgspec.structs.replace(each.choice, mode="50W" if at else "15W")
        )
        for at, each in enumerate(results.recommendations)
        if each.choice is not None
    )
    assert len(changed) > 2
    chosen = first_choice(dataclasses.replace(results, recommendations=changed))
    assert (chosen.mode, chosen.picked) == ("50W", "50W")


def test_labels_of_modes_are_those_of_their_roofs(results: Results) -> None:
    labels = mode_labels(results)
    assert sorted(labels.values()) == sorted(MODES)


def test_the_origin_of_every_kind_of_number_is_told(results: Results) -> None:
    rows = {row[0]: row[1:] for row in origin_table(results).rows}
    assert rows["Roofs"][:2] == ["simulated", "4 modes"]
    assert rows["Energy of work, traffic and time"][:2] == ["modelled", "4 modes"]
    # 32 networks × 2 precisions × 2 batches × 4 modes
    assert rows["Networks"][:2] == ["modelled", "512 predictions"]
    assert "boundary: the module" in rows["Power"][2]
    assert rows["GPU clocks"][0] == "simulated"


def test_of_many_modes_the_page_keeps_some_and_says_so(results: Results) -> None:
    # 300 pairs of a mode and a network, and 32 networks in two precisions: 300 // 64 = 4
    assert for_page(results) == (results, ())
    many = dataclasses.replace(
        results,
        roofs=tuple(
            msgspec.structs.replace(roof, run_id=f"{roof.run_id}-{at}")
            for at in range(3)
            for roof in results.roofs
        ),
    )
    shown, notes = for_page(many)
    assert len(shown.roofs) == LEAST_ROOFS
    assert len(notes) == 1
    assert notes[0].startswith("4 of 12 modes")
    assert len(shown.predictions) == len(results.predictions)
    few = dataclasses.replace(many, networks=results.networks.filter(pl.col("model") == HOSTILE))
    assert for_page(few) == (few, ())  # two networks of two precisions: 300 // 2 > MOST_ROOFS
    assert MOST_ROOFS == 16


def test_layers_are_those_of_the_roofs_that_are_kept(tmp_path: Path) -> None:
    modes = {f"M{at:02}": (408e6 + 60e6 * at, 3199e6) for at in range(MOST_ROOFS + 2)}
    runs = write_board(tmp_path, modes)
    write_scores(runs, [score("net", [layer(0, 10**9, 10**6)])])
    kept, notes = for_page(compute(ingest(runs)))
    assert len(notes) == 1
    labels = {roof.label for roof in kept.roofs}
    assert len(labels) == MOST_ROOFS
    assert set(kept.groups["label"].to_list()) == labels


def test_a_long_table_is_cut_and_says_so() -> None:
    table = Table("Rows", ("a",), [[str(at)] for at in range(500)])
    found = shortened(table)
    assert len(found.rows) == 200
    assert found.title == "Rows, the first 200 of 500 rows"
    short = Table("Rows", ("a",), [["1"]])
    assert shortened(short) is short


def test_without_anything_to_recommend_the_page_says_how(tmp_path: Path) -> None:
    page = Page(render(compute(ingest(write_two_modes(tmp_path)))))
    assert "No recommendation yet" in page.text
    assert "mansard recommend model.onnx" in page.text
    assert "No network was predicted" in page.text


def test_times_of_others_alone_are_modes_without_roofs(tmp_path: Path) -> None:
    table = tmp_path / "theirs.csv"
    table.write_text(
        "mode,network,batch,precision,time_ms,power_w,gpu_mhz,emc_mhz\n"
        "A,vgg,1,fp16,10,20,600,1600\n"
        "B,vgg,1,fp16,7,26,900,1600\n"
        "C,vgg,1,fp16,6,33,1200,1600\n"
        "D,vgg,1,fp16,8,24,900,800\n"
        "A,lstm,1,fp16,3,18,600,1600\n"
        "C,lstm,1,fp16,2,24,1200,1600\n"
    )
    origin = PublishedOrigin(citation="somebody, 2026", device="Their Board", processor="gpu")
    write_published(tmp_path, import_table(table, origin))
    page = Page(render(compute(ingest(tmp_path))))
    assert list(specs(page)) == ["pareto", "heat"]
    assert "Power modes of Their Board (published)" in page.text
    assert "Where do the numbers come from?" in page.text
    assert "No roofs: `mansard bench` measures them".replace("`", "") in page.text
    assert {"vgg", "lstm"} <= {attrs.get("value") for _, attrs in page.tags}
