"""Layers of an engine under roofs: by hand, and on recorded engines."""

from __future__ import annotations

import json
from pathlib import Path

import engine_layers
import pytest

from mansard.analytics.models.layers.engine import layers_of_rows
from mansard.analytics.models.layers.network import graph_of_score
from mansard.analytics.models.layers.roofs import LayerRoofs, roofs_given, roofs_of_hardware
from mansard.analytics.models.layers.rows import (
    LayersOrigin,
    RoofedLayer,
    RoofedLayers,
    roofed_layers,
)
from mansard.analytics.pages.figures.engine_layers import (
    layer_title,
    point_frame,
    roof_frame,
    strip_frame,
)
from mansard.analytics.pages.tables.engine_layers import engine_layer_table, engine_layer_words
from mansard.core.errors import UsageError
from tests.analytics.engine_cases import NODES, fused_engine, graph_of, residual_network

GRAPH, SCORE = graph_of(residual_network())
ORIGIN = LayersOrigin("a test", "published")
ROOFS = roofs_given({("fp32", "fma"): 1e10}, 1e9, None)


def roofed(roofs: LayerRoofs = ROOFS) -> RoofedLayers:
    return roofed_layers(layers_of_rows(fused_engine()), GRAPH, SCORE, roofs, ORIGIN)


def layer(result: RoofedLayers, name: str) -> RoofedLayer:
    return next(row for row in result.layers if row.name == name)


def test_a_convolution_by_hand() -> None:
    # a: 8 · 16 · 16 results of 72 multiply-adds: 2 · 2048 · 72 = 294,912 FLOP, and 2048 of Relu.
    # Bytes: 2048 · 4 read, as many written, 576 · 4 of weights: 18,688. The bias is none.
    row = layer(roofed(), "Conv_7 + Relu_8")
    assert row.work_flop == 294_912 + 2_048
    assert (row.traffic_bytes, row.traffic_of) == (18_688, "engine")
    # 296,960 / 1e10 = 29.7 µs; 18,688 / 1e9 = 18.7 µs: compute binds. It took 40 µs.
    assert row.roof_s == pytest.approx(29.696e-6)
    assert (row.bound, row.peak) == ("compute", "fp32")
    assert row.gap_s == pytest.approx(10.304e-6)
    assert row.roof_share == pytest.approx(0.7424)
    assert row.flop_per_s == pytest.approx(7.424e9)


def test_a_reformat_has_a_roof_of_its_bytes_alone() -> None:
    # 2048 · 4 read and as many written: 16,384 bytes at 1e9 are 16.4 µs.
    row = next(row for row in roofed().layers if row.kind == "reformat")
    assert (row.work_flop, row.traffic_bytes, row.peak) == (0, 16_384, "")
    assert (row.bound, row.level) == ("memory", "DRAM")
    assert row.roof_s == pytest.approx(16.384e-6)
    # It took 10 µs.
    assert "faster than its roof" in row.remark


def test_the_largest_gap_comes_first_and_shares_sum_to_one() -> None:
    result = roofed()
    gaps = [row.gap_s or 0.0 for row in result.layers]
    assert gaps == sorted(gaps, reverse=True)
    # 10 µs of the reformat and 80 µs of five layers with nodes.
    assert result.layers_s == pytest.approx(9e-5)
    assert result.reformat_share == pytest.approx(1 / 9)
    assert result.joined_share == pytest.approx(8 / 9)
    assert (result.own_share, result.lost_share, result.guessed_share) == (0, 0, 0)
    assert result.joined_work_share == 1


def test_a_launch_binds_what_its_roof_does_not_reach() -> None:
    # fc: 2 · 8 · 4 = 64 FLOP; 10 µs is less than three launches of 5 µs.
    roofs = roofs_given({("fp32", "fma"): 1e10}, 1e9, 5e-6)
    assert layer(roofed(roofs), "Gemm_15").bound == "launch"
    # The same where the shortest layer says it, 10 µs.
    assert roofed().launch_s == 1e-5
    assert layer(roofed(), "Gemm_15").bound == "launch"
    # 10 µs are more than three launches of 1 µs.
    assert (
        layer(roofed(roofs_given({("fp32", "fma"): 1e10}, 1e9, 1e-6)), "Gemm_15").bound == "memory"
    )


