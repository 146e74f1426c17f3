"""The zoo's single convolutions: HaX-CoNN's 25, drawn when they are read."""

from __future__ import annotations

import onnx
import pytest
from onnx import checker

from mansard.core.errors import UsageError
from mansard.core.records import ModelScore
from mansard.estimator import totals, zoo
from mansard.estimator.scoring import score


def scored(name: str, batch: int = 1) -> ModelScore:
    return score(zoo.read(name), name=name, batch=batch)


def test_there_are_five_sizes_with_five_kernels_each() -> None:
    names = zoo.family("convolutions")
    assert len(names) == len(set(names)) == 25
    assert names[0] == "conv64_224x112_k1"
    assert names[-1] == "conv64_56x28_k5"
    assert not set(names) & set(zoo.names())
    assert zoo.family("resnet50") == ()


@pytest.mark.parametrize("name", zoo.family("convolutions"))
def test_each_is_a_valid_model_of_one_convolution_and_a_relu(name: str) -> None:
    model = onnx.load_from_string(zoo.read(name))
    checker.check_model(model, full_check=True)
    assert model.graph.name == name
    assert (model.ir_version, model.producer_name) == (8, "mansard")
    assert [node.op_type for node in model.graph.node if node.name] == ["Conv", "Relu"]
    assert zoo.read(name) == zoo.read(name)


def test_work_and_traffic_of_one_by_hand() -> None:
    found = scored("conv64_112x56_k3")
    conv, relu = (row for row in found.layers if row.op_type in {"Conv", "Relu"})
    # 3 × 3 with one pixel of padding keeps 112 × 56: 6272 places of 64 filters of 64 · 9.
    assert conv.macs == 112 * 56 * 64 * 64 * 9 == 231_211_008
    # 64 · 64 · 9 weights and 64 biases
    assert conv.parameters == 36_928
    # Read once: 64 · 6272 numbers and the weights; written once: 64 · 6272, of 4 bytes.
    assert conv.read_bytes == 4 * (64 * 6272 + 36_928)
    assert relu.fused_group == conv.index
    # Conv and ReLU as one kernel: input, weights, output.
    assert totals(found).fused_traffic_bytes == 4 * (2 * 64 * 6272 + 36_928)


def test_one_pixel_of_padding_widens_and_narrows() -> None:
    """As in the artifact: 1 × 1 gives 226 × 114 of 224 × 112, and 5 × 5 gives 222 × 110."""
    for kernel, height, width in ((1, 226, 114), (2, 225, 113), (4, 223, 111), (5, 222, 110)):
        conv = next(
            row for row in scored(f"conv64_224x112_k{kernel}").layers if row.op_type == "Conv"
        )
        assert conv.macs == height * width * 64 * 64 * kernel**2


def test_an_unknown_convolution_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean conv64_224x112_k"):
        zoo.read("conv64_224x112_k6")
