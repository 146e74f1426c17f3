"""Records in a prompt, in a notebook and as a frame; arguments in all their forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper

import mansard
from mansard import api
from mansard.api.result import Records, Result
from mansard.core.errors import UsageError
from mansard.core.version import VERSION

HOSTILE = "<script>alert(1)</script>"


class Row(msgspec.Struct, frozen=True):
    """A record with a record inside."""

    name: str
    time_s: float | None
    inner: Inner
    parts: tuple[Inner, ...] = ()
    tags: tuple[str, ...] = ()
    unknown: dict[str, str] = {}


class Inner(msgspec.Struct, frozen=True):
    n: int


class Answer(Result, frozen=True):
    rows: tuple[Row, ...]
    failure: str | None = None


def row(name: str = "net", n: int = 1) -> Row:
    return Row(name, 0.5, Inner(n), (Inner(1), Inner(2)), ("a", "b"))


def tiny_model(name: str = "tiny") -> onnx.ModelProto:
    """x[1, 4] times w[4, 2]: 4 · 2 = 8 multiply-adds, 8 parameters."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 2], np.ones(8, np.float32))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_package_answers_with_the_facade() -> None:
    assert mansard.__version__ == VERSION
    assert mansard.score is api.score
    assert {"score", "recommend", "__version__"} <= set(dir(mansard))
    assert mansard.core.__name__ == "mansard.core"
    with pytest.raises(AttributeError, match="module 'mansard' has no attribute 'nothing'"):
        _ = mansard.nothing  # type: ignore[attr-defined]


def test_a_tuple_of_records_is_short_in_a_prompt_and_a_tuple_to_all_others() -> None:
    results = Records(row(f"net{n}") for n in range(7))
    assert repr(results).splitlines() == [
        "Records[Row](",
        *(f"  name='net{n}', time_s=0.5, inner.n=1, tags=('a', 'b')," for n in range(5)),
        "  … 2 more",
        ")",
    ]
    assert results == tuple(results)
    assert isinstance(results, tuple)
    assert msgspec.json.encode(results) == msgspec.json.encode(tuple(results))


def test_a_result_says_what_failed() -> None:
    answer = Answer((row(),), failure="the board is gone")
    assert repr(answer).splitlines() == [
        "Answer(",
        "  name='net', time_s=0.5, inner.n=1, tags=('a', 'b'),",
        "  failure='the board is gone',",
        ")",
    ]


def test_a_frame_has_a_row_for_each_record_and_columns_of_inner_ones() -> None:
    frame = Answer((row("a", 1), row("b", 2))).to_frame()
    assert frame.equals(
        pl.DataFrame(
            {"name": ["a", "b"], "time_s": [0.5, 0.5], "inner.n": [1, 2], "tags": [["a", "b"]] * 2}
        )
    )
    assert Records().to_frame().is_empty()


@pytest.mark.parametrize("shown", [Answer((row(HOSTILE),)), Records([row(HOSTILE)])])
def test_names_are_escaped_in_a_table(shown: Any) -> None:
    table = shown._repr_html_()
    assert "<script>" not in table
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in table
    assert table.startswith("<table>")


def test_a_long_table_is_cut() -> None:
    table = Records(row(f"net{n}") for n in range(1_030))._repr_html_()
    assert table.count("<tr>") == 21  # the names, and 20 rows
    assert "1,010 more rows" in table


def test_a_long_name_is_cut() -> None:
    answer = Answer((row("x" * 500),))
    assert all(len(line) < 120 for line in repr(answer).splitlines())
    assert len(answer._repr_html_()) < 500


def test_a_result_without_a_figure_says_so() -> None:
    with pytest.raises(UsageError, match="Row has no figure"):
        Records([row()]).plot()
    with pytest.raises(UsageError, match="an empty result has no figure"):
        Records().plot()


def test_a_score_is_a_line_a_frame_and_a_chart() -> None:
    scores = api.score("resnet18")
    assert len(repr(scores)) < 400
    assert "model='resnet18', batch=1, precision='fp32', work_flop=" in repr(scores)
    assert len(repr(scores.scores[0])) < 1000
    assert scores.to_frame()["parameters"].to_list() == [11_689_512]  # torchvision's
    chart = scores.plot().to_dict()
    assert chart["mark"]["type"] == "point"
    ((rows),) = chart["datasets"].values() if "datasets" in chart else (chart["data"]["values"],)
    assert len(rows) > 20


@pytest.mark.parametrize("form", ["name", "path", "text", "list", "model", "models"])
def test_a_model_is_a_name_a_path_or_onnx_itself(form: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    onnx.save(tiny_model(), path)
    models: Any = {
        "name": "resnet18",
        "path": path,
        "text": str(path),
        "list": [path],
        "model": tiny_model(),
        "models": [tiny_model()],
    }[form]
    (score,) = api.score(models).scores
    assert score.model == ("resnet18" if form == "name" else "tiny")
    if form != "name":
        assert api.totals(score).macs == 8
    assert api.fit(models, board="orin-nano-8gb")[0].verdict == "fits"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", "model"), (HOSTILE, "script_alert_1_script"), ("../../x", "x"), ("y" * 500, "y" * 80)],
)
def test_a_model_in_memory_is_called_like_its_graph(name: str, expected: str) -> None:
    model = tiny_model(name or "x")
    model.graph.name = name
    assert api.score(model).scores[0].model == expected


@pytest.mark.parametrize("wrong", [3, None, {}, b"x", [3], [None], 1.5, True])
def test_what_is_no_model_is_one_line(wrong: Any) -> None:
    for function in (api.score, api.fit, api.recommend, api.batch, api.measure_networks):
        with pytest.raises(UsageError, match=rf"^{function.__name__}: (models|request)"):
            function(wrong)


@pytest.mark.parametrize("wrong", [3, {}, b"x", [3], [None], 1.5, True])
def test_what_is_no_folder_is_one_line(wrong: Any) -> None:
    for call in (
        lambda: api.recommend("resnet18", runs=wrong),
        lambda: api.batch("resnet18", runs=wrong),
        lambda: api.predict("resnet18", runs=wrong),
        lambda: api.report(wrong),
        lambda: api.merge(wrong, "into"),
        lambda: api.measured_contention(wrong),
        lambda: api.layers("resnet18", runs=wrong),
    ):
        with pytest.raises(UsageError, match=r"give str or a pathlib\.Path"):
            call()


def test_text_is_no_number() -> None:
    with pytest.raises(UsageError, match=r"batches\[0\] is str '8'; give int"):
        api.score("resnet18", batches=["8"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="fit: batch is str '8'; give int"):
        api.fit("resnet18", batch="8")  # type: ignore[arg-type]