def test_without_roofs_there_are_rates_and_a_reason() -> None:
    result = roofed(LayerRoofs(why="no board is here"))
    row = layer(result, "Conv_7 + Relu_8")
    assert (row.roof_s, row.gap_s, row.bound) == (None, None, "unknown")
    assert row.unknown["gap_s"] == "no board is here"
    assert row.flop_per_s == pytest.approx(7.424e9)
    assert result.unknown["roofs_source"] == "no board is here"
    assert "No roof is known: no board is here." in engine_layer_words(result)


def test_without_a_description_bytes_are_those_of_the_nodes_as_one_kernel() -> None:
    # b, sum, sum_relu read ra and td, 8,192 bytes each, and 576 · 4 of weights; they write rs.
    nodes = [NODES.index(name) for name in ("b", "sum", "sum_relu")]
    assert GRAPH.traffic_bytes(nodes) == 3 * 8_192 + 2_304
    # The score alone has no tensors: a and its Relu are one group of it, 2 · 8,192 + 2,304.
    assert graph_of_score(SCORE).traffic_bytes([0, 1]) == 18_688
    assert GRAPH.traffic_bytes([0, 1]) == 18_688


def test_a_missing_peak_is_a_reason_and_no_zero() -> None:
    row = layer(roofed(roofs_given({("int8", "tensor"): 1e12}, 1e9, None)), "Conv_7 + Relu_8")
    assert row.unknown["roof_s"] == "no fp32 peak is known"


def test_peaks_of_half_precision() -> None:
    roofs = roofs_given({("fp32", "fma"): 1.0, ("fp16", "tensor"): 8.0}, 1e9, None)
    assert roofs.peak("fp16", on_tensor_cores=True) == ("fp16 tensor", 8.0)
    assert roofs.peak("fp16", on_tensor_cores=False) == ("fp32", 1.0)
    assert roofs.peak("tf32", on_tensor_cores=True) == ("fp32", 1.0)
    assert roofs.peak("int8", on_tensor_cores=True) is None


def test_hardware_needs_a_mode_where_it_has_several() -> None:
    with pytest.raises(UsageError, match=r"no mode is given.*say --mode with one of"):
        roofs_of_hardware("Orin Nano 8GB", None)
    with pytest.raises(UsageError, match="'9W' is not a mode of Orin Nano 8GB"):
        roofs_of_hardware("Orin Nano 8GB", "9W")
    assert roofs_of_hardware("Orin Nano 8GB", "15W").levels[0].name == "DRAM"


def test_titles_of_layers() -> None:
    row = layer(roofed(), "Conv_9 + Add_11 + Relu_12")
    assert layer_title(row) == "Conv_9 + Add_11 + Relu_12"
    copy = next(row for row in roofed().layers if row.kind == "reformat")
    assert layer_title(copy) == "reformat before Conv_7"
    assert layer_title(row, 8) == "Conv_9 …"


def test_the_table_and_the_charts_have_every_layer() -> None:
    result = roofed()
    assert len(engine_layer_table(result).rows) == 7
    assert len(engine_layer_table(result, 3).rows) == 3
    # The view took no time: it is in no chart. Copies do no work.
    assert len(strip_frame(result)) == 6
    assert strip_frame(result)["to_ms"].to_list()[-1] == pytest.approx(0.09)
    assert len(point_frame(result)) == 5
    # From the lowest intensity to the ridge, 1e10 / 1e9 = 10 FLOP/byte, and on.
    assert roof_frame(result, 1.0, 100.0)["gflop_per_s"].to_list() == [1.0, 10.0, 10.0]


@pytest.mark.shared_data
def test_recorded_engines_are_joined(shared_data: Path) -> None:
    """At most 3 % of the time of any recorded engine is neither joined nor a reformat."""
    recorded = engine_layers.recorded(shared_data / "trtexec")
    shares = {}
    for name, result in recorded:
        if result.layers_s is not None:
            shares[name] = (result.lost_share or 0.0) + (result.own_share or 0.0)
            if "without" not in name:
                assert result.guessed_share == 0, name
                assert result.joined_work_share == pytest.approx(1), name
    assert len(shares) == 10
    assert max(shares.values()) < 0.03, json.dumps(shares)
