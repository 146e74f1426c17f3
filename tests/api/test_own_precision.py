"""A file of fp16 weights is predicted in fp16, whatever command scores it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mansard import api
from mansard.api.scores import score_networks
from mansard.core.errors import UsageError
from mansard.core.records import ModelScore
from mansard.core.storage.jsonl import read_rows
from tests.analytics.board_runs import write_board
from tests.analytics.score_factory import layer, score, write_scores
from tests.cli.decide_runs import document


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution of float16 weights, in a folder and a file of awkward names."""
    weights = np.ones((32, 3, 3, 3), np.float16)
    path = tmp_path_factory.mktemp("half") / "odd net_v2.onnx"
    sizes: dict[str, list[str | int | None]] = {"x": ["N", 3, 64, 64], "y": ["N", 32, 62, 62]}
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, size)
        for name, size in sizes.items()
    )
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "odd", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metered board in two modes, with one network."""
    runs = tmp_path_factory.mktemp("board") / "runs"
    write_board(runs, {"15W": (408e6, 2133e6), "30W": (612e6, 3199e6)})
    write_scores(runs, [score("a", [layer(0, 10**9, 10**7)])])
    return runs


def cells_of(scores: list[ModelScore]) -> set[tuple[str, int | None, str]]:
    return {(one.model, one.batch, one.precision) for one in scores}


def test_a_bench_scores_every_batch_in_the_precision_of_the_file(half: Path) -> None:
    scores = score_networks([half], (1, 8), {})
    assert cells_of(scores) == {("odd net_v2", 1, "fp16"), ("odd net_v2", 8, "fp16")}
    on_cpu = score_networks([half], (1,), {}, on_cpu=True)
    assert cells_of(on_cpu) == {("odd net_v2", 1, "fp16")}
    asked = score_networks([half], (1,), {}, precision="fp32")
    assert cells_of(asked) == {("odd net_v2", 1, "fp32")}


def test_a_report_keeps_scores_in_the_precision_of_the_file(half: Path, tmp_path: Path) -> None:
    runs = write_board(tmp_path / "runs", {"30W": (612e6, 3199e6)})
    api.report(runs, models=[half], batches=(1, 8))
    kept = read_rows(runs / "scores.jsonl", ModelScore, runs).rows
    assert cells_of(list(kept)) == {("odd net_v2", 1, "fp16"), ("odd net_v2", 8, "fp16")}
    with pytest.raises(UsageError, match="--batch has no effect without a network"):
        api.report(runs, batches=(8,))


def test_a_recommendation_is_in_the_precision_of_the_file(
    half: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = document(capsys, "recommend", half, "--runs", runs)
    assert '"precision": "fp16"' in str(answer).replace("'", '"')


@pytest.mark.parametrize("kind", ["roofline", "modes", "layers"])
def test_a_figure_draws_a_file_and_keeps_no_score(
    half: Path, runs: Path, tmp_path: Path, kind: str
) -> None:
    before = (runs / "scores.jsonl").read_bytes()
    request = api.FigureRequest(
        kind=kind,  # type: ignore[arg-type]
        models=(str(half),),
        runs=(str(runs),),
        batch=8,
        output=tmp_path / "fig.svg",
    )
    drawn = api.figure(request)
    assert "odd net_v2" in drawn.caption + (tmp_path / "fig.csv").read_text("utf-8")
    assert "fp16" in drawn.caption
    assert "batch 8" in drawn.caption
    assert (runs / "scores.jsonl").read_bytes() == before


def test_of_two_files_of_one_name_the_named_one_is_drawn(
    half: Path, runs: Path, tmp_path: Path
) -> None:
    """The runs have a network of the same name with other layers."""
    again = write_board(tmp_path / "runs", {"30W": (612e6, 3199e6)})
    write_scores(again, [score("odd net_v2", [layer(0, 10**9, 10**7)])])
    request = api.FigureRequest(
        kind="roofline",
        models=(str(half),),
        runs=(str(again),),
        precisions=("fp16",),
        output=tmp_path / "fig.svg",
    )
    api.figure(request)
    with (tmp_path / "fig.csv").open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["part"] == "network"]
    (row,) = rows
    # Work: 2 · 27 · 32 · 62 · 62 = 6,642,432 FLOP. Traffic: 2 bytes of each of 3 · 64 · 64
    # inputs, 864 weights and 32 · 62 · 62 outputs: 272,320 bytes.
    assert float(row["intensity_flop_per_byte"]) == pytest.approx(24.39, rel=1e-3)
