"""Every formula that the registry holds, on the smallest tensors, against a literal.

A row's comment or sum is the arithmetic: one for each addition, multiplication, division,
comparison or rounding, one for each function, two for each multiply-add.
"""

from __future__ import annotations

import numpy as np
import pytest

from mansard.core.errors import ModelError
from mansard.estimator.cost import Cost
from mansard.estimator.operators import REGISTRY, operator
from mansard.estimator.operators.table import onnx_operators
from tests.estimator.elementwise_cases import ACTIVATIONS, ELEMENTWISE, REDUCTIONS, Case, X, axes
from tests.estimator.layer_cases import NORMALISATIONS, PLACING, POOLING, PRODUCTS, QUANTISATION
from tests.estimator.models import Input, single
from tests.estimator.movement_cases import MOVES
from tests.estimator.sampling_cases import CHOOSING, DRAWING, SAMPLING, STEPS, TRANSFORMS

CASES: list[Case] = [
    *((name, inputs, {}, 24 * each) for name, (inputs, each) in ELEMENTWISE.items()),
    *(*ACTIVATIONS, *REDUCTIONS, *POOLING, *NORMALISATIONS),
    *(*PRODUCTS, *QUANTISATION, *PLACING, *MOVES),
    *(*SAMPLING, *TRANSFORMS, *DRAWING, *CHOOSING, *STEPS),
]


def _split(name: str) -> tuple[str, str]:
    domain, _, op_type = name.rpartition(".")
    return domain, op_type


@pytest.mark.parametrize(("name", "inputs", "settings", "flop"), CASES)
def test_work_is_the_literal(
    name: str, inputs: tuple[Input, ...], settings: dict[str, object], flop: int
) -> None:
    domain, op_type = _split(name)
    row = single(op_type, inputs, domain=domain, **settings)  # type: ignore[arg-type]
    assert row.op_type == op_type
    assert row.work_flop == flop


# The number of results depends on data: without being told it, no row can be known.
DEPENDS_ON_DATA: dict[str, tuple[Input, ...]] = {
    "Compress": ("float[24]", "bool[24]"),
    "NonMaxSuppression": ("float[1,6,4]", "float[1,2,6]", axes(9)),
    "NonZero": (X,),
    "StringSplit": ("string[3]",),
    "Unique": (X,),
}


@pytest.mark.parametrize("op_type", DEPENDS_ON_DATA)
def test_a_shape_that_depends_on_data_is_an_error(op_type: str) -> None:
    with pytest.raises(ModelError, match=r"depends? on data.* --dim 'y\["):
        single(op_type, DEPENDS_ON_DATA[op_type])


def test_no_formula_is_without_a_literal() -> None:
    # Tested beside what they belong to: control flow and sequences (no shape rule of their
    # own), and operators of other packages.
    listed = onnx_operators()
    operators = REGISTRY.operators()
    own = {
        key
        for key, operator in operators.items()
        if key in listed
        and key[0] != "ai.onnx.ml"
        and operator.shape is not None
        and not (operator.cost.__doc__ or "").startswith("Refused")
    }
    covered = {_split(name) for name, *_ in CASES}
    assert own - covered == set()
    assert covered <= operators.keys()


def test_a_gradient_in_the_graph_is_refused() -> None:
    with pytest.raises(ModelError, match="differentiates a part of the graph that it only names"):
        single(
            "Gradient", (X,), domain="ai.onnx.preview.training", xs=["x0"], y="z", outputs=("y",)
        )


def test_registering_an_operator_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Celu' of domain '' registered twice"):
        operator("Celu")(lambda _: Cost())


@pytest.mark.parametrize("limit", [(), (np.array([0]),)])
def test_without_a_number_of_boxes_none_is_selected(limit: tuple[Input, ...]) -> None:
    row = single("NonMaxSuppression", ("float[1,6,4]", "float[1,2,6]", *limit))
    # areas of 6 boxes, 12 scores, two sorts of 6·3; no overlaps, and no size is asked for
    assert row.work_flop == 6 * 3 + 12 + 2 * 18


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
def test_one_scale_is_a_number_or_a_list_of_one(op_type: str) -> None:
    """ONNX Runtime refuses others, too: a scale has one axis at most, or as many as blocks."""
    data = "float[2,3]" if op_type == "QuantizeLinear" else "uint8[2,3]"
    for scale in (np.float32(1).reshape(()), np.ones(1, np.float32)):
        assert single(op_type, (data, scale)).work_flop
    with pytest.raises(ModelError, match=r"scale \[1, 1\] does not fit axis 1 of \[2, 3\]"):
        single(op_type, (data, np.ones((1, 1), np.float32)))


def test_nearest_neighbours_are_copied_with_antialias_too() -> None:
    sizes = ("float[1,1,4,4]", "", "", np.array([1, 1, 2, 2]))
    assert single("Resize", sizes, mode="nearest", antialias=1).work_flop == 0
    # a window of 2·2 neighbours on each of 2 axes, one after the other
    assert single("Resize", sizes, mode="linear", antialias=1).work_flop


def test_scales_of_older_versions_are_an_attribute() -> None:
    """Upsample has them as an attribute up to opset 8, and as an input from 9 on."""
    row = single("Upsample", ("float[1,1,2,2]",), opset=8, scales=[1.0, 1.0, 2.0, 2.0])
    assert row.write_bytes == 4 * 16
