"""Figures for papers as files: their size, type, text, values and fonts, from real rendering."""

from __future__ import annotations

import csv
import io
import math
import re
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.figures.figure import si_prefix
from mansard.analytics.pages.paper.content import log_ticks
from mansard.analytics.pages.paper.drawing import Inside, fonts_in
from mansard.analytics.pages.paper.figure import (
    DrawnFigure,
    FigureRequest,
    check_request,
    figure_of_runs,
)
from mansard.analytics.pages.paper.modes import pareto_content
from mansard.analytics.pages.paper.roofline import roofline_content
from mansard.analytics.pages.paper.selection import Wish
from mansard.analytics.pages.paper.write import file_stem, values_file
from mansard.analytics.pages.results import Results, compute
from mansard.core.errors import UsageError
from tests.analytics.board_runs import MODES, power_mode, write_board
from tests.analytics.factory import measurement, write_networks, write_run, write_two_modes
from tests.analytics.gpu_factory import gpu_manifest
from tests.analytics.score_factory import layer, score, write_scores

HOSTILE = r"<script>alert(1)</script>\input{x}%$&_#"
LONG = "n" * 500
AS_WIDE = ("Arimo", "Arial", "Helvetica", "Nimbus Sans", "sans-serif")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A metered board in four modes, with networks of usual and of hostile names."""
    runs = tmp_path_factory.mktemp("board") / "runs"
    write_board(runs)
    names = ("resnet50", "mobilenet_v2", HOSTILE, LONG)
    write_scores(
        runs,
        [
            score(name, [layer(0, work, 10**7), layer(1, 10**6, 10**8)])
            for name, work in zip(names, (10**9, 4 * 10**9, 10**10, 10**8), strict=True)
        ],
    )
    return compute(ingest(runs))


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A plain machine in two modes without a meter; one network was run."""
    runs = tmp_path_factory.mktemp("cores") / "runs"
    write_two_modes(runs)
    scores = [score("a", [layer(0, 10**9, 10**6)]), score("b", [layer(0, 3 * 10**9, 10**6)])]
    write_scores(runs, scores)
    row = measurement("nets", (0.08,) * 9, model="a", model_hash=scores[0].model_hash)
    write_networks(runs, [row])
    return compute(ingest(runs))


def drawn(results: Results, request: FigureRequest) -> DrawnFigure:
    check_request(request)
    return figure_of_runs(results, request, lambda _: None)


def svg_of(results: Results, kind: str, folder: Path, **known: object) -> ElementTree.Element:
    request = FigureRequest(kind=kind, output=folder / "fig.svg", **known)  # type: ignore[arg-type]
    return ElementTree.fromstring(drawn(results, request).paths[0].read_text("utf-8"))  # noqa: S314 - ours


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(each.itertext()).strip() for each in root.iter(f"{SVG}text")]


KINDS = ("roofline", "energy", "pareto", "layers", "modes")


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_has_the_width_of_a_column_and_one_font(
    board: Results, tmp_path: Path, kind: str
) -> None:
    root = svg_of(board, kind, tmp_path)
    assert root.get("width") == "252pt"  # 3.5 in of 72 pt
    # 12 px of the box are 8 pt on paper: 252 · 12 / 8 = 378 px across
    assert root.get("viewBox", "").split()[2] == "378"
    marks = [each for each in root.iter(f"{SVG}text") if each.get("font-size")]
    # in a viewer without it, fonts whose letters are as wide
    (family,) = {each.get("font-family") for each in marks}
    assert str(family).split(", ") == ["Liberation Sans", *AS_WIDE]
    assert {each.get("font-size") for each in marks} == {"12px"}
    words = texts(root)
    assert any("Jetson AGX Orin" in word for word in words)
    assert not any(re.search(r"\de[+\d]", word) for word in words)  # never 1e14


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_covers_another(board: Results, tmp_path: Path, kind: str) -> None:
    """A word is some 5 px a letter wide, and a line 9 px high."""
    root = svg_of(board, kind, tmp_path)
    boxes = []
    for word, (x, y), anchor in placed_texts(root):
        wide = 5.0 * len(word)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        boxes.append((word, left, left + wide, y - 4.5, y + 4.5))
    for at, (word, left, right, top, bottom) in enumerate(boxes):
        for other, left2, right2, top2, bottom2 in boxes[at + 1 :]:
            if word != other:  # a name and its halo
                apart = left >= right2 or left2 >= right or top >= bottom2 or top2 >= bottom
                assert apart, (word, other)


