"""Sizes that depend on data: given by patterns, or counted with their upper bounds."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import parser
from onnx.reference import ReferenceEvaluator

from mansard.core.errors import ModelError, UsageError
from mansard.core.records import ModelScore
from mansard.estimator import load, score, totals
from mansard.estimator.operators.registry import REGISTRY
from mansard.estimator.operators.upper_bounds import RULES
from mansard.estimator.shape_inference.binding import matches
from tests.estimator.detectors import MOST_BOXES, MOST_SORTED, N_BOXES, detector
from tests.estimator.models import Input, model, single_model

CLASSES = 81  # 80 and the background: a detector of COCO
SUMS = ("macs", "work_flop", "traffic_bytes", "fused_traffic_bytes", "output_bytes")


@pytest.fixture(scope="module")
def coco() -> bytes:
    return detector(CLASSES)


def test_one_option_and_one_round_for_a_detector(coco: bytes) -> None:
    found = score(coco, upper=True)
    # 80 NonZero of 50 boxes, and 80 NonMaxSuppression of which each keeps at most 20
    assert sorted(found.bounds.values()) == [MOST_BOXES] * 80 + [N_BOXES] * 80
    assert all(size == N_BOXES for name, size in found.bounds.items() if "NonZero" in name)
    assert all(layer.work_flop is not None for layer in found.layers)
    sums = totals(found)
    assert sums.is_upper_bound
    assert sums.intensity is None
    assert sums.unknown["intensity"] == "work and traffic are upper bounds"
    # NonZero compares each of 50 scores; TopK with a heap of min(50, 30) has 5 bits
    by_type = {layer.op_type: layer for layer in found.layers if layer.op_type != "TopK"}
    assert by_type["NonZero"].work_flop == N_BOXES
    heaps = [layer.work_flop for layer in found.layers if layer.op_type == "TopK"]
    assert heaps == [N_BOXES * MOST_SORTED.bit_length()] * 80 + [80 * MOST_BOXES * 5]
    assert found.notes == (
        "160 size(s) that depend on data count with their upper bounds: "
        "the network needs at most this",
    )


def test_the_message_offers_patterns_and_the_bound(coco: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        score(coco)
    text = str(caught.value)
    assert "dimension 'NonZero_10[1]' of what it writes depends on data;" in text
    assert "and 72 more" in text  # of 80
    # one pattern for each kind, those behind the first ones too; each advice once
    assert (
        "pass --dim 'NonZero:*=N' --dim 'NonMaxSuppression:*=N', or --upper-bounds, or score"
        in text
    )
    assert text.count("--dim") == 2
    assert len(text) < 2000


@pytest.mark.parametrize("pattern", ["*NonZero*", "NonZero:*", "NonZero_*[1]", "*"])
def test_a_pattern_gives_many_sizes(coco: bytes, pattern: str) -> None:
    found = score(coco, dims={pattern: 12, "NonMaxSuppression:*": 12})
    assert found.bounds == {}
    assert found.dimensions == {pattern: 12, "NonMaxSuppression:*": 12}
    sizes = {layer.output_bytes for layer in found.layers if layer.op_type == "NonZero"}
    assert sizes == {12 * 8}  # int64


def test_the_narrower_name_wins(coco: bytes) -> None:
    dims = {"NonZero*": 12, "NonZero_10[1]": 5}
    found = score(coco, dims=dims, upper=True)
    sizes = [layer.output_bytes for layer in found.layers if layer.op_type == "NonZero"]
    assert sizes == [5 * 8] + [12 * 8] * 79
    assert set(found.bounds.values()) == {12, 5}  # boxes that NonMaxSuppression gets


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"*Nothing*": 5}, r"--dim '\*Nothing\*' matches no dimension of the model"),
        ({"Conv:*": 5, "*": 7}, r"--dim 'Conv:\*' matches no dimension that depends on data"),
        ({"NonZero*": 5, "*[1]": 7}, r"'NonZero\*' and '\*\[1\]' both match 'NonZero:NonZero_10"),
        ({"NonZero_*[0]": 5, "*": 7}, r"'NonZero_\*\[0\]' matches no dimension that depends"),
    ],
)
def test_patterns_that_match_nothing_or_too_much(
    coco: bytes, dims: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        score(coco, dims=dims)


def test_a_pattern_that_matches_nothing_is_told_beside_unknown_layers(coco: bytes) -> None:
    with pytest.raises(UsageError, match="matches no dimension that depends on data"):
        score(coco, dims={"Conv*": 5}, allow_unknown=True)
    # what hides behind unknown tensors may have such a dimension
    assert score(coco, dims={"NonMax*": 5}, allow_unknown=True).layers


@given(st.integers(0, N_BOXES), st.integers(0, MOST_BOXES))
def test_no_size_needs_more_than_the_bound(n_found: int, n_kept: int) -> None:
    data = detector(3)
    found = totals(score(data, dims={"NonZero*": n_found, "NonMax*": min(n_found, n_kept)}))
    most = totals(score(data, upper=True))
    for name in SUMS:
        assert getattr(found, name) <= getattr(most, name)


def floats(*values: float) -> npt.NDArray[np.float32]:
    return np.asarray(values, np.float32)


# operator, inputs, its attributes, the number of its outputs, the bound of its open dimensions
CASES: dict[str, tuple[list[Input], dict[str, object], int, dict[str, int]]] = {
    "NonZero": (["float[3,4]"], {}, 1, {"y0[1]": 12}),
    "Compress": (["float[3,4]", "bool[2]"], {"axis": 0}, 1, {"y0[0]": 2}),
    "Unique": (["float[3,4]"], {}, 4, {"y0[0]": 12, "y1[0]": 12, "y3[0]": 12}),
    "TopK": (["float[3,4]", "int64[1]"], {}, 2, {"y0[1]": 4, "y1[1]": 4}),
    "Slice": (["float[3,4]", "int64[2]", "int64[2]"], {}, 1, {"y0[0]": 3, "y0[1]": 4}),
    "Split": (["float[6]", "int64[2]"], {}, 2, {"y0[0]": 6, "y1[0]": 6}),
    "NonMaxSuppression": (
        ["float[2,5,4]", "float[2,3,5]", np.asarray([4]), floats(0.5)],
        {},
        1,
        {"y0[0]": 2 * 3 * 4},
    ),
}


def made(op_type: str) -> tuple[bytes, list[str]]:
    inputs, attributes, n_outputs, _ = CASES[op_type]
    names = [f"y{i}" for i in range(n_outputs)]
    proto = single_model(op_type, inputs, 17, "", names, **attributes)
    return proto.SerializeToString(), names


@pytest.mark.parametrize("op_type", CASES)
def test_the_bound_of_each_operator(op_type: str) -> None:
    data, _ = made(op_type)
    assert score(data, upper=True).bounds == CASES[op_type][3]


def test_every_bound_is_that_of_an_operator() -> None:
    registered = {op_type for _, op_type in REGISTRY.operators()}
    assert set(RULES) <= registered
    assert set(RULES) - set(CASES) == {"DynamicSlice"}  # ONNX Runtime's own; as Slice


@pytest.mark.parametrize("op_type", [name for name in CASES if name not in ("Split",)])
@given(data=st.data())
def test_what_runs_stays_within_its_bound(op_type: str, data: st.DataObject) -> None:
    """The reference implementation of ONNX writes no more than the bound."""
    raw, names = made(op_type)
    feeds = {}
    for source in load(raw).model.inputs:
        shape = tuple(int(size) for size in source.dimensions or () if isinstance(size, int))
        assert source.dtype is not None
        kind = source.dtype.name
        element = st.integers(0, 1) if kind == "bool" else st.integers(-3, 6)
        n = int(np.prod(shape))
        flat = data.draw(st.lists(element, min_size=n, max_size=n))
        feeds[source.name] = np.asarray(flat, kind).reshape(shape)
    if op_type == "TopK":
        assume(0 <= feeds["x1"][0] <= 4)
    results = [np.asarray(found) for found in ReferenceEvaluator(raw).run(None, feeds)]
    for name, size in CASES[op_type][3].items():
        output, axis = results[names.index(name[:2])], int(name[3])
        assert output.shape[axis] <= size


def test_a_size_without_a_bound_is_still_asked_for() -> None:
    data = model("y = Expand(x, s)", "float[1] x, int64[2] s")
    with pytest.raises(
        ModelError, match=r"depend on data; pass .*--dim 'y\[0\]=N' --dim"
    ) as caught:
        score(data, upper=True)
    assert "--upper-bounds" not in str(caught.value)


BY_DATA = """y = Loop(n, "", x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
    zero = Constant<value = float {0}>()
    m = ReduceMax<keepdims=0>(s) d = Greater(m, zero) t = Relu(s) }>"""


def test_a_loop_runs_as_often_as_its_limit() -> None:
    data = model(BY_DATA, "float[2] x", "int64 n = {7}")
    with pytest.raises(
        ModelError, match="pass --trip 'y=N', at most 7, or --upper-bounds for that bound"
    ):
        score(data)
    found = score(data, upper=True)
    assert (found.bounds, found.trips) == ({"y": 7}, {"y": 7})
    assert [layer.runs for layer in found.layers if layer.op_type == "Relu"] == [7]
    # what is given is no bound
    assert score(data, trips={"y": 3}, upper=True).bounds == {}
    # a limit of 2^63 - 1 is none
    with pytest.raises(ModelError, match="pass --trip") as caught:
        score(model(BY_DATA, "float[2] x", f"int64 n = {{{2**63 - 1}}}"), upper=True)
    assert "--upper-bounds" not in str(caught.value)


CHOICE = """p = NonZero(x) n = Shape<start=1>(p) {size} one = Constant<value = int64[1] {{1}}>()
    c = Less({name}, one)
    y = If(c) <then_branch = t () => (float[k] a) {{ e = Exp(x) a = Exp(e) }},
        else_branch = f () => (float[k] b) {{ b = Relu(x) }}>"""


def test_a_branch_that_a_bound_decides_is_the_dearer_one() -> None:
    # where nothing is found the network takes the dearer branch, though 4 < 1 is false
    data = model(CHOICE.format(size="", name="n"), "float[4] x")
    found = score(data, upper=True)
    assert "its condition 'c' follows from an upper bound; the dearer branch" in found.notes[0]
    assert [layer.op_type for layer in found.layers if layer.scope] == ["Exp", "Exp"]
    assert [layer.op_type for layer in score(data, dims={"p[1]": 4}).layers if layer.scope] == [
        "Relu"
    ]


def test_what_falls_where_a_bound_grows_is_told() -> None:
    size = "four = Constant<value = int64[1] {4}>() left = Sub(four, n)"
    text = f"p = NonZero(x) n = Shape<start=1>(p) {size} y = ConstantOfShape(left)"
    found = score(model(text, "float[4] x"), upper=True)
    assert any("node 'left' (Sub): what it computes of 'n'" in note for note in found.notes)
    # growing with it, there is nothing to tell
    text = text.replace("Sub(four, n)", "Add(four, n)")
    notes = score(model(text, "float[4] x"), upper=True).notes
    assert notes[0].startswith("1 size(s) that depend on data")
    assert not any("may get smaller" in note for note in notes)


def test_without_open_sizes_a_score_is_no_bound() -> None:
    data = model("y = Relu(x)", "float[4] x")
    assert score(data, upper=True) == score(data)


def unknown_and_bounded() -> ModelScore:
    head = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]>'
    text = "g (float[4] x) => (float[n] y) { p = NonZero(x) h = my.Foo(p) y = Relu(h) }"
    data = parser.parse_model(f"{head} {text}").SerializeToString()
    return score(data, upper=True, allow_unknown=True)


def test_a_part_of_upper_bounds_is_no_lower_one() -> None:
    sums = totals(unknown_and_bounded())
    assert sums.work_flop is None
    assert sums.at_least == {}


@given(st.text("ab*", min_size=1, max_size=6), st.text("ab", max_size=6))
def test_a_star_stands_for_any_characters(pattern: str, name: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))
    wanted = "*" in pattern and re.fullmatch(expression, name) is not None
    assert ("*" in pattern and matches(pattern, f":{name}")) == (
        wanted or ("*" in pattern and re.fullmatch(expression, f":{name}") is not None)
    )
