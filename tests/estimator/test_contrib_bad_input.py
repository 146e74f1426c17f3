"""Broken nodes outside ONNX's own domain end in one error that says what and where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.core.errors import MansardError, ModelError
from mansard.estimator import score
from tests.estimator.contrib_cases import OPERATORS
from tests.estimator.contrib_models import Operator, build, row
from tests.estimator.contrib_plain_cases import MS
from tests.estimator.models import Input

_YES: st.SearchStrategy[Any] = st.booleans()
_SIZES: st.SearchStrategy[Any] = st.sampled_from([0, 1, 2, 3, 5, 1_000_003, 2**38])
_NUMBERS = st.sampled_from([0, 1, -1, 2, 3, 7, 16, 2**31, 2**62, -(2**62)])
_TYPES = st.sampled_from(["float", "float16", "int32", "int64", "uint8", "bool", "string"])
_VALUES: st.SearchStrategy[Any] = st.one_of(
    _NUMBERS,
    st.just("nonsense"),
    st.just(1.5),
    st.lists(_NUMBERS, min_size=1, max_size=5),
)


@st.composite
def _changed_input(draw: st.DrawFn, source: Input) -> Input:
    if not isinstance(source, str) or draw(st.integers(0, 9)) > 3:
        return source
    if draw(_YES):
        return ""
    kind, _, rest = source.partition("[")
    sizes = [int(size) for size in rest.rstrip("]").split(",") if size]
    if sizes and draw(_YES):
        sizes[draw(st.integers(0, len(sizes) - 1))] = draw(_SIZES)
    elif sizes and draw(_YES):
        sizes.pop()
    else:
        kind = draw(_TYPES)
    return f"{kind}[{','.join(map(str, sizes))}]" if kind else ""


@st.composite
def _broken(draw: st.DrawFn) -> Operator:
    case = draw(st.sampled_from(OPERATORS))
    inputs = tuple(draw(_changed_input(source)) for source in case.inputs)
    attributes = {
        name: draw(_VALUES) if draw(st.integers(0, 9)) > 6 else value
        for name, value in case.settings.items()
        if draw(st.integers(0, 19))
    }
    broken: Operator = case._replace(inputs=inputs, settings=attributes)
    return broken


@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(_broken(), st.booleans())
def test_broken_nodes_end_in_a_model_error(case: Operator, allow_unknown: bool) -> None:
    data = build(case)
    try:
        scored = score(data, allow_unknown=allow_unknown)
    except MansardError:
        pass
    else:
        assert len(scored.layers) == 1


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "what"),
    [
        ("Attention", ("float[1,3,4]", "float[4,12]"), {"num_heads": 3}, "does not divide into 3"),
        ("Attention", ("float[1,3,4]", "float[5,12]"), {"num_heads": 2}, r"weights \[5, 12\]"),
        ("Attention", ("float[1,3,4]", "float[4,12]"), {}, "'num_heads' is missing"),
        (
            "MatMulNBits",
            ("float[2,32]", "uint8[4,1,15]", "float[4]"),
            {"K": 32, "N": 4, "block_size": 32},
            "does not hold 4 x 32 numbers of 4 bits in blocks of 32",
        ),
        (
            "MatMulNBits",
            ("float[2,31]", "uint8[4,1,16]", "float[4]"),
            {"K": 32, "N": 4, "block_size": 32},
            "no rows of 32",
        ),
        (
            "GroupQueryAttention",
            ("float[1,3,32]", "float[1,3,16]", "float[1,3,16]", "", "", "int32[1]", "int32"),
            {"num_heads": 4, "kv_num_heads": 3},
            "4 heads do not divide into 3 groups",
        ),
        ("FusedConv", ("float[1,2,4,4]", "float[3,2,3,3]"), {"activation": "Fancy"}, "'Fancy'"),
        (
            "SkipLayerNormalization",
            ("float[2,3,4]", "float[2,3,5]", "float[4]"),
            {},
            r"skip \[2, 3, 5\] does not fit",
        ),
        (
            "MoE",
            ("float[2,4]", "float[2,3]", "float[3,8,4]", "", "float[3,4,8]"),
            {"k": 4},
            "do not go together",
        ),
    ],
)
def test_a_contradiction_names_what_and_where(
    op_type: str, inputs: tuple[Input, ...], attributes: dict[str, object], what: str
) -> None:
    with pytest.raises(ModelError, match=what) as caught:
        row(Operator(MS + op_type, inputs, 0, attributes))
    assert f"({op_type})" in str(caught.value)