def placed_texts(root: ElementTree.Element) -> list[tuple[str, tuple[float, float], str]]:
    """Level texts with the places of their anchors, px."""
    found: list[tuple[str, tuple[float, float], str]] = []

    def walk(part: ElementTree.Element, x: float, y: float) -> None:
        transform = part.get("transform", "")
        match = re.match(r"translate\(([-\d.]+),\s*([-\d.]+)\)", transform)
        if match:
            x, y = x + float(match[1]), y + float(match[2])
        word = "".join(part.itertext()).strip()
        if part.tag == f"{SVG}text" and word and "rotate" not in transform:
            found.append((word, (x, y), part.get("text-anchor") or "start"))
        for inner in part:
            walk(inner, x, y)

    walk(root, 0.0, 0.0)
    return found


def test_axes_and_roofs_have_si_units(board: Results, tmp_path: Path) -> None:
    precisions = ("int8", "fp32")
    words = texts(svg_of(board, "roofline", tmp_path, mode="MAXN", precisions=precisions))
    assert "Arithmetic intensity, FLOP/byte (int8: OP/byte)" in words
    assert "TFLOP/s (int8: TOP/s)" in words
    assert any(re.fullmatch(r"int8 tensor \S+\sTOP/s", word) for word in words)
    assert any(re.fullmatch(r"fp32 \S+\sTFLOP/s", word) for word in words)
    assert any(re.match(r"L2 [\d.,]+\sGB/s", word) for word in words)


def test_roofs_are_those_of_the_precisions_of_the_networks(board: Results) -> None:
    def peaks(wish: Wish) -> set[str]:
        rows = roofline_content(board, wish).frame.filter(pl.col("part") == "roof")
        return {name for name in rows["name"] if name.endswith("peak")}

    assert peaks(Wish()) == {"fp32 peak"}
    assert peaks(Wish(precisions=("int8", "fp32"))) == {"fp32 peak", "int8 tensor peak"}


def test_a_network_is_shown_as_it_ran_and_in_each_precision_that_is_named(tmp_path: Path) -> None:
    write_board(tmp_path / "runs")
    scored = [
        score(name, [layer(0, 10**9, traffic)], precision=precision)
        for name in ("a", "b")
        for precision, traffic in (("fp32", 10**7), ("fp16", 5 * 10**6))
    ]
    write_scores(tmp_path / "runs", scored)
    gpu: dict[str, Any] = {
        "processor": "gpu",
        "engine": "trt",
        "provider": "tensorrt",
        "threads": None,
    }
    gpu |= {"model": "a", "model_hash": scored[0].model_hash}
    row = measurement("nets", (0.08,) * 9, **gpu)
    mode = power_mode("MAXN", *MODES["MAXN"])
    write_run(
        tmp_path / "runs/nets",
        msgspec.structs.replace(gpu_manifest("nets", 1, mode=mode), kind="networks"),
        [row],
    )
    results = compute(ingest(tmp_path / "runs"))

    def shown(wish: Wish) -> set[tuple[str, str, str]]:
        rows = roofline_content(results, wish).frame.filter(pl.col("part") == "network")
        return set(rows.select("name", "precision", "source").rows())

    # The time in fp16 is modelled and shorter; a ran in fp32.
    as_ran = {("a", "fp32", "measured"), ("a", "fp32", "modelled")}
    assert shown(Wish(mode="MAXN")) == {*as_ran, ("b", "fp16", "modelled")}
    both = Wish(mode="MAXN", models=("a",), precisions=("fp16", "fp32"))
    assert shown(both) == {*as_ran, ("a", "fp16", "modelled")}


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_cut(board: Results, tmp_path: Path, kind: str) -> None:
    root = svg_of(board, kind, tmp_path)
    _, _, width, height = (float(each) for each in root.get("viewBox", "").split())
    for word, (x, y), anchor in placed_texts(root):
        # capital letters and digits of 12 px type are some 6 px wide
        left = x - {"start": 0.0, "middle": 2.5, "end": 5.0}[anchor] * len(word)
        assert left >= -6, word
        assert left + 5.0 * len(word) <= width + 6, word
        assert 0 <= y <= height, word


