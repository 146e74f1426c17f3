"""Keys, captions and values of figures: measured or modelled, with intervals where known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.figures.figure import si_prefix
from mansard.analytics.pages.figures.modes import gather, heat_chart, pareto_chart
from mansard.analytics.pages.figures.parameters import Chosen
from mansard.analytics.pages.paper.caption import caption
from mansard.analytics.pages.paper.content import Content
from mansard.analytics.pages.paper.drawing import Inside
from mansard.analytics.pages.paper.layers import layers_content
from mansard.analytics.pages.paper.modes import _value_text, modes_content, pareto_content
from mansard.analytics.pages.paper.roofline import energy_content, roofline_content
from mansard.analytics.pages.paper.selection import Wish, choose_device
from mansard.analytics.pages.results import Results, compute
from mansard.cli.__main__ import run
from mansard.core.errors import UsageError
from tests.analytics.board_runs import write_board
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores
from tests.cli.decide_runs import published_runs


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A metered board in two modes, and published roofs of another of a similar name."""
    folder = tmp_path_factory.mktemp("board")
    runs = folder / "runs"
    write_board(runs, {"15W": (408e6, 2133e6), "30W": (612e6, 3199e6)})
    write_scores(runs, [score("net", [layer(0, 10**9, 10**7), layer(1, 10**6, 10**8)])])
    table = folder / "table.csv"
    table.write_text("mode,precision,gflops,dram_gb_s\nMAXN,fp32,1000,100\n", "utf-8")
    words = ["data", "import", str(table), "--citation", "A. Author 2020"]
    assert run([*words, "--device", "Jetson AGX", "--runs", str(runs)]) == 0
    return compute(ingest(runs))


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A plain machine in two modes; one network was run, and another is modelled."""
    runs = tmp_path_factory.mktemp("cores") / "runs"
    write_two_modes(runs)
    scores = [score("a", [layer(0, 10**9, 10**6)]), score("b", [layer(0, 3 * 10**9, 10**6)])]
    write_scores(runs, scores)
    row = measurement("nets", (0.08,) * 9, model="a", model_hash=scores[0].model_hash)
    write_networks(runs, [row])
    return compute(ingest(runs))


def device_of(results: Results, text: str) -> str:
    (name,) = {name for name in results.decided["device"].to_list() if text in name}
    return str(name)


def test_values_at_best_are_rounded_down_and_have_the_ends_of_their_intervals(
    board: Results,
) -> None:
    frame = pareto_content(board, Wish()).frame
    exact = board.decided.filter(
        (pl.col("network") == "net") & (pl.col("device") == device_of(board, "Orin"))
    )
    for row in frame.iter_rows(named=True):
        (value,) = exact.filter(mode=row["mode"], precision=row["precision"])["latency_s"].to_list()
        assert row["reading"] == "at best by the roofs"
        # Four digits, and no more than the roof allows.
        assert 0 <= 1e3 * value - row["latency_ms"] < 1e-3 * row["latency_ms"]
        assert row["latency_low_ms"] <= row["latency_high_ms"]
        assert row["interval"] == "roof"


def test_intervals_of_ceilings_are_not_drawn_as_error_bars(board: Results) -> None:
    for content in (pareto_content(board, Wish()), modes_content(board, Wish())):
        text = " ".join(content.sentences)
        assert "Rules are" not in text
        assert "Hollow" in text
        assert "Filled" not in text
        spec = str(content.build(Inside(300, 200, 1.0)).to_dict())
        assert "m-interval" not in spec
        assert "modelled, at best by the roofs" in spec


def test_published_times_are_filled_and_say_where_they_are_published(tmp_path: Path) -> None:
    results = compute(ingest(published_runs(tmp_path / "runs")))
    content = pareto_content(results, Wish())
    assert "Filled markers: published." in content.sentences
    text = caption(content, results)
    assert "Published in: made up." in text
    assert "Measured" not in text


def test_an_interval_that_goes_on_beyond_the_axes_ends_in_an_arrow(tmp_path: Path) -> None:
    def arrows(content: Content) -> list[str]:
        layers = content.build(Inside(300, 200, 1.0)).to_dict()["layer"]
        shapes = (layer["mark"].get("shape", "") for layer in layers)
        return [shape for shape in shapes if shape.startswith("triangle")]

    results = compute(ingest(published_runs(tmp_path / "runs")))
    inside = pareto_content(results, Wish())
    assert "Arrows" not in " ".join(inside.sentences)
    assert not arrows(inside)
    is_wide = pl.col("mode") == "gpu800-emc1600"
    wide = results.decided.with_columns(
        latency_low_s=pl.col("latency_low_s") / pl.when(is_wide).then(4).otherwise(1),
        energy_high_j=pl.col("energy_high_j") * pl.when(is_wide).then(4).otherwise(1),
    )
    beyond = pareto_content(dataclasses.replace(results, decided=wide), Wish())
    assert "Arrows: the interval goes on beyond the axes." in beyond.sentences
    assert arrows(beyond) == ["triangle-left", "triangle-up"]


def test_layers_of_a_model_are_hollow_and_at_their_roof_only_if_they_are(board: Results) -> None:
    content = layers_content(board, Wish(models=("net",), mode="30W"))
    assert "Hollow markers: modelled." in content.sentences
    drawn = content.frame.filter(part="layer")
    peak = content.frame.filter(part="roof")["rate_gflop_per_s"].max()
    slope = board.roofs[0].bandwidth("DRAM").value
    assert slope is not None
    assert peak is not None
    state = content.sentences[0]
    assert "below their roof" in state or "all at their roof" in state
    assert "'m-hollow'" in str(content.build(Inside(300, 200, 1.0)).to_dict())
    assert drawn["source"].unique().to_list() == ["modelled"]


def test_networks_in_several_precisions_have_them_in_their_names(tmp_path: Path) -> None:
    runs = write_board(tmp_path / "runs", {"30W": (612e6, 3199e6)})
    works = [layer(0, 10**9, 10**7)]
    half = [msgspec.structs.replace(one, precision="fp16") for one in works]
    write_scores(runs, [score("a", works), score("b", half, precision="fp16")])
    results = compute(ingest(runs))
    both = str(roofline_content(results, Wish()).build(Inside(300, 200, 1.0)).to_dict())
    assert "'a fp32'" in both
    assert "'b fp16'" in both
    one = str(roofline_content(results, Wish(models=("a",))).build(Inside(300, 200, 1.0)).to_dict())
    assert "'a'" in one
    assert "'a fp32'" not in one


def test_measured_networks_are_filled_and_the_key_says_so(cores: Results) -> None:
    content = roofline_content(cores, Wish(models=("a",)))
    assert set(content.frame.filter(part="network")["source"]) == {"measured", "modelled"}
    spec = str(content.build(Inside(300, 200, 1.0)).to_dict())
    assert "'domain': ['measured', 'modelled, at best']" in spec


def test_the_modes_of_a_report_have_what_was_measured_and_no_star_without_a_rival(
    cores: Results,
) -> None:
    (pick,) = (each for each in cores.recommendations if each.network == "a")
    assert pick.choice is not None
    assert pick.choice.is_measured
    assert pick.lacks_rivals
    frame = gather(cores, Chosen()).drawn.frame.filter(network="a")
    rows = {row["mode"]: row for row in frame.iter_rows(named=True)}
    assert (rows["2c"]["latency"], rows["2c"]["source"]) == (80.0, "measured")
    assert rows["1c"]["source"] == "modelled"
    assert not frame["is_recommended"].any()


def test_a_report_has_hollow_points_and_marks_bounds_in_its_map(board: Results) -> None:
    points = gather(board, Chosen())
    chosen = Chosen(network="net")
    front = str(pareto_chart(points.drawn.frame, chosen).to_dict())
    assert "datum.source !== 'modelled'" in front  # filled, over outlines of all
    assert "○" in front
    cells = points.drawn.frame.filter(pl.col("is_cell") & (pl.col("gpu") > 0))
    assert "≥" in str(heat_chart(cells, chosen).to_dict())


@pytest.mark.parametrize(
    ("value_ms", "is_least", "text"),
    [
        (34.28, True, "≥ 34.2"),  # rounded down
        (34.28, False, "34.3"),
        (0.04, False, "0.0400"),  # the axis is in ms
        (1300.0, False, "1,300"),
        (999.96, False, "1,000"),
    ],
)
def test_labels_are_in_the_unit_of_the_axis(value_ms: float, is_least: bool, text: str) -> None:
    assert _value_text(value_ms, si_prefix(50.0, -3), is_least=is_least) == text


def test_an_exact_name_wins_and_the_default_has_what_is_drawn(board: Results) -> None:
    published, metered = "Jetson AGX (published)", device_of(board, "Orin")
    assert choose_device(board, Wish(device="jetson agx (published)")) == published
    assert choose_device(board, Wish(device=metered.upper())) == metered
    # Both contain it; one has energies.
    assert choose_device(board, Wish(device="Jetson AGX"), {metered}) == metered
    with pytest.raises(UsageError, match="several devices are called"):
        choose_device(board, Wish(device="Jetson AGX"))
    assert choose_device(board, Wish(), {published}) == published


def test_a_published_board_without_energies_says_what_is_missing(board: Results) -> None:
    with pytest.raises(UsageError) as refused:
        energy_content(board, Wish(device="Jetson AGX (published)"))
    assert refused.value.what == (
        "the energy of Jetson AGX (published) is unknown: its published figures have none"
    )
    assert "mansard bench MODEL" not in (refused.value.fix or "")
    assert energy_content(board, Wish()).device == device_of(board, "Orin")
