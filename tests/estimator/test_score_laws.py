"""Laws that the score of any network obeys, on random networks and on some of the zoo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import get_args

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.precision import Precision, parse_precision
from mansard.core.records import LAYER_COUNTS as COUNTS
from mansard.core.records import ModelScore, Phase
from mansard.estimator import Given, Settings, load, score, score_loaded, totals
from tests.estimator.law_changes import (
    beside,
    in_loop,
    renamed,
    reordered,
    with_choice,
    with_constants,
    with_function,
    with_identities,
)
from tests.estimator.law_networks import draw_network
from tools.zoo.generate import build

CACHE_BYTES = 3000  # some tensors of these networks fit, some do not
PEAKS = ("peak_activation_bytes", "in_place_peak_bytes", "fused_peak_bytes")
FUSED = ("fused_read_bytes", "fused_write_bytes", "fused_traffic_bytes", "cached_traffic_bytes")
PLAIN = tuple(name for name in COUNTS if name not in FUSED)  # of each operator alone
# Of these nothing depends on the integers that are an operator's settings.
SCALING = ("macs", "work_flop", "output_bytes", "write_bytes", "fused_write_bytes", *PEAKS)
ZOO = ("resnet18", "mobilenet_v3_small", "gpt2", "lstm", "swin_t", "ssdlite320_mobilenet_v3_large")
GIVEN = {"batch": 2, "sequence": 5, "past_sequence": 5}

Sums = Mapping[str, int | None]
often = settings(max_examples=60)


def scored(model: onnx.ModelProto, **options: object) -> ModelScore:
    read = {name for value in model.graph.input for name in _names(value)}
    options.setdefault("dims", {name: size for name, size in GIVEN.items() if name in read})
    options.setdefault("cache_bytes", CACHE_BYTES)
    return score(model.SerializeToString(), **options)  # type: ignore[arg-type]


def _names(value: onnx.ValueInfoProto) -> Iterable[str]:
    return (size.dim_param for size in value.type.tensor_type.shape.dim)


def sums(model: onnx.ModelProto, **options: object) -> dict[str, int]:
    """Everything that is one number for the whole network."""
    found = scored(model, **options)
    whole = totals(found)
    numbers = {name: getattr(whole, name) for name in COUNTS}
    return numbers | {name: getattr(found, name) for name in PEAKS}


def only(numbers: Sums, names: Iterable[str]) -> dict[str, int | None]:
    return {name: numbers[name] for name in names}


def draw_part(data: st.DataObject, model: onnx.ModelProto) -> tuple[int, int]:
    """Where a piece of the main graph begins and ends."""
    n_nodes = len(model.graph.node)
    start = data.draw(st.integers(0, n_nodes - 1))
    return start, data.draw(st.integers(start + 1, n_nodes))


@often
@given(st.data(), st.sampled_from(["inference", "training"]))
def test_parts_make_the_whole(data: st.DataObject, phase: str) -> None:
    model = draw_network(data).model()
    found = scored(model, phase=phase)
    whole = totals(found)
    for name in COUNTS if phase == "inference" else PLAIN:
        assert getattr(whole, name) == sum(getattr(row, name) for row in found.layers), name
    for row in found.layers:
        has = {name: getattr(row, name) for name in COUNTS}
        classes = ("multiply_add_flop", "simple_flop", "function_flop")
        assert has["multiply_add_flop"] == 2 * has["macs"]
        assert has["work_flop"] == sum(has[name] for name in classes)
        assert has["traffic_bytes"] == has["read_bytes"] + has["write_bytes"]
        assert has["backward_flop"] + has["update_flop"] <= has["work_flop"]
        if phase == "inference":
            moved = has["fused_read_bytes"] + has["fused_write_bytes"]
            assert has["fused_traffic_bytes"] == moved
    stored = {tensor.name: 4 * prod(tensor.dims) for tensor in model.graph.initializer}
    weights = [size for name, size in stored.items() if name[0] in "ws"]
    assert whole.weight_bytes == sum(weights)
    assert sum(whole.by_precision.values()) == sum(whole.by_unit.values()) == whole.work_flop


@often
@given(st.data())
def test_fusing_and_caching_never_move_more(data: st.DataObject) -> None:
    model = draw_network(data).model()
    found = sums(model, cache_bytes=0)
    assert found["fused_traffic_bytes"] <= found["traffic_bytes"]
    assert found["in_place_peak_bytes"] <= found["peak_activation_bytes"]
    moved = [found["fused_traffic_bytes"]]
    for cache_bytes in (0, 100, 1000, 10_000, 10_000_000):
        moved.append(sums(model, cache_bytes=cache_bytes)["cached_traffic_bytes"])
    assert moved == sorted(moved, reverse=True)
    assert moved[0] == moved[1]  # no cache, no difference


@often
@given(st.data(), st.sampled_from(["inference", "training"]))
def test_work_and_activations_grow_with_the_batch_and_weights_do_not(
    data: st.DataObject, phase: str
) -> None:
    model = draw_network(data).model()
    one, two, three, four = (sums(model, dims={"batch": n}, phase=phase) for n in (1, 2, 3, 4))
    assert (four["parameters"], four["weight_bytes"]) == (one["parameters"], one["weight_bytes"])
    if phase == "inference":
        assert only(four, SCALING) == {name: 4 * one[name] for name in SCALING}
    names = [name for name in (PLAIN if phase == "training" else COUNTS) if name[:6] != "cached"]
    steps = {name: three[name] - two[name] for name in names}
    assert {name: two[name] - one[name] for name in names} == steps
    assert min(steps.values()) >= 0


@often
@given(st.data(), st.sampled_from(["inference", "training"]))
def test_names_and_hints_mean_nothing(data: st.DataObject, phase: str) -> None:
    net = draw_network(data)
    model, precision = net.model(), data.draw(st.sampled_from([None, "fp16"]))
    found = sums(model, phase=phase, precision=precision)
    for other in (renamed(model, " ?"), onnx.shape_inference.infer_shapes(model)):
        assert sums(other, phase=phase, precision=precision) == found
    assert sums(net.model(batch=2), phase=phase, precision=precision) == found


@often
@given(st.data(), st.integers(0, 99), st.sampled_from(["inference", "training"]))
def test_the_order_of_the_file_changes_no_sum(data: st.DataObject, seed: int, phase: str) -> None:
    model = draw_network(data).model()
    names = PLAIN if phase == "training" else (*PLAIN, "fused_traffic_bytes")
    other = reordered(model, seed)
    assert only(sums(other, phase=phase), names) == only(sums(model, phase=phase), names)


@often
@given(st.data(), st.sampled_from(["inference", "training"]))
def test_a_function_changes_nothing(data: st.DataObject, phase: str) -> None:
    model = draw_network(data).model()
    call = with_function(model, *draw_part(data, model))
    assert sums(call, phase=phase) == sums(model, phase=phase)


@often
@given(st.data(), st.booleans())
def test_a_choice_between_equals_changes_no_work(data: st.DataObject, known: bool) -> None:
    model = draw_network(data).model()
    choice = with_choice(model, *draw_part(data, model), known)
    names = ("macs", "work_flop", "parameters", "weight_bytes", "traffic_bytes")
    assert only(sums(choice), names) == only(sums(model), names)
    rows = scored(choice)
    inside = [row for row in rows.layers if row.scope]
    assert [row.work_flop for row in rows.alternatives] == [row.work_flop for row in inside]


@often
@given(st.data())
def test_weights_as_nodes_are_the_same_weights(data: st.DataObject) -> None:
    model = draw_network(data).model()
    names = (*PLAIN, *PEAKS, "fused_traffic_bytes")
    for phase in ("inference", "training"):
        found = sums(with_constants(model), phase=phase)
        assert only(found, names) == only(sums(model, phase=phase), names)


@often
@given(st.data())
def test_an_identity_moves_and_works_nothing(data: st.DataObject) -> None:
    model = draw_network(data).model()
    names = ("macs", "work_flop", "parameters", "weight_bytes", "traffic_bytes", *PEAKS[:2])
    assert only(sums(with_identities(model)), names) == only(sums(model), names)


@often
@given(st.data(), st.integers(0, 50))
def test_a_loop_is_its_body_so_many_times(data: st.DataObject, n_trips: int) -> None:
    model = draw_network(data).model()
    once, looped = sums(model), sums(in_loop(model, n_trips))
    for name in ("macs", "work_flop", "simple_flop", "function_flop", "traffic_bytes"):
        assert looped[name] == n_trips * once[name], name
    if n_trips:
        names = ("parameters", "weight_bytes")
        assert only(looped, names) == only(once, names)


@often
@given(st.data())
def test_two_networks_side_by_side_are_their_sum(data: st.DataObject) -> None:
    left = draw_network(data).model()
    right = renamed(draw_network(data).model(), " right")
    both = beside(left, right)
    for phase, names in (("inference", [*PLAIN, "fused_traffic_bytes"]), ("training", PLAIN)):
        alone = sums(left, phase=phase), sums(right, phase=phase)
        found = sums(both, phase=phase)
        assert only(found, names) == {name: alone[0][name] + alone[1][name] for name in names}


@often
@given(st.data())
def test_half_the_width_is_half_the_bytes_and_the_same_work(data: st.DataObject) -> None:
    model = draw_network(data).model()
    wide = sums(model, cache_bytes=2 * CACHE_BYTES)
    narrow = sums(model, precision="fp16", cache_bytes=CACHE_BYTES)
    # Integers that say how to reshape or slice keep their width.
    names = ("weight_bytes", "output_bytes", "write_bytes", *FUSED, *PEAKS)
    assert {name: 2 * narrow[name] for name in names} == only(wide, names)
    counts = [name for name in COUNTS if not name.endswith("_bytes")]
    assert only(narrow, counts) == only(wide, counts)


@often
@given(st.data())
def test_scores_do_not_know_what_was_scored_before(data: st.DataObject) -> None:
    source = with_constants(draw_network(data).model()).SerializeToString()
    loaded = load(source)
    cases: list[tuple[int, Phase, Precision | None]] = [
        (batch, phase, precision)
        for batch in (1, 8)
        for phase in get_args(Phase)
        for precision in (None, parse_precision("fp16"))
    ]
    for batch, phase, precision in data.draw(st.permutations(cases)):
        name = None if precision is None else precision.name
        fresh = score(source, batch=batch, phase=phase, precision=name)
        assert score_loaded(loaded, Settings(Given(batch=batch), precision, phase)) == fresh


@pytest.mark.parametrize("name", ZOO)
def test_a_real_network_obeys_too(name: str) -> None:
    model = build(name)
    found = sums(model)
    assert found["cached_traffic_bytes"] <= found["fused_traffic_bytes"] <= found["traffic_bytes"]
    assert found["in_place_peak_bytes"] <= found["peak_activation_bytes"]
    n_nodes = len(model.graph.node)
    part = with_function(model, n_nodes // 4, n_nodes // 2)
    for other in (renamed(model, " ?"), part):
        assert sums(other) == found
    assert only(sums(reordered(model, 7)), PLAIN) == only(found, PLAIN)
    looped = sums(in_loop(model, 3))
    for count in ("macs", "work_flop", "traffic_bytes", "fused_traffic_bytes"):
        assert looped[count] == 3 * found[count], count
    assert looped["parameters"] == found["parameters"]


@pytest.mark.parametrize("name", ["resnet18", "gpt2", "swin_t", "yolov8n", "bert_base"])
def test_computing_again_saves_memory_and_costs_up_to_a_forward_pass(name: str) -> None:
    model = build(name)
    forward, kept = sums(model), sums(model, phase="training")
    again = sums(model, phase="training", recompute=True)
    assert again["peak_activation_bytes"] < kept["peak_activation_bytes"]
    assert again["saved_bytes"] < kept["saved_bytes"]
    assert 0.5 * forward["macs"] < again["macs"] - kept["macs"] <= forward["macs"]


def test_a_part_that_is_returned_through_a_view_is_copied() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3,8] x) => (float[] y, float[] z) '
        "<int64[1] one = {1}, int64[1] two = {2}> "
        "{ a = Exp(x) s = Slice(a, one, two, one) y = Squeeze(s, one) z = Softmax(a) }"
    )
    found = sums(onnx.parser.parse_model(text))
    # Exp: reads 192, writes 192. Slice: reads 64 of 192, writes 64. Softmax: 192 and 192.
    assert found["fused_read_bytes"] == 192 + 64 + 192
    assert found["fused_write_bytes"] == 192 + 64 + 192
