"""Every piece of advice is followed: what a message says to pass ends that message."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import pytest
from onnx import parser

from mansard.cli.options import parse_dimensions, parse_shapes, parse_trips, parse_values
from mansard.core.errors import MansardError
from mansard.core.records import ModelScore
from mansard.estimator import score
from tests.estimator.detectors import detector
from tests.estimator.models import model, store

HEAD = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]>'
_FLAG = re.compile(r"--(dim|shape|trip|value) ('[^']*'|[^\s;,]+)|--(batch) (\d+)|--(upper|allow)")


def custom(text: str) -> bytes:
    data: bytes = store(parser.parse_model(f"{HEAD} {text}")).SerializeToString()
    return data


# A number for each N, a shape for each AxB, by what is advised; else 2 and 2x3.
NETWORKS: dict[str, tuple[bytes, dict[str, object], Mapping[str, str]]] = {
    "the batch": (model("y = Relu(x)", "float[batch,3] x"), {}, {}),
    "a first dimension without a name": (model("y = Relu(x)", 'float["?",3] x'), {}, {}),
    "a first dimension of another name": (model("y = Relu(x)", "float[seq_len,3] x"), {}, {}),
    "the steps of an LSTM": (
        custom(
            "g (float[seq_len,1,8] x) => (float[a,b,c,d] y) <float[1,16,8] w, float[1,16,4] r> "
            "{ y = LSTM<hidden_size=4>(x, w, r) }"
        ),
        {},
        {},
    ),
    "the unnamed steps of an LSTM": (
        custom(
            'g (float["?",1,8] x) => (float[a,b,c,d] y) <float[1,16,8] w, float[1,16,4] r> '
            "{ y = LSTM<hidden_size=4>(x, w, r) }"
        ),
        {},
        {},
    ),
    "the batch of an LSTM": (
        custom(
            "g (float[seq_len,1,8] x) => (float[a,b,c,d] y) <float[1,16,8] w, float[1,16,4] r> "
            "{ y = LSTM<hidden_size=4>(x, w, r) }"
        ),
        {"batch": 2},
        {},
    ),
    "a sum of names": (model("y = Relu(x)", 'float[2,"past + 1"] x, float[2,past] z'), {}, {}),
    "an input without a shape": (
        custom("g (float[] x) => (float[] y) { y = Relu(x) }"),
        {},
        {},
    ),
    "an empty input": (model("y = Relu(x)", "float[2,0] x"), {}, {}),
    "an open dimension": (model("y = NonZero(x)", "float[2,3] x"), {}, {}),
    "many open dimensions": (
        model("a = NonZero(x) b = NonZero(x) y = Concat<axis=1>(a, b)", "float[2,3] x"),
        {},
        {},
    ),
    "a detector": (detector(4), {}, {}),
    "open dimensions of a slice": (
        model("y = Slice(x, s, e)", "float[4,6] x, int64[2] s, int64[2] e"),
        {},
        {},
    ),
    "a shape that depends on data": (
        model("y = Reshape(x, s)", "float[2,3] x, int64[2] s"),
        {},
        {"y": "3x2"},
    ),
    "a loop that data ends": (
        model(
            """y = Loop(n, "", x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t)
            { zero = Constant<value = float {0}>() m = ReduceMax<keepdims=0>(s)
              d = Greater(m, zero) t = Relu(s) }>""",
            "float[2] x",
            "int64 n = {7}",
        ),
        {},
        {},
    ),
    "a loop of an unknown number of iterations": (
        model(
            """y = Loop(n, "", x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t)
            { d = Identity(c) t = Relu(s) }>""",
            "float[2] x, int64 n",
        ),
        {},
        {},
    ),
    "a custom operator": (
        custom("g (float[2,3] x) => (float[] y) { h = my.Foo(x) y = Relu(h) }"),
        {},
        {},
    ),
    "a custom operator before dimensions": (
        custom("g (float[batch,3] x) => (float[] y) { h = my.Foo(x) y = Relu(h) }"),
        {},
        {},
    ),
}


def advised(text: str, shapes: Mapping[str, str]) -> list[dict[str, object]]:
    """The keywords of ``score`` for each way that a message offers (``or`` between them)."""
    ways = []
    for part in re.split(r"\bor (?=--|score |add )", text):
        found = list(_FLAG.finditer(part))
        ways.append(keywords(found, shapes))
    return [way for way in ways if way]


def keywords(flags: list[re.Match[str]], shapes: Mapping[str, str]) -> dict[str, object]:
    texts: dict[str, list[str]] = {}
    found: dict[str, object] = {}
    for flag in flags:
        if flag[1]:
            (text,) = shlex.split(flag[2])
            name, _, size = text.rpartition("=")
            size = {"N": "2", "AxB": shapes.get(name, "2x3"), "AxBxC": "2x3x4"}.get(size, size)
            texts.setdefault(flag[1], []).append(f"{name}={size}")
        elif flag[3]:
            found["batch"] = int(flag[4])
        else:
            found["upper" if flag[5] == "upper" else "allow_unknown"] = True
    if "dim" in texts:
        found["dims"] = parse_dimensions(texts["dim"])
    if "trip" in texts:
        found["trips"] = parse_trips(texts["trip"])
    if "value" in texts:
        found["values"] = parse_values(texts["value"])
    if "shape" in texts:
        found["shapes"], found["types"] = parse_shapes(texts["shape"])
    return found


def merged(one: dict[str, object], other: dict[str, object]) -> dict[str, object]:
    """Both; of one name the latter, and no batch where dimensions are to be set by place."""
    result = dict(one)
    for name, value in other.items():
        held = result.get(name)
        result[name] = {**held, **value} if isinstance(held, dict) else value  # type: ignore[dict-item]
    return result


def try_score(data: bytes, given: dict[str, object]) -> ModelScore | str:
    try:
        return score(data, **given)  # type: ignore[arg-type]
    except MansardError as error:
        return str(error)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_a_message_says_to_pass_ends_it(name: str) -> None:
    data, given, shapes = NETWORKS[name]
    first = try_score(data, given)
    assert isinstance(first, str)
    ways = advised(first, shapes)
    assert ways, first
    for way in ways:
        if "leave out --batch" in first:
            given = {}
        now, message, seen = merged(given, way), first, {first}
        for _ in range(8):  # each round asks for something else, and ends
            result = try_score(data, now)
            if not isinstance(result, str):
                break
            assert result not in seen, f"{message} -> {now} -> {result}"
            seen.add(result)
            message = result
            now = merged(now, advised(result, shapes)[0])
        else:
            pytest.fail(f"no end: {sorted(seen)}")


IF = """g (float[1,3] x%s) => (float[1,3] y) { %s
    y = If(c) <then_branch = t () => (float[1,3] a) { a = Relu(x) },
        else_branch = e () => (float[1,3] b) { b = Exp(x) }> }"""


@pytest.mark.parametrize(
    "text",
    [
        IF % (", bool c", ""),
        IF % ("", "m = ReduceMax<keepdims=0>(x) z = Constant<value = float {0}>() c = Less(m, z)"),
    ],
)
def test_the_note_of_a_branch_says_how_to_choose(text: str) -> None:
    data = custom(text)
    (note,) = score(data).notes
    for branch, op_type in (("then_branch", "Relu"), ("else_branch", "Exp")):
        told = re.search(rf"--value '([^']*)' for {branch}|or '([^']*)' for {branch}", note)
        assert told is not None
        chosen = score(data, values=parse_values([told[1] or told[2]]))
        assert [layer.op_type for layer in chosen.layers if layer.scope] == [op_type]
        assert chosen.notes == ()


def test_a_branch_in_a_loop_says_how_to_choose_where_that_is_possible() -> None:
    text = """g (float[1] x, bool c) => (float[1] y) <int64 n = {4}, bool go = {1}> {
        y = Loop(n, go, x) <body = b (int64 i, bool d, float[1] s) => (bool e, float[1] t) {
            z = Constant<value = float {0}>() m = ReduceMax<keepdims=0>(s) f = Greater(m, z)
            e = Identity(d)
            t = If(f) <then_branch = h () => (float[1] a) { a = Relu(s) },
                else_branch = k () => (float[1] b) { b = Exp(s) }> }> }"""
    (note,) = score(custom(text)).notes
    assert "--value 'f=true' for then_branch" in note
    assert score(custom(text), values={"f": True}).notes == ()


def test_an_eval_export_in_training_is_told() -> None:
    conv = "g (float[1,3,8,8] x) => (float[] y) <float[4,3,3,3] w%s> { %s }"
    plain = custom(conv % ("", "y = Conv(x, w)"))
    (note,) = score(plain, phase="training").notes
    assert "no BatchNormalization and no Dropout" in note
    assert "TrainingMode.TRAINING" in note
    assert score(plain).notes == ()
    dropped = custom(conv % ("", "h = Conv(x, w) y = Dropout(h)"))
    assert score(dropped, phase="training").notes == ()
