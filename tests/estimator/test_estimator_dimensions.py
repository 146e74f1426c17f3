"""Batches and named dimensions: set, missing, guessed, baked in."""

from __future__ import annotations

import pytest
from onnx import parser

from mansard.core.errors import ModelError, UsageError
from mansard.core.records import ModelScore
from mansard.estimator import Settings, load, score, score_loaded, totals
from mansard.estimator.model import Given
from tests.estimator.models import model


def macs(found: ModelScore) -> int | None:
    return totals(found).macs


def test_a_named_batch_is_set_everywhere_it_stands() -> None:
    # the sequence comes first, the batch second
    data = model("y = MatMul(x, w)", "float[seq,batch,4] x, float[4,3] w")
    found = score(data, batch=5, dims={"seq": 7})
    assert macs(found) == 7 * 5 * 4 * 3
    assert found.batch == 5
    assert found.dimensions == {"seq": 7, "batch": 5}


def test_the_first_dimension_is_the_batch_where_none_is_named_so() -> None:
    data = model("y = MatMul(x, w)", "float[s0,9,4] x, float[4,3] w")
    found = score(data, batch=5)
    assert macs(found) == 5 * 9 * 4 * 3
    assert found.dimensions == {"s0": 5}


def test_a_batch_can_be_given_by_its_name() -> None:
    data = model("y = MatMul(x, w)", "float[batch,4] x, float[4,3] w")
    assert score(data, dims={"batch": 5}).batch == 5


def test_inputs_that_do_not_start_alike_keep_their_size() -> None:
    data = model("y = MatMul(x, w)", "float[1,9,4] x, float[4,3] w")
    assert macs(score(data, batch=5)) == 5 * 9 * 4 * 3


def test_every_missing_dimension_is_named_with_the_node_that_needs_it() -> None:
    data = model(
        "h = Relu(x) z = MatMul(h, w) y = Add(z, b)", "float[batch,k] x, float[k,m] w, float[m] b"
    )
    with pytest.raises(ModelError) as caught:
        score(data)
    text = str(caught.value)
    assert "3 dimension(s) must be given" in text
    assert "'batch' (dimension 0 of input 'x', first needed by node 'h' (Relu))" in text
    assert "'m' (dimension 1 of input 'w', first needed by node 'z' (MatMul))" in text
    assert "pass --batch 1 --dim 'k=N' --dim 'm=N'" in text


def test_a_dimension_without_a_name_is_called_by_its_place() -> None:
    data = model("y = Relu(x)", "float[2,?] x")
    with pytest.raises(ModelError, match=r"'x\[1\]'"):
        score(data)
    assert totals(score(data, dims={"x[1]": 6})).output_bytes == 48


def test_an_input_nobody_reads_needs_no_size() -> None:
    data = model("y = Relu(x)", "float[2] x, float[anything] unused")
    assert totals(score(data)).work_flop == 2


def test_a_fixed_dimension_can_be_set_by_its_place() -> None:
    data = model("y = Relu(x)", "float[2,3] x")
    assert totals(score(data, dims={"x[1]": 6})).work_flop == 12


def test_names_that_do_not_exist() -> None:
    data = model("y = Relu(x)", "float[batch,3] x")
    with pytest.raises(UsageError, match="no dimension named 'sequence'; it has batch"):
        score(data, batch=1, dims={"sequence": 3})


@pytest.mark.parametrize("batch", [0, -1, 2**63])
def test_batches_that_cannot_be(batch: int) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        score(model("y = Relu(x)", "float[batch,3] x"), batch=batch)


def test_unknown_phase_and_precision() -> None:
    data = model("y = Relu(x)", "float[2] x")
    with pytest.raises(UsageError, match="unknown phase 'sleeping'"):
        score(data, phase="sleeping")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown precision 'fp12'"):
        score(data, precision="fp12")


def test_a_reshape_that_contradicts_the_batch() -> None:
    data = model("y = Reshape(x, s)", "float[2,3,4] x", "int64[2] s = {2, 12}")
    assert totals(score(data)).traffic_bytes == 0
    with pytest.raises(ModelError, match=r"cannot reshape \[6, 3, 4\] to \[2, 12\]"):
        score(data, batch=6)