def test_ten_networks_have_a_legend_that_fits(tmp_path: Path) -> None:
    write_two_modes(tmp_path / "runs")
    names = [f"network_with_a_long_name_{at}" for at in range(12)]
    scored = [score(name, [layer(0, 10**9, 10**6 * (at + 1))]) for at, name in enumerate(names)]
    write_scores(tmp_path / "runs", scored)
    results = compute(ingest(tmp_path / "runs"))
    request = FigureRequest(kind="roofline", output=tmp_path / "fig.svg")
    assert "2 more networks not drawn." in drawn(results, request).caption
    root = ElementTree.fromstring((tmp_path / "fig.svg").read_text("utf-8"))  # noqa: S314 - ours
    height = float(root.get("viewBox", "").split()[3])
    places = {word: spot for word, spot, _ in placed_texts(root)}
    named = {word: spot for word, spot in places.items() if word.startswith("network_wit…")}
    assert len(named) == 10  # the end of each name tells them apart
    assert max(y for _, y in places.values()) <= height
    assert len({round(x) for x, _ in named.values()}) == 2  # columns


def test_no_name_of_a_mode_covers_the_front(board: Results) -> None:
    """The front goes across to the next mode, then down; names are some 5 px a letter wide."""
    content = pareto_content(board, Wish(models=("resnet50",)))
    spec = content.build(Inside(300, 200, 1.0)).to_dict()
    (names,) = [rows for rows in spec["datasets"].values() if "align" in rows[0]]
    layer_of_dots = next(one for one in spec["layer"] if "scale" in one["encoding"]["x"])
    ends = [layer_of_dots["encoding"][axis]["scale"]["domain"] for axis in "xy"]

    def pixels(x: float, y: float) -> tuple[float, float]:
        (left, right), (low, high) = ends
        across = 300 * math.log(x / left) / math.log(right / left)
        return across, 200 - 200 * math.log(y / low) / math.log(high / low)

    front = content.frame.filter("is_on_front").sort("latency_ms")
    places = [pixels(*row) for row in front.select("latency_ms", "energy_per_item_mj").rows()]
    assert len(places) == 2
    for row in names:
        x, y = pixels(row["x"], row["y"])
        wide = 5.0 * len(row["text"])
        left = x - {"left": 0.0, "center": wide / 2, "right": wide}[row["align"]]
        assert left >= 0
        for (x0, y0), (x1, y1) in pairwise(places):
            is_across = abs(y - y0) < 4.5 and left < x1 and left + wide > x0
            is_down = left < x1 < left + wide and y0 < y + 4.5 and y - 4.5 < y1
            assert not is_across, row["text"]
            assert not is_down, row["text"]


def test_networks_differ_in_shape_and_in_colour(board: Results, tmp_path: Path) -> None:
    svg_of(board, "roofline", tmp_path)
    text = (tmp_path / "fig.svg").read_text("utf-8")
    legend = text[text.index("role-legend") :]
    symbols = re.findall(r'<path transform="[^"]*" d="([^"]+)"[^>]*stroke="(#[^"]+)"', legend)
    networks, key = symbols[:4], symbols[4:]
    assert len({shape for shape, _ in networks}) == 4
    assert len({colour for _, colour in networks}) == 4
    assert [colour for _, colour in key] == ["#1d2733"]  # hollow: modelled
    assert "modelled, at best" in legend


