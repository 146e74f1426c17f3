"""Stages of decoders in the forms of several exporters: what each dimension is, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper

from mansard import api
from mansard.core.errors import ModelError, UsageError
from mansard.core.records import KvCacheUpdate, ModelScore
from mansard.core.storage.jsonl import read_rows, write_rows
from mansard.estimator import Given, Settings, totals
from mansard.estimator.model import NOTHING_GIVEN
from tests.estimator.contrib_models import session
from tests.estimator.decoders import HEADS, KV_HEADS, MS, WIDTH, network, plain_decoder, value

# One token after 100: the products for queries and results are 32 x 32 and 32 x 16, those for
# keys and values 32 x 16 each; 4 heads multiply 101 keys and 101 values of 8.
MACS = 32 * 32 + 3 * 32 * 16 + 4 * 101 * 2 * 8
KV_BYTES = 2 * 101 * KV_HEADS * WIDTH * 4
MASK = "attention_mask"


def staged(
    folder: Path,
    data: bytes,
    *,
    decode: int | None = 100,
    prefill: int | None = None,
    batch: int | None = None,
    kv_cache: KvCacheUpdate | None = None,
    given: Given = NOTHING_GIVEN,
) -> ModelScore:
    path = folder / "decoder.onnx"
    path.write_bytes(data)
    scored = api.score(
        [path],
        Settings(given, kv_cache=kv_cache),
        batches=() if batch is None else (batch,),
        prefill=prefill,
        decode=decode,
        jobs=1,
    )
    return scored.scores[0]


def ids(*shape: int | str) -> object:
    return value("input_ids", shape, "int64")


FORMS: dict[str, dict[str, object]] = {
    "optimum": {},
    "dynamo, each axis with a name of its own": {
        "tokens": ids("s26", "s70"),
        "mask": value(MASK, ("s43", "s53"), "int64"),
        "cache": ("s26", KV_HEADS, "s54", WIDTH),
        "past": ("past_0_0", "past_0_1"),
        "present": ("cat_7", "cat_8"),
    },
    "mask of three axes": {"mask": value("mask", ("mb", "q", "k"), "int64")},
    "mask of four axes": {"mask": value(MASK, ("mb", 1, "q", "k"))},
    "mask whose length is computed": {"mask": value(MASK, ("batch", "past + seq"), "int64")},
    "positions and cache_position": {
        "others": [
            value("position_ids", ("pb", "ps"), "int64"),
            value("cache_position", ("ps",), "int64"),
        ]
    },
    "positions of three kinds": {"others": [value("position_ids", (3, "pb", "ps"), "int64")]},
    "layer.N.k": {"past": ("layer.0.k", "layer.0.v"), "present": ("out_1", "out_2")},
    "cache_k": {"past": ("cache_k", "cache_v"), "present": ("k_out", "v_out")},
    "key_cache_N": {"past": ("key_cache_0", "value_cache_0"), "present": ("a", "b")},
    "tokens before heads": {"cache": ("batch", "past", KV_HEADS, WIDTH), "axis": 1},
    "tokens last": {"cache": ("batch", KV_HEADS, WIDTH, "past"), "axis": 3},
    "one token a call": {"tokens": ids("batch", 1)},
    "a cache of fixed length": {"cache": (1, KV_HEADS, 100, WIDTH)},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_a_step_is_the_same_however_an_exporter_writes_it(
    tmp_path: Path, form: dict[str, object]
) -> None:
    found = staged(tmp_path, plain_decoder(**form))  # type: ignore[arg-type]
    assert (found.batch, totals(found).macs) == (1, MACS)
    assert (found.kv_cache_bytes, found.kv_cache_update) == (KV_BYTES, "in-place")


def test_a_batch_reaches_axes_that_are_named_apart(tmp_path: Path) -> None:
    form = FORMS["dynamo, each axis with a name of its own"]
    found = staged(tmp_path, plain_decoder(**form), batch=3)  # type: ignore[arg-type]
    assert found.dimensions == {"s26": 3, "s70": 1, "s43": 3, "s53": 101, "s54": 100}
    assert (found.batch, totals(found).macs) == (3, 3 * MACS)


def test_what_is_given_wins_over_the_stage_and_is_said(tmp_path: Path) -> None:
    found = staged(tmp_path, plain_decoder(), given=Given(dims={"seq": 4}))
    assert found.dimensions == {"batch": 1, "seq": 4, "past": 100}
    assert found.notes == ("'seq' is given as 4, where --decode 100 has 1",)


@pytest.mark.parametrize(
    ("form", "stage", "words"),
    [
        ({"tokens": ids("batch", 1)}, {"prefill": 7, "decode": None}, "reads 1 token"),
        ({"cache": (1, KV_HEADS, 50, WIDTH)}, {}, "fixed length of 50"),
    ],
)
def test_a_stage_that_the_file_cannot_have_is_refused(
    tmp_path: Path, form: dict[str, object], stage: dict[str, int | None], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        staged(tmp_path, plain_decoder(**form), **stage)  # type: ignore[arg-type]


def test_an_encoder_s_cache_has_a_length_of_its_own_and_counts(tmp_path: Path) -> None:
    roles, shape = ("key", "value"), ("batch", KV_HEADS, "heard", WIDTH)
    data = plain_decoder(
        others=[value(f"past_{role}_cross_0", shape) for role in roles],
        past=[f"past_{role}_self_0" for role in roles],
        present=[f"present_{role}_self_0" for role in roles],
    )
    found = staged(tmp_path, data, given=Given(dims={"heard": 1500}))
    assert found.dimensions == {"batch": 1, "seq": 1, "past": 100, "heard": 1500}
    assert found.kv_cache_bytes == KV_BYTES + 2 * 1500 * KV_HEADS * WIDTH * 4


def grouped(cache: tuple[int | str, ...], **settings: int) -> bytes:
    """Projections and a GroupQueryAttention whose lengths are inputs."""
    node = helper.make_node
    nodes = [node("Gather", ["table", "input_ids"], ["x"])]
    nodes += [node("MatMul", ["x", f"w{role}"], [role]) for role in "qkv"]
    names = ["past.0.key", "past.0.value"]
    attention = ["q", "k", "v", *names, "seqlens_k", "total_sequence_length"]
    made = ["logits", "present.0.key", "present.0.value"]
    heads: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": KV_HEADS}
    nodes.append(
        node("GroupQueryAttention", attention, made, "gqa", domain=MS, **(heads | settings))
    )
    inputs = [
        value("input_ids", ("batch", "seq"), "int64"),
        value("seqlens_k", ("batch",), "int32"),
        value("total_sequence_length", (), "int32"),
        *[value(name, cache) for name in names],
    ]

    stored = {"table": np.ones((16, 32), np.float32), "wq": np.ones((32, 32), np.float32)}
    stored |= {f"w{role}": np.ones((32, 16), np.float32) for role in "kv"}
    return network(nodes, inputs, [value(name, None) for name in made], stored)


ROW = KV_HEADS * WIDTH * 4  # bytes of a token's keys, or of its values


def attention_bytes(found: ModelScore) -> tuple[int | None, int | None]:
    (row,) = [layer for layer in found.layers if layer.name == "gqa"]
    return row.read_bytes, row.write_bytes


def test_a_step_reads_what_is_cached_once_and_writes_its_own_row(tmp_path: Path) -> None:
    data = grouped(("batch", KV_HEADS, "past", "kv_cache_dim"))
    found = staged(tmp_path, data)
    assert found.dimensions["kv_cache_dim"] == WIDTH  # 32 features in 4 heads
    # queries, keys and values of 32 + 16 + 16 numbers, both lengths, 100 rows twice; a result
    # of 32 numbers, and a row twice
    assert attention_bytes(found) == (4 * 64 + 8 + 2 * 100 * ROW, 4 * 32 + 2 * ROW)
    copied = staged(tmp_path, data, kv_cache="copied")
    assert (copied.kv_cache_bytes, copied.kv_cache_update) == (2 * 101 * ROW, "copied")
    assert attention_bytes(copied) == (4 * 64 + 8 + 2 * 100 * ROW, 4 * 32 + 2 * 101 * ROW)


def test_a_head_s_width_that_the_operator_contradicts_is_refused(tmp_path: Path) -> None:
    data = grouped(("batch", KV_HEADS, "past", "kv_cache_dim"))
    with pytest.raises(ModelError, match="its heads have 8 elements"):
        staged(tmp_path, data, given=Given(dims={"kv_cache_dim": 16}))


def test_a_buffer_is_filled_as_far_as_the_stage_says(tmp_path: Path) -> None:
    found = staged(tmp_path, grouped(("batch", KV_HEADS, 4096, WIDTH)), batch=2)
    assert totals(found).macs == 2 * (MACS - 32 * 16)  # no product behind the attention
    assert found.kv_cache_bytes == 2 * 2 * 4096 * ROW
    assert (found.bounds, found.notes) == ({}, ())


def test_a_buffer_of_unknown_filling_is_an_upper_bound_and_says_so(tmp_path: Path) -> None:
    data = grouped(("batch", KV_HEADS, 4096, WIDTH))
    given = Given(dims={"seq": 1})
    found = staged(tmp_path, data, decode=None, batch=2, given=given)
    # 4096 keys in all, never 4097
    assert totals(found).macs == 2 * (32 * 32 + 2 * 32 * 16 + 4 * 4096 * 2 * 8)
    assert (found.batch, found.bounds) == (2, {"total_sequence_length": 4096})
    assert "--value 'total_sequence_length=N'" in found.notes[0]
    known = Given(dims={"seq": 1}, values={"total_sequence_length": 101})
    exact = staged(tmp_path, data, decode=None, batch=2, given=known)
    assert (exact.batch, exact.bounds) == (2, {})
    assert totals(exact).macs == 2 * (MACS - 32 * 16)


def test_samples_of_several_lengths_count_each_with_its_own(tmp_path: Path) -> None:
    given = Given(dims={"seq": 1}, values={"seqlens_k": (99, 1999)})  # the last position of each
    found = staged(
        tmp_path, grouped(("batch", KV_HEADS, 4096, WIDTH)), decode=None, batch=2, given=given
    )
    projections = 2 * (32 * 32 + 2 * 32 * 16)
    assert totals(found).macs == projections + 4 * (100 + 2000) * 2 * 8
    assert attention_bytes(found)[0] == 2 * 4 * 64 + 2 * 4 + 4 + 2 * (99 + 1999) * ROW


@pytest.mark.parametrize(("n_cached", "n_rows"), [(2048, 64), (20, 21)])
def test_a_sliding_cache_is_no_longer_than_its_window(
    tmp_path: Path, n_cached: int, n_rows: int
) -> None:
    cache = ("batch", KV_HEADS, "past_sliding_length", "kv_cache_dim")
    data = grouped(cache, local_window_size=64, sliding_window_cache=1)
    assert staged(tmp_path, data, decode=n_cached).kv_cache_bytes == 2 * n_rows * ROW


def cut(start: int) -> bytes:
    """A plain decoder that returns the rows of its cache from ``start`` on."""
    made = onnx.load_from_string(plain_decoder(present=("k_whole", "v_whole")))
    numbers = {"starts": [start], "ends": [2**62], "axes": [2]}
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(one), name) for name, one in numbers.items()
    )
    for whole, output in zip(("k_whole", "v_whole"), made.graph.output[1:], strict=True):
        output.name = f"present.0.{whole}"
        made.graph.node.append(helper.make_node("Slice", [whole, *numbers], [output.name]))
    data: bytes = made.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("start", "n_cached", "n_rows"), [(-64, 2048, 64), (-64, 20, 21), (0, 2048, 2049), (0, 20, 21)]
)
def test_a_slice_of_the_last_rows_is_a_window_and_one_of_all_rows_is_none(
    tmp_path: Path, start: int, n_cached: int, n_rows: int
) -> None:
    assert staged(tmp_path, cut(start), decode=n_cached).kv_cache_bytes == 2 * n_rows * ROW


def test_more_keys_than_a_buffer_holds_are_refused(tmp_path: Path) -> None:
    given = Given(dims={"seq": 1}, values={"total_sequence_length": 5000})
    with pytest.raises(ModelError, match="5000 keys do not go into a cache of 4096"):
        staged(
            tmp_path, grouped(("batch", KV_HEADS, 4096, WIDTH)), decode=None, batch=1, given=given
        )


def scattered(length: int | str) -> bytes:
    """A static cache of opset 24: TensorScatter, then Attention over what is no padding."""
    node = helper.make_node
    nodes = [
        node("TensorScatter", ["key_cache", "k", "write_indices"], ["key_out"], axis=2),
        node("TensorScatter", ["value_cache", "v", "write_indices"], ["value_out"], axis=2),
        node("Attention", ["q", "key_out", "value_out", "", "", "", "n"], ["y"], "attention"),
    ]
    cache = ("batch", KV_HEADS, length, WIDTH)
    inputs = [value("q", ("batch", HEADS, 1, WIDTH))]
    inputs += [value(name, ("batch", KV_HEADS, 1, WIDTH)) for name in "kv"]
    inputs += [value(name, cache) for name in ("key_cache", "value_cache")]
    inputs += [value(name, ("batch",), "int64") for name in ("write_indices", "n")]
    return network(
        nodes, inputs, [value(name, None) for name in ("y", "key_out", "value_out")], opset=24
    )


def test_an_attention_counts_the_keys_that_are_no_padding(tmp_path: Path) -> None:
    data = scattered(64)
    given = Given(values={"n": (17, 40)})
    found = staged(tmp_path, data, decode=None, batch=2, given=given)
    assert totals(found).macs == 4 * (17 + 40) * 2 * 8
    (row,) = [layer for layer in found.layers if layer.name == "attention"]
    assert row.read_bytes == 2 * 4 * 32 + 2 * 8 + 2 * (17 + 40) * ROW
    assert found.kv_cache_bytes == 2 * 2 * 64 * ROW
    unknown = staged(tmp_path, data, decode=None, batch=2)
    assert totals(unknown).macs == 4 * 2 * 64 * 2 * 8
    assert (unknown.batch, unknown.bounds) == (2, {"n": 64})


def test_a_cache_moves_once_in_place_and_three_times_where_concat_copies_it(tmp_path: Path) -> None:
    def fused(n_cached: int, kv_cache: KvCacheUpdate) -> int:
        found = staged(tmp_path, plain_decoder(), decode=n_cached, kv_cache=kv_cache)
        return totals(found).fused_traffic_bytes or 0

    more = 1000 * 2 * ROW  # 1000 more tokens
    assert fused(1100, "in-place") - fused(100, "in-place") == more
    # Concat reads the old cache and writes the new one, attention reads that
    assert fused(1100, "copied") - fused(100, "copied") == 3 * more


def test_memory_holds_each_cache_once(tmp_path: Path) -> None:
    found = staged(tmp_path, plain_decoder())
    copied = staged(tmp_path, plain_decoder(), kv_cache="copied")
    sums = totals(found)
    parts = (sums.weight_bytes, found.peak_activation_bytes, found.kv_cache_bytes)
    assert sums.memory_bytes == sum(part or 0 for part in parts)
    # where it is copied, the old cache is there beside the new one
    old = 2 * 100 * ROW
    assert (totals(copied).memory_bytes or 0) - (sums.memory_bytes or 0) == old


def test_the_zoo_s_usual_dimensions_are_for_what_nothing_else_says() -> None:
    # README's TinyLlama: 22 layers of 2 · 2048² + 2 · 2048 · 256 + 3 · 2048 · 5632 products a
    # token and 2048 · 32,000 behind them; 22 · 2 · 2048 for each pair of tokens
    each = 22 * (2 * 2048**2 + 2 * 2048 * 256 + 3 * 2048 * 5632) + 2048 * 32_000
    scored = api.score(["tinyllama_1_1b"], prefill=512, decode=2048, jobs=1).scores
    expected = [
        n_new * each + 22 * 2 * n_new * n_all * 2048 for n_new, n_all in ((512, 512), (1, 2049))
    ]
    assert [totals(score).macs for score in scored] == expected
    assert [f"{total / 1e9:.4g}" for total in expected] == ["553.2", "1.219"]


@pytest.mark.parametrize(
    "given", [Given(shapes={"input_ids": (1, 16)}), Given(dims={"input_ids[1]": 16})]
)
def test_a_shape_or_a_position_wins_over_the_zoo_s_usual_name(given: Given) -> None:
    (found,) = api.score(["bert_base"], Settings(given), jobs=1).scores
    (named,) = api.score(["bert_base"], Settings(Given(dims={"sequence": 16})), jobs=1).scores
    assert totals(found).macs == totals(named).macs


def test_a_batch_that_is_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="given as 4, and --batch as 8"):
        api.score(["resnet18"], Settings(Given(dims={"batch": 4})), batches=(8,), jobs=1)


@pytest.mark.parametrize("form", ["optimum", "tokens before heads", "tokens last"])
def test_onnx_runtime_returns_caches_of_as_many_bytes(tmp_path: Path, form: str) -> None:
    data = plain_decoder(**FORMS[form])  # type: ignore[arg-type]
    found = staged(tmp_path, data)
    runner = session(data)
    sizes = {name: found.dimensions[name] for name in ("batch", "seq", "past")}
    feeds = {
        source.name: np.zeros(
            [sizes.get(size, size) for size in source.shape],
            np.int64 if source.name == "input_ids" else np.float32,
        )
        for source in runner.get_inputs()
    }
    _, keys, values = runner.run(None, feeds)
    assert found.kv_cache_bytes == keys.nbytes + values.nbytes


def test_a_file_of_scores_of_version_2_is_read_as_of_copied_caches(tmp_path: Path) -> None:
    scored, path = staged(tmp_path, plain_decoder()), tmp_path / "scores.jsonl"
    write_rows(path, ModelScore, [scored])
    old = path.read_text().replace('"version":3', '"version":2')
    assert '"version":2' in old
    path.write_text(old.replace(',"kv_cache_update":"in-place"', ""))
    (found,) = read_rows(path, ModelScore).rows
    assert found == msgspec.structs.replace(scored, kv_cache_update="copied")


CASES = "cases/estimator"


@pytest.mark.shared_data
def test_recorded_decoders(shared_data: Path, tmp_path: Path) -> None:
    def case(name: str, **settings: object) -> ModelScore:
        (path,) = sorted((shared_data / CASES).glob(f"*/{name}.onnx"))
        return staged(tmp_path, path.read_bytes(), **settings)  # type: ignore[arg-type]

    # 2 layers, keys and values of 2 heads of 32
    llama = case("llama_dynamo_auto_dims", decode=2048, kv_cache="copied")
    assert totals(llama).macs == 3_474_432
    assert f"{(totals(llama).traffic_bytes or 0) / 1e6:.4g}" == "28.77"  # 66.54 with a mask of 2049
    assert llama.kv_cache_bytes == 2 * 2 * 2 * 2049 * 32 * 4
    position = case("decoder_cache_position")
    assert position.dimensions == {"batch": 1, "seq": 1, "past": 100, "total": 101}
    genai = case("llama_int4_genai_skeleton", decode=2048)
    assert f"{(totals(genai).traffic_bytes or 0) / 1e6:.4g}" == "1.887"
    full = case("gqa_static", decode=None)
    assert (totals(full).macs, full.bounds) == (8 * 4096 * 2 * 32, {"tl": 4096})
    fused = [
        totals(case(name, decode=None)).fused_traffic_bytes
        for name in ("attention23", "decomposed")
    ]
    assert fused[0] == fused[1]
