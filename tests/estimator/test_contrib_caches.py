"""Decoders' caches: the keys that are counted, the bytes that are read and written."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from mansard.core.records import LayerScore
from mansard.estimator import score
from tests.estimator.contrib_attention_cases import ints
from tests.estimator.contrib_models import Operator, row
from tests.estimator.contrib_plain_cases import MS
from tests.estimator.models import Input

HEADS, KV_HEADS, WIDTH = 4, 2, 8


def grouped(new: int, buffer: int, total: int | None, **settings: object) -> LayerScore:
    """A GroupQueryAttention: ``new`` tokens, a cache of ``buffer``, ``total`` keys in all."""
    length: tuple[Input, ...] = ("int32[1]", "int32")
    if total is not None:
        length = (ints(total - 1), ints(total))
    cache = f"float[1,{KV_HEADS},{buffer},{WIDTH}]"
    inputs = (
        f"float[1,{new},{HEADS * WIDTH}]",
        *[f"float[1,{new},{KV_HEADS * WIDTH}]"] * 2,
        *(cache, cache),
        *length,
    )
    heads = {"num_heads": HEADS, "kv_num_heads": KV_HEADS}
    return row(Operator(MS + "GroupQueryAttention", inputs, 0, {**heads, **settings}, outputs=3))


# One token: 32 queries, 16 keys and 16 values of 4 bytes; 32 results.
_TOKEN, _RESULT = 4 * (32 + 16 + 16), 4 * 32
_ROW = 4 * KV_HEADS * WIDTH  # one position in one of the caches
_LENGTHS = 4 + 4  # seqlens_k and total_sequence_length


def test_a_step_in_a_shared_buffer_reads_what_is_valid_and_writes_one_row() -> None:
    # 7 of 16 positions are valid before, 8 with the new one
    step = grouped(1, 16, 8)
    assert step.macs == HEADS * 8 * 2 * WIDTH
    assert step.read_bytes == _TOKEN + _LENGTHS + 2 * 7 * _ROW
    assert step.write_bytes == _RESULT + 2 * _ROW
    # the tensors themselves are the whole buffers
    assert step.output_bytes == _RESULT + 2 * 16 * _ROW


def test_a_step_with_a_cache_that_grows_writes_all_of_it() -> None:
    step = grouped(1, 7, 8)
    assert step.macs == HEADS * 8 * 2 * WIDTH
    assert step.read_bytes == _TOKEN + _LENGTHS + 2 * 7 * _ROW
    assert step.write_bytes == _RESULT + 2 * 8 * _ROW == step.output_bytes


def test_a_length_that_depends_on_data_fills_a_buffer_of_fixed_length_and_no_more() -> None:
    # 7 rows in all: 6 of them cached, and the new one
    unknown, full = grouped(1, 7, None), grouped(1, 7, 7)
    assert (unknown.macs, unknown.write_bytes) == (full.macs, full.write_bytes)
    assert unknown.macs == HEADS * 7 * 2 * WIDTH
    assert unknown.read_bytes == full.read_bytes


def _decoder() -> bytes:
    """As decoders are exported: the length is the mask's, how much of it counts is data."""
    nodes = [
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"], axis=0),
        helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
        helper.make_node("ReduceSum", ["mask", "one_axis"], ["sum"], keepdims=0),
        helper.make_node("Sub", ["sum", "one"], ["less"]),
        helper.make_node("Cast", ["less"], ["lengths"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", "past_k", "past_v", "lengths", "total"],
            ["y", "present_k", "present_v"],
            "attention",
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=KV_HEADS,
        ),
    ]
    cache: list[Any] = [1, KV_HEADS, "past", WIDTH]
    shapes: dict[str, list[Any]] = {"q": [1, "new", 32], "k": [1, "new", 16], "v": [1, "new", 16]}
    shapes |= {"past_k": cache, "past_v": cache}
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    inputs.append(helper.make_tensor_value_info("mask", TensorProto.INT64, [1, "total"]))
    outputs = [helper.make_empty_tensor_value_info(n) for n in ("y", "present_k", "present_v")]
    stored = [
        numpy_helper.from_array(np.array(1), "one"),
        numpy_helper.from_array(np.array([1]), "one_axis"),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    data: bytes = helper.make_model(graph, opset_imports=imports).SerializeToString()
    return data


def test_the_length_follows_from_the_mask() -> None:
    def step(new: int, past: int, total: int) -> LayerScore:
        scored = score(_decoder(), dims={"new": new, "past": past, "total": total})
        (found,) = [layer for layer in scored.layers if layer.name == "attention"]
        return found

    # a cache that grows from 7 to 8, and a buffer of 16 of which 7 are valid
    assert step(1, 7, 8).write_bytes == _RESULT + 2 * 8 * _ROW
    assert step(1, 16, 8).write_bytes == _RESULT + 2 * _ROW
    assert step(1, 16, 8).macs == step(1, 7, 8).macs == HEADS * 8 * 2 * WIDTH
    # a prompt of 5 in an empty buffer
    prompt = step(5, 16, 5)
    assert prompt.macs == HEADS * 5 * 5 * 2 * WIDTH
    assert prompt.read_bytes == 5 * _TOKEN + _LENGTHS
    assert prompt.write_bytes == 5 * _RESULT + 2 * 5 * _ROW


def test_a_window_reads_no_more_than_itself() -> None:
    step = grouped(1, 16, 12, local_window_size=4)
    assert step.macs == HEADS * 4 * 2 * WIDTH
    assert step.read_bytes == _TOKEN + _LENGTHS + 2 * 4 * _ROW
    # two tokens: one key more
    two = grouped(2, 16, 12, local_window_size=4)
    assert two.read_bytes == 2 * _TOKEN + _LENGTHS + 2 * 5 * _ROW


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(0, 9), st.integers(0, 9))
def test_steps_write_a_shared_buffer_once_in_all(new: int, before: int, room: int) -> None:
    total = before + new
    at_once = grouped(new, total + room, total)
    steps = [grouped(1, total + room, before + i + 1) for i in range(new)]
    results = new * _RESULT
    assert at_once.write_bytes == results + 2 * new * _ROW
    assert sum(step.write_bytes or 0 for step in steps) == at_once.write_bytes
    # One by one they see no keys behind them: half the square of the new ones is saved.
    saved = HEADS * 2 * WIDTH * new * (new - 1) // 2
    assert sum(step.macs or 0 for step in steps) == (at_once.macs or 0) - saved


def test_multihead_attention_reads_and_writes_its_caches() -> None:
    # 2 heads of 2: one position is 16 bytes
    query = "float[1,1,4]"
    cache = "float[1,2,6,2]"
    grows = row(
        Operator(
            MS + "MultiHeadAttention",
            (query, query, query, "", "", "", cache, cache),
            0,
            {"num_heads": 2},
            outputs=3,
        )
    )
    assert grows.macs == 2 * 7 * 4
    assert grows.read_bytes == 3 * 16 + 2 * 6 * 16
    assert grows.write_bytes == 16 + 2 * 7 * 16
    shared = row(
        Operator(
            MS + "DecoderMaskedMultiHeadAttention",
            (query, query, query, "", "", cache, cache, ints(4)),
            0,
            {"num_heads": 2, "past_present_share_buffer": 1},
            outputs=3,
        )
    )
    assert shared.macs == 2 * 5 * 4
    # 4 valid positions, and the 4 bytes that say so
    assert shared.read_bytes == 3 * 16 + 2 * 4 * 16 + 4
    assert shared.write_bytes == 16 + 2 * 16


def test_cross_attention_only_reads_its_keys() -> None:
    keys = "float[1,2,5,2]"
    step = row(
        Operator(MS + "MultiHeadAttention", ("float[1,1,4]", keys, keys), 0, {"num_heads": 2})
    )
    assert (step.read_bytes, step.write_bytes) == (16 + 2 * 80, 16)


def test_attention_with_weights_reads_and_writes_its_cache() -> None:
    inputs = ("float[1,1,4]", "float[4,12]", "float[12]", "", "float[2,1,2,8,2]", "", ints(5))
    settings = {"num_heads": 2, "past_present_share_buffer": 1}
    step = row(Operator(MS + "DecoderMaskedSelfAttention", inputs, 0, settings, outputs=2))
    # 4 inputs, 48 weights, 12 biases, 2·5 positions of 4, a length
    assert step.read_bytes == 4 * (4 + 48 + 12 + 2 * 5 * 4 + 1)
    assert step.write_bytes == 4 * (4 + 2 * 4)


def test_pages_are_read_as_far_as_they_are_valid() -> None:
    pages = "bfloat16[4,16,2,8]"
    inputs = (
        *("bfloat16[3,32]", "bfloat16[3,16]", "bfloat16[3,16]", pages, pages),
        *(ints(0, 1, 3), ints(3, 0), "int32[2,2]"),
    )
    settings = {"num_heads": HEADS, "kv_num_heads": KV_HEADS}
    step = row(Operator(MS + "PagedAttention", inputs, 0, settings, outputs=3))
    # 3 tokens of 64 and 3 cached positions in both caches of 16, 2 bytes; 3 + 2 + 4 lengths
    assert step.read_bytes == 2 * (3 * 64 + 2 * 3 * 16) + 4 * 9
    assert step.write_bytes == 2 * (3 * 32 + 2 * 3 * 16)


def test_a_sparse_layout_counts_whole_blocks() -> None:
    # 32 queries behind none: 16 see one block of 16, 16 see both or, in the other layout,
    # their own alone
    cache = "float[1,2,32,8]"
    rows = np.array([[0, 1, 3], [0, 1, 2]], np.int32)
    columns = np.array([[0, 0, 1], [0, 1, -1]], np.int32)
    inputs = (
        *("float[1,32,32]", "float[1,32,16]", "float[1,32,16]", cache, cache, rows, columns),
        *(ints(32), ints(32)),
    )
    settings = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "sparse_block_size": 16}
    found = row(Operator(MS + "SparseAttention", inputs, 0, settings, outputs=3))
    pairs = 2 * (16 * 16 + 16 * 32) + 2 * (16 * 16 + 16 * 16)
    assert found.macs == pairs * 2 * WIDTH


def test_rotary_tables_are_read_by_the_row() -> None:
    inputs = ("float[1,2,3,4]", "int64[1,3]", "float[512,2]", "float[512,2]")
    found = row(Operator(MS + "RotaryEmbedding", inputs, 0))
    # 24 elements, 3 positions of 8 bytes, 3 rows of 2 from both tables
    assert found.read_bytes == 4 * 24 + 8 * 3 + 2 * 4 * 3 * 2