def test_values_are_those_that_are_drawn(board: Results, tmp_path: Path) -> None:
    done = drawn(board, FigureRequest(kind="roofline", output=tmp_path / "fig.svg", mode="30W"))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "fig.csv").read_text("utf-8"))))
    assert len(rows) == len(done.frame)
    content = roofline_content(board, Wish(mode="30W"))
    spec = content.build(Inside(300, 200, 1.0)).to_dict()
    plotted = {
        (row["name"], row["intensity_flop_per_byte"], row["rate_gflop_per_s"])
        for data in spec["datasets"].values()
        for row in data
        if "rate_gflop_per_s" in row
    }
    written = {
        (row["name"], float(row["intensity_flop_per_byte"]), float(row["rate_gflop_per_s"]))
        for row in rows
        if row["name"] in {"resnet50", "L2", "fp32 peak", "DRAM"} and row["part"] != "band"
    }
    assert written <= plotted
    assert {row["part"] for row in rows} == {"roof", "band", "ridge point", "network"}
    # resnet50: (1e9 + 1e6) FLOP of 1e7 + 1e8 bytes
    (resnet,) = [row for row in rows if row["name"] == "resnet50"]
    assert float(resnet["intensity_flop_per_byte"]) == pytest.approx(9.1, rel=1e-3)


def test_a_pdf_has_its_size_and_its_font_inside(board: Results, tmp_path: Path) -> None:
    request = FigureRequest(kind="roofline", output=tmp_path / "fig.pdf", height_pt=150.0)
    pdf = drawn(board, request).paths[0].read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/MediaBox [0 0 252 150]" in pdf
    assert b"/FontFile" in pdf
    assert fonts_in(pdf) == ("LiberationSans",)


def test_a_png_has_300_dots_an_inch(board: Results, tmp_path: Path) -> None:
    request = FigureRequest(kind="pareto", output=tmp_path / "fig.png", height_pt=180.0)
    png = drawn(board, request).paths[0].read_bytes()
    # 252 pt · 300 / 72 = 1050, 180 pt · 300 / 72 = 750
    assert struct.unpack(">II", png[16:24]) == (1050, 750)
    assert b"tEXtSoftware\0Drawn by Mansard" in png[:120]


@pytest.mark.parametrize("font", ["No Such Font", "sans-serif", '"><script>', "x" * 80])
def test_a_font_that_is_not_there_is_refused(font: str) -> None:
    with pytest.raises(UsageError, match="no font"):
        check_request(FigureRequest(kind="roofline", font=font))


def test_names_of_files_are_safe(board: Results) -> None:
    content = roofline_content(board, Wish(mode="15W"))
    assert file_stem(content) == "roofline-jetson-agx-orin-64gb-15w"
    hostile = replace(content, device="../../etc/ü\x00\n", mode=LONG)
    stem = file_stem(hostile)
    assert re.fullmatch(r"[a-z0-9-]{1,100}", stem)
    assert stem.startswith("roofline-etc-u-nnn")


def test_rows_set_the_height_of_a_figure_of_modes(
    board: Results, cores: Results, tmp_path: Path
) -> None:
    """Each mode has 20 px, 13.3 pt, under a title of any number of lines."""
    for results in (board, cores):  # four modes and two
        root = svg_of(results, "modes", tmp_path)
        width, height = (float(each) for each in root.get("viewBox", "").split()[2:])
        assert root.get("width") == "252pt"
        assert float(root.get("height", "").removesuffix("pt")) == pytest.approx(
            height * 8 / 12, abs=1e-3
        )
        assert width == 378
        n_modes = 4 if results is board else 2
        assert 20 * n_modes + 40 < height < 20 * n_modes + 110


