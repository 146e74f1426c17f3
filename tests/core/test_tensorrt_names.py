"""Names of TensorRT's layers, taken apart into the nodes of the network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.formats.tensorrt import take_apart

NODES = st.text("abcXYZ0123456789_/.:", min_size=1, max_size=12).filter(
    lambda name: ".." not in name and not name.startswith("__my")
)


@pytest.mark.parametrize(
    ("name", "parts", "kind"),
    [
        ("Conv_5 + Add_6 + Relu_7", ["Conv_5", "Add_6", "Relu_7"], "layer"),
        ("a/conv || b/conv", ["a/conv", "b/conv"], "layer"),
        ("a + r1||b + r2", ["a", "r1", "b", "r2"], "layer"),
        ("PWN(Sigmoid_1, Mul_2)", ["Sigmoid_1", "Mul_2"], "layer"),
        ("PWN(PWN(Sigmoid_1, Mul_2), Add_3)", ["Sigmoid_1", "Mul_2", "Add_3"], "layer"),
        ("Conv_1 + PWN(Sigmoid_1, Mul_2)", ["Conv_1", "Sigmoid_1", "Mul_2"], "layer"),
        ("{Conv_0,Relu_1,Conv_2}", ["Conv_0", "Relu_1", "Conv_2"], "layer"),
        ("{ForeignNode[Relu_10...Conv_11]}", ["Relu_10", "Conv_11"], "region"),
        ("{ForeignNode[Relu_43]}", ["Relu_43"], "layer"),
        (
            "{ForeignNode[fc.weight...(Unnamed Layer* 109) [ElementWise]]}",
            ["fc.weight"],
            "region",
        ),
        (
            "/fc/Gemm + (Unnamed Layer* 25) [ElementWise] + /fc/Relu [profile 1]",
            ["/fc/Gemm", "/fc/Relu"],
            "layer",
        ),
        (
            "[CONVOLUTION]-[aten_ops.convolution.default]-[/features/0/convolution] + "
            "[RELU]-[aten_ops.relu.default]-[/features/1/relu]",
            ["/features/0/convolution", "/features/1/relu"],
            "layer",
        ),
        ("Reformatting CopyNode for Input Tensor 0 to Conv_0 + Relu_1", [], "engine"),
        ("Conv_0 input reformatter 0", [], "engine"),
        ("data to nvm", [], "engine"),
        ("reshape_before_/classifier/Gemm", [], "engine"),
        ("__myl_MovConv_myl0_1", [], "region"),  # a kernel of Myelin's; its nodes are not said
        ("", [], "engine"),
    ],
)
def test_a_name_gives_its_nodes(name: str, parts: list[str], kind: str) -> None:
    found = take_apart(name)
    assert (list(found.parts), found.kind) == (parts, kind)


def test_metadata_names_the_nodes_where_the_name_does_not() -> None:
    found = take_apart(
        "__myl_MovConv_myl0_1", "[ONNX Layer: /conv/Conv]\x1e[ONNX Layer: /relu/Relu]"
    )
    assert (found.parts, found.kind) == (("/conv/Conv", "/relu/Relu"), "layer")


@given(st.lists(NODES, min_size=1, max_size=8, unique=True), st.sampled_from([" + ", " || "]))
def test_joined_nodes_come_back(nodes: list[str], joint: str) -> None:
    assert take_apart(joint.join(nodes)).parts == tuple(nodes)
    assert take_apart("{" + ",".join(nodes) + "}").parts == tuple(nodes)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_a_name(name: str, metadata: str) -> None:
    found = take_apart(name, metadata)
    assert found.kind in ("layer", "region", "engine")
    assert all(found.parts)


def test_a_hostile_name_ends() -> None:
    # 20,000 characters that open and never close, or only close: cubic time would be hours.
    for text in ("PWN(" * 5000, "{[(" * 6000, ")" * 20000, " + " * 6000, "|| " * 6000):
        assert all(take_apart(text).parts)
