"""The work of operators outside ONNX's own domain, on the smallest tensors, by hand."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from mansard.core.errors import ModelError
from mansard.estimator import score
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.contrib.legacy import REFUSED
from mansard.estimator.operators.table import onnx_operators
from tests.estimator.contrib_cases import OPERATORS, PLUGIN_DOMAINS, name_of
from tests.estimator.contrib_models import Operator, build, row
from tests.estimator.contrib_tensorrt_cases import PLUGINS


@pytest.mark.parametrize("case", [pytest.param(case, id=name_of(case)) for case in OPERATORS])
def test_work_outside_the_standard_is_the_literal(case: Operator) -> None:
    found = row(case)
    assert (found.domain, found.op_type) == case.key
    assert found.work_flop == case.flop


@pytest.mark.parametrize("domain", PLUGIN_DOMAINS)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in PLUGINS])
def test_a_plugin_counts_the_same_in_every_domain(case: Operator, domain: str) -> None:
    found = row(case._replace(name=f"{domain}.{case.name}"))
    assert (found.domain, found.op_type) == (domain, case.name)
    assert found.work_flop == case.flop


def test_no_formula_outside_the_standard_is_without_a_literal() -> None:
    listed = onnx_operators()
    own = {key for key in REGISTRY.operators() if key not in listed or key[0] == "ai.onnx.ml"}
    covered = {case.key for case in OPERATORS}
    covered |= {(domain, case.name) for domain in PLUGIN_DOMAINS for case in PLUGINS}
    # ROIAlign is ONNX's own RoiAlign, and tested beside it.
    covered |= {(domain, "ROIAlign_TRT") for domain in ("", *PLUGIN_DOMAINS)}
    covered.add(("", "GroupedMatMul"))  # of opset 29: test_grouped_matmul
    assert own - REFUSED.keys() - covered == set()
    assert covered <= own


@pytest.mark.parametrize("domain", ["", *PLUGIN_DOMAINS])
def test_the_plugin_for_regions_is_the_standard_operator(domain: str) -> None:
    inputs = ("float[1,2,4,4]", "float[3,4]", "int64[3]")
    settings = {"output_height": 2, "output_width": 2, "sampling_ratio": 2}
    name = f"{domain}.ROIAlign_TRT" if domain else "ROIAlign_TRT"
    plugin = row(Operator(name, inputs, 0, settings))
    own = row(Operator("RoiAlign", inputs, 0, settings))
    assert own.work_flop
    assert (plugin.work_flop, plugin.traffic_bytes) == (own.work_flop, own.traffic_bytes)


@pytest.mark.parametrize(
    ("domain", "op_type", "reason"),
    [
        ("com.microsoft", "BeamSearch", "it generates until the data ends it"),
        ("com.microsoft", "GreedySearch", "it generates until the data ends it"),
        ("com.microsoft", "Sampling", "it generates until the data ends it"),
        ("com.microsoft", "WhisperBeamSearch", "it generates until the data ends it"),
        ("com.microsoft", "EPContext", "compiled for one device"),
        ("com.microsoft", "Snpe", "compiled for one device"),
        ("org.pytorch.aten", "ATen", "could not translate"),
    ],
)
def test_what_cannot_be_scored_says_why(domain: str, op_type: str, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        row(Operator(f"{domain}.{op_type}", ("int32[2,3]", "int32[1]"), 0))


def test_what_is_refused_may_be_left_out_visibly() -> None:
    decoder = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["b"])],
        "decoder",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n"])],
    )
    settings = {"decoder": decoder, "eos_token_id": 1, "pad_token_id": 0}
    case = Operator("com.microsoft.GreedySearch", ("int32[2,3]", "int32[1]"), 0, settings)
    (found,) = score(build(case), allow_unknown=True).layers
    assert found.work_flop is None
    assert "generates until the data ends it" in found.unknown["work_flop"]