def test_a_title_has_no_number_of_characters(board: Results) -> None:
    content = roofline_content(board, Wish(mode="15W"))
    assert content.title == "Roofline, Jetson AGX Orin 64GB, 15W"
    # A device that another one is called like: its id stays.
    cut = f"{'board ' * 13}bo… (90 characters) (1a2b3c)"
    hostile = replace(content, device=cut, mode=f"{LONG}\n")
    # 60 characters: 39, the ellipsis, and the last 20
    shown = f"{('board ' * 6)}boa…d board bo… (1a2b3c)"
    assert hostile.title == f"Roofline, {shown}, {'n' * 79}…"


def test_texts_of_the_values_are_no_formulas() -> None:
    text = values_file(pl.DataFrame({"name": ["=1+1", "a\nb", "±"], "x_ms": [1.0, 2.0, 3.0]}))
    assert text.decode() == "name,x_ms\n'=1+1,1.0\na\\x0ab,2.0\n±,3.0\n"


def test_hostile_names_are_drawn_as_text(board: Results, tmp_path: Path) -> None:
    root = svg_of(board, "roofline", tmp_path)
    assert not list(root.iter(f"{SVG}script"))
    assert any(word.startswith("<script>") for word in texts(root))


def test_a_caption_says_where_the_values_come_from(board: Results, tmp_path: Path) -> None:
    done = drawn(board, FigureRequest(kind="roofline", output=tmp_path / "fig.svg", mode="30W"))
    assert (tmp_path / "fig.txt").read_text("utf-8") == f"{done.caption}\n"
    assert "power mode 30W" in done.caption
    assert re.search(r"^n: \d+ trials\.$", done.caption, re.MULTILINE)
    # The trials of this board are made up, so nothing was measured.
    assert re.search(r"^Simulated \d{4}-\d\d-\d\d \(UTC\) by Mansard ", done.caption, re.MULTILINE)
    assert "Measured" not in done.caption
    assert re.search(r"^Runs: ", done.caption, re.MULTILINE)
    assert "hollow markers: modelled" in done.caption


def test_measured_networks_are_filled(cores: Results, tmp_path: Path) -> None:
    done = drawn(cores, FigureRequest(kind="roofline", output=tmp_path / "fig.svg"))
    rows = done.frame.filter(pl.col("part") == "network")
    sources = {(row["name"], row["source"]) for row in rows.iter_rows(named=True)}
    assert {("b", "modelled"), ("a", "modelled")} <= sources


def test_what_is_missing_is_one_line(cores: Results, tmp_path: Path) -> None:
    for kind, known, line in (
        ("energy", {}, "the energy roofline needs kernels whose energy was metered"),
        ("pareto", {}, "so there is no Pareto front"),
        (
            "roofline",
            {"models": ("nothing",)},
            "no network 'nothing' was measured or scored there",
        ),
        ("roofline", {"mode": "9c"}, "has no roofs"),
        ("roofline", {"width_pt": 72.0}, "is too small for this figure"),
    ):
        with pytest.raises(UsageError) as refused:
            svg_of(cores, kind, tmp_path, **known)
        assert line in refused.value.what
        assert refused.value.fix
    assert not list(tmp_path.iterdir())


def test_a_network_that_ran_disturbed_is_on_the_roofline_and_says_so(tmp_path: Path) -> None:
    write_two_modes(tmp_path / "runs")
    scored = [score("a", [layer(0, 10**9, 10**6)], batch=4), score("b", [layer(0, 10**9, 10**6)])]
    write_scores(tmp_path / "runs", scored)
    rejected = ("other processes used the CPU",) * 9
    known = {"rejected_s": (0.08,) * 9, "rejected_reason": rejected, "batch": 4}
    row = measurement("nets", (), model="a", model_hash=scored[0].model_hash, **known)
    write_networks(tmp_path / "runs", [row])
    results = compute(ingest(tmp_path / "runs"))
    request = FigureRequest(kind="roofline", models=("a",), output=tmp_path / "fig.svg")
    done = drawn(results, request)
    # 10⁹ FLOP in 0.08 s are 12.5 GFLOP/s; with the batch in which it ran.
    (point,) = done.frame.filter(pl.col("source") == "measured (disturbed)").rows(named=True)
    assert (point["name"], point["batch"], point["rate_gflop_per_s"]) == ("a", "4", 12.5)
    assert "Other work disturbed a.\n" in done.caption
    assert "Values: measured, measured (disturbed)" in done.caption
    with pytest.raises(UsageError) as refused:
        drawn(results, replace(request, precisions=("int8",)))
    assert str(refused.value).endswith("mansard report a --precision int8")