def test_a_reshape_that_hides_the_batch_in_the_sequence() -> None:
    # [8, 16, 32] becomes [1, 128, 32]: element counts agree, attention would be 8 times too large
    body = "r = Reshape(x, s) t = Transpose<perm=[0,2,1]>(r) y = MatMul(r, t)"
    data = model(body, "float[1,16,32] x", "int64[3] s = {1, -1, 32}")
    assert macs(score(data)) == 16 * 16 * 32
    with pytest.raises(ModelError, match="the batch is baked in"):
        score(data, batch=8)


def test_a_constant_for_each_element_is_for_no_items() -> None:
    # the stored [2, 3, 4] holds another number for each of the two: they are no items
    data = model("z = Add(x, c) y = Relu(z)", "float[2,3,4] x", "float[2,3,4] c")
    assert totals(score(data)).work_flop == 48
    found = score(data, batch=1)
    assert (found.batch, totals(found).work_flop) == (1, 48)
    assert "node 'z' (Add) has a constant for each element of it" in found.notes[-1]
    with pytest.raises(UsageError, match=r"is not a batch.*leave out --batch"):
        score(data, batch=4)


def test_a_constant_that_spreads_a_batch_of_one() -> None:
    # the stored [2, 3, 4] turns a batch of 1 into 2 by broadcasting
    data = model("z = Add(x, c) y = Relu(z)", "float[batch,3,4] x", "float[2,3,4] c")
    with pytest.raises(ModelError, match="the batch is baked in"):
        score(data, batch=1)
    with pytest.raises(ModelError, match="do not go together"):
        score(data, batch=4)


def test_a_reshape_that_merges_batch_and_sequence_is_fine() -> None:
    data = model(
        "r = Reshape(x, s) y = MatMul(r, w)",
        "float[1,16,32] x, float[32,5] w",
        "int64[2] s = {-1, 32}",
    )
    assert macs(score(data, batch=8)) == 8 * 16 * 32 * 5


def test_a_first_dimension_that_is_the_sequence() -> None:
    data = model(
        "y = LSTM<hidden_size=8>(x, w, r)", "float[5,3,10] x", "float[1,32,10] w, float[1,32,8] r"
    )
    assert score(data).batch == 3
    with pytest.raises(UsageError, match=r"takes it as steps of a sequence.*--dim 'x\[1\]=N'"):
        score(data, batch=1)
    assert macs(score(data, dims={"x[1]": 6})) == 5 * 6 * 32 * 18


def test_one_load_serves_many_batches() -> None:
    loaded = load(model("y = MatMul(x, w)", "float[batch,4] x, float[4,3] w"), "net")
    found = [score_loaded(loaded, Settings(Given(batch=batch))) for batch in (1, 2, 64)]
    assert [macs(item) for item in found] == [12, 24, 768]
    assert {item.model for item in found} == {"net"}
    assert len({item.model_hash for item in found}) == 1


@pytest.mark.parametrize("name", ["batch", "N", "batch_size", "BatchSize", "input_batch", "bs"])
def test_names_that_mean_the_batch(name: str) -> None:
    data = model("y = MatMul(x, w)", f"float[seq,{name},4] x, float[4,3] w")
    assert macs(score(data, batch=5, dims={"seq": 7})) == 7 * 5 * 12


def test_a_letter_is_no_batch_where_one_is_spelled_out() -> None:
    data = model("y = MatMul(x, w)", "float[n,batch,4] x, float[4,3] w")
    with pytest.raises(ModelError, match=r"1 dimension\(s\) must be given: 'n'"):
        score(data, batch=5)


def test_a_batch_that_is_baked_into_a_branch() -> None:
    # as above, within the graph of an If whose condition the shape decides
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,16,32] x) => (float[a,b,c] y)
        <int64[3] s = {1, -1, 32}, int64[1] width = {32}> {
        w = Shape<start=2, end=3>(x)
        c = Equal(w, width)
        y = If(c) <
            then_branch = t () => (float[k,l,m] p) {
                r = Reshape(x, s) v = Transpose<perm=[0,2,1]>(r) p = MatMul(r, v) },
            else_branch = e () => (float[k,l,m] q) { q = Relu(x) }
        > }"""
    data = parser.parse_model(text).SerializeToString()
    assert macs(score(data)) == 16 * 16 * 32
    with pytest.raises(ModelError, match=r"node 'r' \(Reshape\): the batch is baked in"):
        score(data, batch=8)
