from __future__ import annotations

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.model_frames import GROUP_SCHEMA
from mansard.analytics.data.names import network_key
from mansard.analytics.data.scores import score_id
from mansard.analytics.models.predict.groups import (
    LATENCY_BOUND,
    SCORE_SCHEMA,
    group_frame,
    score_frame,
)
from mansard.core.records import LayerScore, ModelScore
from mansard.estimator import zoo
from mansard.estimator.scoring import score as score_model
from tests.analytics.score_factory import layer, score


def changed(given: LayerScore, **values: object) -> LayerScore:
    return msgspec.structs.replace(given, **values)


def product(index: int = 0, *, macs: int = 500, simple: int = 30, **more: object) -> LayerScore:
    """A product of ``macs`` multiply-adds on tensor cores, and ``simple`` operations beside it."""
    bare = layer(index, 2 * macs + simple, 100, precision="fp16", unit="tensor core")
    return changed(bare, macs=macs, multiply_add_flop=2 * macs, simple_flop=simple, **more)


def plain(index: int, work: int, precision: str = "fp16", **more: object) -> LayerScore:
    """An operator without multiply-adds."""
    bare = layer(index, work, 100, precision=precision, op_type="Relu")
    return changed(bare, macs=0, multiply_add_flop=0, simple_flop=work, **more)


def only(*layers: LayerScore) -> dict[str, object]:
    found = group_frame(layer_frame([score("net", layers)]), with_kernels=True)
    assert len(found) == 1
    return found.row(0, named=True)


def test_a_fused_group_is_one_row_under_its_head() -> None:
    found = only(
        plain(0, 7, fused_group=1, fused_traffic_bytes=0),
        product(1, name="head", fused_group=1, fused_traffic_bytes=900),
        plain(2, 40, fused_group=1, fused_traffic_bytes=0),
    )
    assert {name: found[name] for name in list(GROUP_SCHEMA)[1:]} == {
        "group": 1,
        "name": "head",
        "op_class": "conv",
        "tensor_precision": "fp16",
        "tensor_flop": 1000.0,  # 2 × 500
        "cuda_precision": "fp16",
        "cuda_flop": 77.0,  # 7 + 30 + 40
        "function_flop": 0.0,
        "traffic_bytes": 900.0,
        "n_launches": 1,
        # Of 500 multiply-adds, 20 outputs and 10 weights: K = 25, N = 0.4 and M = 50, in 2 bytes.
        "kernel": "conv",
        "operand_bytes": 2500.0,
        "result_bytes": 40.0,
        "weight_bytes": 20.0,
        "reason": None,
    }


def test_work_on_cuda_cores_has_the_precision_of_most_of_it() -> None:
    rows = (plain(0, 10, "fp32", fused_group=1), plain(1, 50, "fp16"))
    assert only(*rows)["cuda_precision"] == "fp16"
    assert only(rows[0], plain(1, 5, "fp16"))["cuda_precision"] == "fp32"


@pytest.mark.parametrize(
    ("kept", "computed"), [("tf32", "fp32"), ("fp8", "fp32"), ("bf16", "bf16")]
)
def test_cuda_cores_compute_in_formats_that_they_have(kept: str, computed: str) -> None:
    found = only(product(precision=kept))
    assert (found["tensor_precision"], found["cuda_precision"]) == (kept, computed)


def test_integers_without_multiply_adds_have_no_work_to_time() -> None:
    positions = only(plain(0, 1000, "int64"))
    assert (positions["cuda_flop"], positions["cuda_precision"]) == (0.0, None)
    assert positions["n_launches"] == 1
    # A quantised product keeps its multiply-adds; what rounds its result is integer work too.
    quantised = only(product(precision="int8"))
    assert (quantised["tensor_flop"], quantised["cuda_flop"]) == (1000.0, 0.0)
    depthwise = only(changed(product(), precision="int8", unit="CUDA core"))
    assert (depthwise["cuda_precision"], depthwise["cuda_flop"]) == ("int8", 1030.0)
    assert depthwise["op_class"] == "depthwise"


def test_what_only_renames_starts_nothing() -> None:
    assert only(plain(0, 0, traffic_bytes=0, fused_traffic_bytes=0))["n_launches"] == 0
    # A body that runs 12 times starts 12 kernels.
    assert only(plain(0, 24, runs=12))["n_launches"] == 12


def unfused(*layers: LayerScore) -> ModelScore:
    none = dict.fromkeys(
        ("fused_group", "fused_read_bytes", "fused_write_bytes", "fused_traffic_bytes")
    )
    why = dict.fromkeys(none, "fusion is modelled for inference only")
    bare = [changed(each, **none, unknown=why) for each in layers]
    return msgspec.structs.replace(score("net", bare), phase="training")


def test_functions_are_summed_over_the_group() -> None:
    sigmoid = plain(1, 40, fused_group=0, fused_traffic_bytes=0)
    found = only(
        product(0, fused_group=0, fused_traffic_bytes=900), changed(sigmoid, function_flop=25)
    )
    assert (found["cuda_flop"], found["function_flop"]) == (70.0, 25.0)  # 30 + 40