def test_a_network_that_ran_without_roofs_names_the_command_that_measures_them(
    tmp_path: Path,
) -> None:
    row = measurement("nets", (0.08,) * 9, model="a", model_hash="a" * 16)
    write_networks(tmp_path / "my runs", [row])
    results = compute(ingest(tmp_path / "my runs"))
    for kind in ("roofline", "energy", "layers"):
        with pytest.raises(UsageError) as refused:
            svg_of(results, kind, tmp_path, models=("a",))
        assert refused.value.what.startswith("a ran, but no kernel was measured")
        assert refused.value.fix == "measure the roofs: mansard bench"


def test_a_network_has_the_batch_and_the_runs_of_its_own(tmp_path: Path) -> None:
    write_two_modes(tmp_path / "runs")
    scored = [
        score(name, [layer(0, 10**9, 10**6)], batch=batch)
        for name, batch in (("a", 1), ("b", 4), ("c", 8))
    ]
    write_scores(tmp_path / "runs", scored)
    known = {"model": "b", "model_hash": scored[1].model_hash, "batch": 4}
    write_networks(tmp_path / "runs", [measurement("nets", (0.08,) * 9, **known)])
    results = compute(ingest(tmp_path / "runs"))
    # Not 1, the smallest of all: a file is the network of its name.
    for model in ("c", "C.onnx"):
        request = FigureRequest(kind="roofline", models=(model,), output=tmp_path / "fig.svg")
        networks = drawn(results, request).frame.filter(pl.col("part") == "network")
        assert networks["batch"].unique().to_list() == ["8"]
    # Only b ran, with batch 4, in which c has no score.
    with pytest.raises(UsageError) as refused:
        svg_of(results, "roofline", tmp_path, models=("b", "c"))
    assert refused.value.what == "c has no score there"
    with pytest.raises(UsageError) as refused:
        svg_of(results, "roofline", tmp_path, models=("b",), batch=8)
    assert refused.value.what == "b did not run with these settings"
    assert refused.value.fix == "use --mode 2c --batch 4"


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (10.0, 2000.0, [10.0, 100.0, 1000.0]),
        (1.55, 2.3, [1.6, 1.8, 2.0, 2.2]),  # 2 alone is round
        (63.0, 66.2, [63.0, 64.0, 65.0, 66.0]),
    ],
)
def test_a_logarithmic_axis_has_three_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == ticks


def test_axes_have_prefixes_of_sensible_size() -> None:
    assert si_prefix(100_000.0) == ("T", 1000.0)  # GFLOP/s
    assert si_prefix(900.0) == ("G", 1.0)
    assert si_prefix(0.02) == ("M", 0.001)
    assert si_prefix(5000.0, -3, most=0) == ("", 1000.0)  # ms
    assert si_prefix(0.5, -3, most=0) == ("µ", 0.001)


def test_modelled_modes_are_hollow_and_marked(board: Results, tmp_path: Path) -> None:
    for kind in ("modes", "pareto"):
        words = texts(svg_of(board, kind, tmp_path, models=("resnet50",)))
        assert "modelled, at best by the roofs" in words
    marked = texts(svg_of(board, "modes", tmp_path, models=("resnet50",)))
    assert sum(word.startswith("≥ ") for word in marked) == 8  # four modes, two panels
