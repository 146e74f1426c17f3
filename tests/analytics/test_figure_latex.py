"""Ceilings as a LaTeX table."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.paper.figure import FigureRequest, check_request, figure_of_runs
from mansard.analytics.pages.paper.latex import ceiling_frame, escaped, latex_table
from mansard.analytics.pages.results import Results, compute
from mansard.core.errors import UsageError
from tests.analytics.board_runs import write_board


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = tmp_path_factory.mktemp("board") / "runs"
    write_board(runs)
    return compute(ingest(runs))


def test_special_characters_are_escaped() -> None:
    assert escaped(r"a_b & 50 % \input{x}") == (r"a\_b \& 50 \% \textbackslash{}input\{x\}")
    assert escaped("1\u00a0±\u00a02 µs") == r"1~$\pm$~2 $\mu$s"
    # no ligatures, no command of another font encoding, no letter that pdfLaTeX cannot set
    assert escaped('é ?` a--b "q" 日') == "é ?{`} a-{}-b ''q'' [U+65E5]"


def test_a_table_has_peaks_bandwidths_and_energies(board: Results, tmp_path: Path) -> None:
    request = FigureRequest(kind="roofline", output=tmp_path / "fig.tex", mode="30W")
    check_request(request)
    done = figure_of_runs(board, request, lambda _: None)
    assert [path.name for path in done.paths] == ["fig.tex", "fig.csv", "fig.txt"]
    text = (tmp_path / "fig.tex").read_text("utf-8")
    assert text.count("\\begin{") == text.count("\\end{") == 2
    assert re.search(r"^Peak, fp32 & [\d.]+~\$\\pm\$~[\d.]+~TFLOP/s & \d+ ", text, re.MULTILINE)
    assert "\\small\n" in text
    assert "\\label{tab:ceilings-jetson-agx-orin-64gb-30w}" in text
    (caption,) = re.findall(r"\\caption\{(.*)\}$", text, re.MULTILINE)
    assert "System: JetPack" in caption
    assert "driver 540.4.0" in caption
    assert re.search(r"Simulated \d{4}-\d\d-\d\d \(UTC\) by Mansard ", caption)
    assert "Medians of n blocks of samples." in caption
    assert re.search(r"^Bandwidth, DRAM & .*~GB/s & ", text, re.MULTILINE)
    assert re.search(r"^Energy of work, int8 tensor & .*~pJ/OP & ", text, re.MULTILINE)
    assert re.search(r"^Constant power & .*~W & ", text, re.MULTILINE)
    assert done.frame["unit"].to_list().count("OP/s") == 1


def test_braces_are_balanced_whatever_the_names_hold(board: Results) -> None:
    roof = msgspec.structs.replace(board.roofs[0], mode=r"}\end{document}%{$")
    text = latex_table(board, roof, ceiling_frame(board, roof), "ceilings-board")
    plain = re.sub(r"\\[\\{}]", "", text)
    depth = 0
    for letter in plain:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0
    assert r"\}\textbackslash{}end\{document\}\%\{\$" in text


@pytest.mark.parametrize("kind", ["pareto", "modes", "layers", "gantt"])
def test_the_table_is_of_ceilings(kind: str, tmp_path: Path) -> None:
    for known in ({"with_table": True}, {"output": tmp_path / "a.tex"}):
        with pytest.raises(UsageError, match="the LaTeX table is of ceilings"):
            check_request(FigureRequest(kind=kind, **known))  # type: ignore[arg-type]
