"""Names of dimensions that are computed from others, and the reader of such expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import ModelError, UsageError
from mansard.estimator import score, totals
from mansard.estimator.shape_inference.expressions import parse_expression
from tests.estimator.models import model

SIZES = {"a": 7, "b": 3, "past_length": 9, "s0": 32}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("past_length + 1", 10),
        ("2*a", 14),
        ("a*b", 21),
        ("a - b - 1", 3),
        ("a - (b - 1)", 5),
        ("floor(a/2)", 3),
        ("ceil(a / 2)", 4),
        ("ceiling(a/2)", 4),
        ("a // 2", 3),
        ("FloorDiv(a, 2)", 3),
        ("a % b", 1),
        ("Mod(a, b)", 1),
        ("Max(1, a - 9)", 1),
        ("min(a, b, 5)", 3),
        ("2**b", 8),
        ("-(1 - a)", 6),
        ("((s0 - 1)//2) + 1", 16),
        ("floor(s0/16 - 1/16) + 1", 2),
        ("a*b//2", 10),
        ("(a/2)*2", 7),
        # no sizes: negative, a fraction, a division by zero, too large
        ("b - a", None),
        ("a/2", None),
        ("a // (b - 3)", None),
        ("a % 0", None),
        ("2**64", None),
        ("a**a**a", None),
    ],
)
def test_expressions_of_dimensions(text: str, size: int | None) -> None:
    expression = parse_expression(text)
    assert expression is not None
    assert expression.evaluate(SIZES) == size


@pytest.mark.parametrize(
    "text",
    [
        *("batch", "unk__12", "", " ", "2x", "a b", "a+", "+a", "(a", "a)", "a,b", "f(a)"),
        *("floor()", "floor(a,b)", "mod(a)", "max", "a[0]", "a?", "größe-1?", "1 2"),
        *(
            "(" * 40 + "a" + ")" * 40,
            "a+" * 200 + "a",
            "-" * 100 + "a",
            "2**" * 50 + "a",
            "max(" * 70 + "a" + ",1)" * 70,
        ),
    ],
)
def test_names_that_are_no_expressions(text: str) -> None:
    assert parse_expression(text) is None


numbers = st.integers(0, 99).map(str) | st.sampled_from(sorted(SIZES))
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner)
        | st.builds("{}({}, {})".format, st.sampled_from(["max", "min"]), inner, inner)
        | st.builds("(-{})".format, inner)
    ),
    max_leaves=8,
)


@given(text=expressions)
def test_expressions_are_read_as_python_reads_them(text: str) -> None:
    expression = parse_expression(text)
    if expression is None:  # a plain name or number
        assert text.isalnum() or text.replace("_", "").isalnum()
        return
    try:
        expected = eval(text, {"max": max, "min": min}, dict(SIZES))  # noqa: S307
    except ZeroDivisionError:
        expected = None
    is_size = expected is not None and 0 <= expected <= 2**63
    assert expression.evaluate(SIZES) == (expected if is_size else None)
    assert expression.names == set(re.findall("[a-z_]+0?", text)) - {"max", "min"}


@given(text=st.text(max_size=40) | st.text(alphabet="ab12+-*/%(), ", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    expression = parse_expression(text)
    if expression is not None:
        size = expression.evaluate(dict.fromkeys(expression.names, 5))
        assert size is None or 0 <= size <= 2**63


CACHE = model(
    "k = Concat<axis=1>(past, x) t = Transpose<perm=[0,2,1]>(k) s = MatMul(x, t) y = Add(s, mask)",
    'float[batch,1,8] x, float[batch,past,8] past, float[batch,1,"past + 1"] mask',
)


def test_a_dimension_that_is_computed_from_another() -> None:
    found = score(CACHE, batch=2, dims={"past": 5})
    assert found.dimensions == {"batch": 2, "past": 5, "past + 1": 6}
    # 2 batches, 6 positions, 8 channels
    assert totals(found).macs == 2 * 6 * 8


def test_an_empty_cache_is_legal() -> None:
    assert totals(score(CACHE, batch=2, dims={"past": 0})).macs == 2 * 1 * 8


def test_only_the_named_dimensions_are_asked_for() -> None:
    with pytest.raises(ModelError) as caught:
        score(CACHE)
    text = str(caught.value)
    assert "2 dimension(s) must be given: 'batch'" in text
    assert "pass --batch 1 --dim 'past=N'" in text


def test_a_computed_dimension_that_is_given_wins() -> None:
    # the sum is then not consulted; the addition of the mask finds the contradiction
    with pytest.raises(ModelError, match="do not go together"):
        score(CACHE, batch=2, dims={"past": 5, "past + 1": 9})


def test_a_name_with_a_hyphen_is_a_name() -> None:
    data = model("y = Relu(x)", 'float[3,"seq-len"] x')
    with pytest.raises(ModelError, match="--dim 'seq-len=N'"):
        score(data)
    assert totals(score(data, dims={"seq-len": 4})).work_flop == 12
    # whoever means a difference can say so
    assert totals(score(data, dims={"seq": 9, "len": 2})).work_flop == 21


def test_a_difference_below_zero() -> None:
    data = model("y = Relu(x) ", 'float[s] z, float["s - 3"] x')
    with pytest.raises(ModelError, match="dimension 's - 3' is not a size where s = 2"):
        score(data, dims={"s": 2})
    assert totals(score(data, dims={"s": 3})).work_flop == 0


def test_variables_that_no_input_has() -> None:
    data = model("y = Relu(x)", 'float[3,"floor(height/32)"] x')
    with pytest.raises(ModelError, match=r"--dim 'floor\(height/32\)=N'"):
        score(data)
    assert totals(score(data, dims={"height": 100})).work_flop == 3 * 3
    with pytest.raises(UsageError, match="no dimension named 'width'"):
        score(data, dims={"width": 100})
