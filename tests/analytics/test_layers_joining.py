"""Layers of an engine joined to the nodes that they run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.published.cells import LayerRow
from mansard.analytics.models.layers.engine import EngineLayer, batch_of, layers_of_rows
from mansard.analytics.models.layers.joining import Join, join_layers_to_nodes
from mansard.core.formats.onnx import label
from tests.analytics.engine_cases import NODES, described, fused_engine, graph_of, residual_network

GRAPH, SCORE = graph_of(residual_network())


def names(join: Join) -> tuple[str, ...]:
    return tuple(NODES[node] for node in join.nodes)


def joined(rows: Sequence[LayerRow]) -> list[tuple[tuple[str, ...], str]]:
    joins = join_layers_to_nodes(layers_of_rows(rows), GRAPH)
    return [(names(join), join.by) for join in joins]


def timed(*layer_names: str) -> list[LayerRow]:
    return [LayerRow(name=name, median_s=1e-5) for name in layer_names]


def test_shapes_join_an_engine_with_names_of_another_export() -> None:
    assert joined(fused_engine()) == [
        ((), "none"),
        (("a", "a_relu"), "shapes"),
        (("d",), "shapes"),
        (("b", "sum", "sum_relu"), "shapes"),
        (("pool", "flat"), "shapes"),
        (("fc",), "shapes"),
        ((), "none"),
    ]


def test_what_has_no_nodes_says_why() -> None:
    joins = join_layers_to_nodes(layers_of_rows(fused_engine()), GRAPH)
    assert joins[0].remark == "a reformat, of no node"
    assert joins[-1].remark == "the engine's own: shapes, constants or a view"


def test_names_of_nodes_count_before_shapes() -> None:
    rows = timed("a + a_relu", "d", "b + sum + sum_relu", "pool", "fc")
    assert [by for _, by in joined(rows)] == ["names"] * 5
    assert joined(rows)[2][0] == ("b", "sum", "sum_relu")


def test_metadata_names_nodes_where_the_layer_does_not() -> None:
    rows = [
        LayerRow(name="__myl_Conv_myl0_1", metadata="[ONNX Layer: a]\x1e[ONNX Layer: a_relu]"),
        *timed("d", "b", "pool", "fc"),
    ]
    assert joined(rows)[0] == (("a", "a_relu"), "names")


def test_a_region_has_what_lies_between_its_ends_and_no_layer_has() -> None:
    # Between a and sum_relu: a, a_relu, b, sum, sum_relu; d is on no way from a.
    rows = timed("{ForeignNode[a...sum_relu]}", "d", "pool", "fc")
    assert joined(rows)[0] == (("a", "a_relu", "b", "sum", "sum_relu"), "graph")
    assert joined(rows)[1] == (("d",), "names")


def test_names_that_shapes_contradict_are_chance() -> None:
    # "a" and "fc" are swapped: the layer called fc has 576 weights, that called a 32.
    rows = fused_engine()
    swapped = {"Conv_7 + Relu_8": "fc", "Gemm_15": "a", "Conv_10": "b"}
    renamed = [LayerRow(**{**vars(row), "name": swapped.get(row.name, row.name)}) for row in rows]
    assert joined(renamed)[1] == (("a", "a_relu"), "shapes")


def test_a_result_names_all_that_leads_to_it() -> None:
    # ONNX Runtime calls a fused convolution after the tensor that it writes.
    rows = [
        LayerRow(name="ra_nchwc", op_type="Conv", median_s=1e-5),
        LayerRow(name="td_nchwc", op_type="Conv", median_s=1e-5),
        LayerRow(name="rs_nchwc", op_type="Conv", median_s=1e-5),
        LayerRow(name="pool", op_type="GlobalAveragePool", median_s=1e-5),
        LayerRow(name="ReorderOutput", op_type="ReorderOutput", median_s=1e-5),
        LayerRow(name="fc", op_type="Gemm", median_s=1e-5),
    ]
    assert [names for names, _ in joined(rows)] == [
        ("a", "a_relu"),
        ("d",),
        ("b", "sum", "sum_relu"),
        ("pool", "flat"),
        (),
        ("fc",),
    ]
    layers = layers_of_rows(rows)
    assert layers[4].kind == "reformat"


def test_the_order_of_operators_is_a_guess() -> None:
    layers = layers_of_rows(timed("Conv_1 + Relu_2", "Conv_3", "Conv_4 + Add_5", "Gemm_9"))
    joins = join_layers_to_nodes(layers, GRAPH)
    assert [join.by for join in joins] == ["order"] * 4
    assert all("a guess" in join.remark for join in joins)


def test_fewer_layers_than_nodes_are_said_with_both_numbers() -> None:
    (join,) = join_layers_to_nodes(layers_of_rows(timed("Conv_1 + Relu_2")), GRAPH)
    assert names(join)[0] == "a"
    assert "of which the engine has 1 and the network 4" in join.remark


def test_labels_of_our_own_measurements_are_taken_as_they_are() -> None:
    layers = [
        EngineLayer(name=f"{label(0)} fused", kind="layer", nodes=(0, 1), is_traced=True),
        EngineLayer(name="its second piece", kind="layer", nodes=(0, 1), is_traced=True),
        EngineLayer(name="cast", kind="engine", nodes=(), is_traced=True),
    ]
    first, second, cast = join_layers_to_nodes(layers, GRAPH)
    assert (names(first), first.by) == (("a", "a_relu"), "traced")
    assert second.nodes == ()
    assert second.remark == "a piece of @0@ fused"
    assert cast.remark.startswith("the engine's own")


def test_products_side_by_side_are_one_layer() -> None:
    # a and d read x: 576 + 64 weights, twice the results.
    rows = fused_engine()
    both = described("Conv_7||Conv_10", "CaskConvolution", ("x1",), "t1", n_weights=640)
    wide = LayerRow(
        **{**vars(both), "writes": (both.writes[0]._replace(dimensions=(1, 16, 16, 16)),)}
    )
    assert joined([rows[0], wide, *rows[3:]])[1] == (("a", "a_relu", "d"), "shapes")


def test_the_batch_is_that_of_the_engines_input() -> None:
    assert batch_of(layers_of_rows(fused_engine())) == 1
    assert batch_of(layers_of_rows(timed("a"))) is None


@given(st.permutations(range(7)))
def test_no_node_is_given_twice_whatever_the_order(order: list[int]) -> None:
    rows = fused_engine()
    joins = join_layers_to_nodes(layers_of_rows([rows[at] for at in order]), GRAPH)
    nodes = [node for join in joins for node in join.nodes]
    assert sorted(nodes) == sorted(set(nodes))


_WORDS = st.text(st.sampled_from("aab_Cconv+|{}[].ForeignNode() 0"), max_size=40)


@given(st.lists(_WORDS.filter(str.strip), max_size=12))
def test_any_names_are_joined_or_have_a_reason(layer_names: list[str]) -> None:
    for join in join_layers_to_nodes(layers_of_rows(timed(*layer_names)), GRAPH):
        assert join.nodes or join.remark


@pytest.mark.parametrize(
    ("name", "op_type", "op_class"),
    [
        ("/features/features.0/Conv", "", "product"),
        ("resnet50/conv1_pad/Pad", "Padding", "other"),
        ("resnet50/conv1_conv/Conv2D__6", "Shuffle", "other"),
        ("resnet50/avg_pool/Mean", "CaskPooling", "pool"),
        ("QuantizeLinear_2", "Reformat", "quantiser"),
        ("conv1.weight + QuantizeLinear_7 + Conv_9", "CaskConvolution", "product"),
        ("/Flatten + reshape_before_/classifier/classifier.1/Gemm", "", "other"),
    ],
)
def test_classes_of_layers(name: str, op_type: str, op_class: str) -> None:
    (layer,) = layers_of_rows([LayerRow(name=name, op_type=op_type or None)])
    assert layer.op_class == op_class