@pytest.mark.parametrize(
    ("n_steps", "op_type", "note"),
    [
        (1, "GRU", LATENCY_BOUND),
        (20, "MatMul", LATENCY_BOUND),  # in the body of a loop
        (1, "MatMul", None),
    ],
)
def test_what_works_in_steps_is_bound_by_latency(
    n_steps: int, op_type: str, note: str | None
) -> None:
    """Of 1000 FLOP 600 are in steps; of 1200 they are half, and it is not said."""
    steps = changed(plain(0, 600), op_type=op_type, runs=n_steps)
    for rest, said in ((400, note), (600, None)):
        layers = layer_frame([score("net", [steps, plain(1, rest)])])
        assert score_frame(layers)["note"].to_list() == [said]


def test_without_fused_traffic_each_layer_is_alone_and_the_score_says_so() -> None:
    training = unfused(product(0), plain(1, 40))
    layers = layer_frame([training, score("other", [product(0)])])
    found = group_frame(layers).filter(pl.col("name").str.starts_with("layer"))
    assert sorted(found["traffic_bytes"].to_list()) == [100.0, 100.0, 100.0]
    notes = dict(score_frame(layers).select("network", "note").rows())
    assert notes == {
        "net": "its traffic is unfused: fusion is modelled for inference only",
        "other": None,
    }


def test_one_layer_without_fused_traffic_leaves_none_fused() -> None:
    lost = unfused(plain(1, 40)).layers[0]
    found = group_frame(layer_frame([score("net", [product(0, fused_traffic_bytes=1), lost])]))
    assert found["traffic_bytes"].to_list() == [100.0, 100.0]


def test_a_training_step_starts_kernels_forward_backward_and_for_the_update() -> None:
    step = unfused(
        # forward 1030, backward for two operands 2060, update 30: 1 + 2 + 1
        changed(product(0), work_flop=3120, backward_flop=2060, update_flop=30),
        # the first layer has no gradient of its data: 1 + 1
        changed(product(1), work_flop=2060, backward_flop=1030),
        # an activation's gradient is one kernel: 1 + 1
        plain(2, 80, backward_flop=40),
        plain(3, 80),
    )
    found = group_frame(layer_frame([step]))
    assert found["n_launches"].to_list() == [4, 2, 2, 1]


def test_unknown_work_and_traffic_say_whose_they_are() -> None:
    found = group_frame(
        layer_frame(
            [
                score(
                    "net", [layer(0, None, 8, op_type="Sprocket"), layer(1, 8, None, op_type="Cog")]
                )
            ]
        )
    )
    assert found["reason"].to_list() == [
        "the work of Sprocket is unknown",
        "the traffic of Cog is unknown",
    ]
    assert found.select("cuda_flop", "traffic_bytes").rows() == [(None, 8.0), (8.0, None)]
    (row,) = score_frame(layer_frame([score("net", [layer(0, None, 8)])])).iter_rows(named=True)
    assert (row["n_layers_unknown"], row["work_flop"], row["traffic_bytes"]) == (1, None, 8)


def test_empty_frames() -> None:
    nothing = layer_frame([])
    assert group_frame(nothing).schema == pl.Schema(GROUP_SCHEMA)
    assert score_frame(nothing).schema == pl.Schema(SCORE_SCHEMA)


def test_networks_are_called_as_they_are_shown() -> None:
    net = score("net", [product()])
    names = {network_key(net.model, net.model_hash): "net (12345678)"}
    assert score_frame(layer_frame([net]), names)["network"].to_list() == ["net (12345678)"]


def test_a_real_network_keeps_all_its_work_and_its_fused_traffic() -> None:
    counted = score_model(zoo.read("resnet18"), name="resnet18", batch=2, precision="fp16")
    found = group_frame(layer_frame([counted]))
    totals = found.select(
        (pl.col("tensor_flop") + pl.col("cuda_flop")).sum(), pl.col("traffic_bytes").sum()
    )
    assert totals.row(0) == (
        sum(each.work_flop or 0 for each in counted.layers),
        sum(each.fused_traffic_bytes or 0 for each in counted.layers),
    )
    # 20 convolutions, the pooling at either end and the last product
    assert found["n_launches"].sum() == 23
    assert found.filter(pl.col("n_launches") > 0)["op_class"].value_counts(sort=True).rows() == [
        ("conv", 20),
        ("pooling", 2),
        ("matmul", 1),
    ]


def test_a_score_of_upper_bounds_says_so() -> None:
    net = msgspec.structs.replace(score("net", [product()]), bounds={"found[1]": 64})
    frame = layer_frame([net])
    assert frame["dimensions_json"].to_list() == ['{"at most found[1]":64}']
    (note,) = score_frame(frame)["note"]
    assert note == "sizes that depend on data count with their upper bounds: it needs at most this"
    # and is another score than that of given sizes
    assert score_id(net) != score_id(score("net", [product()]))
    assert score_frame(layer_frame([score("net", [product()])]))["note"].to_list() == [None]
