"""The batch of networks in which no dimension has its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.errors import MansardError, ModelError, UsageError
from mansard.estimator import score, totals
from mansard.estimator.model import NOTHING_GIVEN
from mansard.estimator.scoring import load
from mansard.estimator.shape_inference.dimensions import with_open_batch
from tests.estimator.models import text_model

_CONV = "<float[8,3,3,3] w, int64[1] z = {0}>"
_CASES = "cases/estimator"

# Networks whose first axis is no batch, and the words of the note that say what it is.
NO_BATCH = {
    "an image": (
        f"g (float[3,32,32] x) => (float[1,8,30,30] y) {_CONV} {{ u = Unsqueeze(x, z) "
        "y = Conv(u, w) }",
        "(3) may not be a batch: node 'y' (Conv) takes it as channels",
    ),
    "an image that comes out again": (
        "g (float[3,32,32] x) => (float[3,30,30] y) <float[3,3,3,3] w, int64[1] z = {0}> "
        "{ u = Unsqueeze(x, z) c = Conv(u, w) y = Squeeze(c, z) }",
        "node 'c' (Conv) takes it as channels",
    ),
    "an image that is reshaped": (
        "g (float[3,32,32] x) => (float[1,8,30,30] y) <float[8,3,3,3] w, "
        "int64[4] s = {1,3,32,32}> { u = Reshape(x, s) y = Conv(u, w) }",
        "takes it as channels",
    ),
    "an image less its mean": (
        "g (float[3,32,32] x) => (float[3,32,32] y) <float[3,1,1] m> { y = Sub(x, m) }",
        "node 'y' (Sub) has a constant for each element of it",
    ),
    "rows of an image": (
        f"g (float[32,32,3] x) => (float[1,8,30,30] y) {_CONV} {{ t = Transpose<perm=[2,0,1]>(x) "
        "u = Unsqueeze(t, z) y = Conv(u, w) }",
        "takes it as a place in an image or signal",
    ),
    "two images side by side": (
        "g (float[3,32,32] x, float[3,32,32] x2) => (float[1,8,30,30] y) "
        "<float[8,6,3,3] w, int64[1] z = {0}> "
        "{ c = Concat<axis=0>(x, x2) u = Unsqueeze(c, z) y = Conv(u, w) }",
        "node 'c' (Concat) changes its length",
    ),
    "frames of a film": (
        "g (float[16,3,32,32] x) => (float[1,8,14,30,30] y) "
        "<float[8,3,3,3,3] w, int64[1] z = {0}> "
        "{ t = Transpose<perm=[1,0,2,3]>(x) u = Unsqueeze(t, z) y = Conv(u, w) }",
        "takes it as a place in an image or signal",
    ),
    "points": (
        "g (float[1024,4] x) => (float[16] y) <float[4,16] w> "
        "{ h = MatMul(x, w) y = ReduceMax<axes=[0], keepdims=0>(h) }",
        "(1024) may not be a batch: node 'y' (ReduceMax) computes along it",
    ),
    "words that attend to each other": (
        "g (float[50,1,64] x) => (float[50,1,64] y) "
        "{ t = Transpose<perm=[1,0,2]>(x) k = Transpose<perm=[1,2,0]>(x) s = MatMul(t, k) "
        "p = Softmax<axis=-1>(s) o = MatMul(p, t) y = Transpose<perm=[1,0,2]>(o) }",
        "(50) may not be a batch: node 's' (MatMul) computes along it",
    ),
    "a signal": (
        "g (float[16000] x) => (float[1,8,15998] y) <float[8,1,3] w, int64[2] z = {0,1}> "
        "{ u = Unsqueeze(x, z) y = Conv(u, w) }",
        "takes it as a place in an image or signal",
    ),
    "words without a batch": (
        "g (int64[77] x) => (float[77,16] y) <float[100,16] w> { y = Gather(w, x) }",
        "it is the only dimension",
    ),
    "queries and keys": (
        "g (float[8,16] x, float[5,16] k) => (float[8,5] y) "
        "{ t = Transpose<perm=[1,0]>(k) y = MatMul(x, t) }",
        "input 'k' begins with another dimension",
    ),
    "classes that are compared": (
        "g (float[9,4] x) => (float[9,4] y) { y = Softmax<axis=0>(x) }",
        "node 'y' (Softmax) computes along it",
    ),
}


@pytest.mark.parametrize("name", NO_BATCH)
def test_a_first_axis_that_is_no_batch_counts_as_one_item(name: str) -> None:
    text, words = NO_BATCH[name]
    data = text_model(text)
    found = score(data)
    assert found.batch == 1
    assert found.notes[-1].startswith("counted as batch 1: the first dimension of 'x'")
    assert words in found.notes[-1]
    # what recommend and measure print says --batch 1: it means the file as it is
    assert score(data, batch=1) == found
    with pytest.raises(UsageError, match=r"is not a batch: .*; leave out --batch"):
        score(data, batch=4)


def test_steps_of_a_recurrent_layer_are_no_batch() -> None:
    data = text_model(
        "g (float[50,1,64] x) => (float[a,b,c,d] y) <float[1,32,64] w, float[1,32,8] r> "
        "{ y = LSTM<hidden_size=8>(x, w, r) }"
    )
    assert score(data).batch == score(data, batch=1).batch == 1


def test_named_nodes_of_a_graph_are_no_batch() -> None:
    data = text_model(
        "g (float[num_nodes,3] x, int64[2,n_edges] e) => (float[num_nodes,7] y) <float[3,7] w> "
        "{ y = MatMul(x, w) }"
    )
    with pytest.raises(ModelError, match="pass --dim 'num_nodes=N'"):
        score(data)
    found = score(data, dims={"num_nodes": 6})
    assert found.batch == 1
    assert "its name is 'num_nodes'" in found.notes[-1]
    with pytest.raises(UsageError, match="its name is 'num_nodes', and must be given"):
        score(data, batch=4)
    # recommend and measure take an open batch as 1, but not the nodes of a graph
    assert with_open_batch(load(data).model, NOTHING_GIVEN).batch is None


# Networks that do have a batch: the sizes with nothing given and with --batch 4.
BATCHES = {
    "rows of features": (
        "g (float[8,16] x) => (float[8,5] y) <float[16,5] w> { y = MatMul(x, w) }",
        (8, 4),
    ),
    "images, and boxes that come out": (
        "g (float[8,3,32,32] x) => (float[n,4] y) <float[8,3,3,3] w, int64[2] s = {-1,4}> "
        "{ c = Conv(x, w) y = Reshape(c, s) }",
        (8, 4),
    ),
    "images whose channels come last": (
        "g (float[8,32,32,3] x) => (float[8,8,30,30] y) <float[8,3,3,3] w> "
        "{ t = Transpose<perm=[0,3,1,2]>(x) y = Conv(t, w) }",
        (8, 4),
    ),
    "a fixed one of 1": (
        "g (float[1,1000] x) => (float[1,10] y) <float[1000,10] w> { y = Gemm(x, w) }",
        (1, 4),
    ),
    "words that attend to each other": (
        "g (float[8,5,64] x) => (float[8,5,64] y) { k = Transpose<perm=[0,2,1]>(x) "
        "s = MatMul(x, k) p = Softmax<axis=-1>(s) y = MatMul(p, x) }",
        (8, 4),
    ),
    "sequences behind the steps": (
        "g (float[8,50,64] x) => (float[a,b,c,d] y) <float[1,32,64] w, float[1,32,8] r> "
        "{ t = Transpose<perm=[1,0,2]>(x) y = LSTM<hidden_size=8>(t, w, r) }",
        (8, 4),
    ),
    "an image and its size": (
        "g (float[8,3,32,32] x, float[2] size) => (float[8,8,30,30] y, float[2] s) "
        "<float[8,3,3,3] w> { y = Conv(x, w) s = Relu(size) }",
        (8, 4),
    ),
    "the size of an image in front of it": (
        "g (float[2] size, float[8,3,32,32] x) => (float[8,8,30,30] y, float[2] s) "
        "<float[8,3,3,3] w> { y = Conv(x, w) s = Relu(size) }",
        (8, 4),
    ),
    "rows and the weights of their columns": (
        "g (float[8,16] x, float[16] k) => (float[8,16] y) { y = Mul(x, k) }",
        (8, 4),
    ),
    "images and texts that are compared with one another": (
        "g (float[8,3,32,32] x, float[8,77] t) => (float[8,8] y) "
        "<float[16,3,32,32] w, float[77,16] v> { c = Conv(x, w) f = Flatten(c) e = MatMul(t, v) "
        "k = Transpose<perm=[1,0]>(e) y = MatMul(f, k) }",
        (8, 4),
    ),
    "two inputs of one batch": (
        "g (float[8,4] x, float[8,4] z) => (float[8,4] y) { y = Add(x, z) }",
        (8, 4),
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_first_axis_that_is_the_batch(name: str) -> None:
    text, (own, given) = BATCHES[name]
    data = text_model(text)
    assert score(data).batch == own
    assert score(data, batch=4).batch == given


# Frames and crops of one item: a convolution takes each alone, and then they become one.
JOINED = {
    "the mean of frames": (
        "g (float[16,3,32,32] x) => (float[10] y) <float[8,3,3,3] w, float[8,10] v> "
        "{ c = Conv(x, w) p = GlobalAveragePool(c) f = Flatten(p) "
        "m = ReduceMean<axes=[0], keepdims=0>(f) y = MatMul(m, v) }",
        "node 'm' (ReduceMean) computes along it",
    ),
    "frames that become a signal": (
        "g (float[16,3,32,32] x) => (float[1,4,14] y) "
        "<float[8,3,3,3] w, float[4,8,3] v, int64[1] z = {0}> "
        "{ c = Conv(x, w) p = GlobalAveragePool(c) f = Flatten(p) t = Transpose<perm=[1,0]>(f) "
        "u = Unsqueeze(t, z) y = Conv(u, v) }",
        "node 'y' (Conv) takes it as a place in an image or signal",
    ),
    "a pair of images": (
        "g (float[2,3,32,32] x) => (float[1] y) <float[8,3,32,32] w, int64 i = {0}, int64 j = {1}> "
        "{ c = Conv(x, w) f = Flatten(c) a = Gather<axis=0>(f, i) b = Gather<axis=0>(f, j) "
        "d = Sub(a, b) y = ReduceSum<keepdims=1>(d) }",
        "node 'a' (Gather) picks elements along it",
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_images_that_become_one_item(name: str) -> None:
    text, words = JOINED[name]
    found = score(text_model(text))
    assert found.batch == 1
    assert words in found.notes[-1]


_CLOUD = (
    "g (float[{name},3] x) => (float[16] y) <float[3,16] w> "
    "{{ h = MatMul(x, w) y = ReduceMax<axes=[0], keepdims=0>(h) }}"
)


def test_a_short_name_may_be_that_of_points() -> None:
    data = text_model(_CLOUD.format(name="N"))
    with pytest.raises(ModelError, match=r"pass --dim 'N=N'$"):
        score(data)
    with pytest.raises(UsageError, match=r"\(ReduceMax\) computes along it, and must be given"):
        score(data, batch=1)
    found = score(data, dims={"N": 6})
    # 6 points of 3 x 16 products; one cloud
    assert (found.batch, totals(found).macs) == (1, 6 * 48)
    assert "computes along it" in found.notes[-1]
    # a name that means nothing else is believed
    assert score(text_model(_CLOUD.format(name="batch")), batch=6).batch == 6
    rows = text_model("g (float[N,16] x) => (float[N,5] y) <float[16,5] w> { y = MatMul(x, w) }")
    assert score(rows, dims={"N": 6}).batch == 6
    assert score(rows, dims={"N": 6}).notes == ()


def test_an_output_names_the_batch() -> None:
    text = "g (float[{first},16] x) => (float[batch,5] y) <float[16,5] w> {{ y = MatMul(x, w) }}"
    assert score(text_model(text.format(first="a")), dims={"a": 6}).batch == 6
    assert score(text_model(text.format(first="8"))).notes == ()
    with pytest.raises(ModelError, match=r"pass --batch 1$"):
        score(text_model(text.format(first="a")))


def test_a_batch_without_a_name_is_told() -> None:
    text, _ = BATCHES["rows of features"]
    assert score(text_model(text)).notes == (
        "the batch is taken to be 8: the first dimension of 'x', which the outputs share, "
        "has no name",
    )
    # an operator that defines the batch leaves no doubt
    text, _ = BATCHES["images whose channels come last"]
    assert score(text_model(text)).notes == ()


def test_names_of_tf2onnx_are_the_batch_in_front_of_all_inputs() -> None:
    text = (
        "g (float[unk__1,{size},32,32] x, float[{other},4] z) => (float[unk__3,8,30,30] y, "
        "float[a,b] v) <float[8,3,3,3] w> {{ y = Conv(x, w) v = Relu(z) }}"
    )
    data = text_model(text.format(size=3, other="unk__2"))
    with pytest.raises(ModelError, match=r"pass --batch 1$"):
        score(data)
    found = score(data, batch=4)
    assert found.batch == 4
    # 4 images of 30 x 30 x 8 sums of 27 products; 4 x 4 elements
    assert totals(found).macs == 4 * 30 * 30 * 8 * 27
    assert found.layers[-1].work_flop == 16
    assert with_open_batch(load(data).model, NOTHING_GIVEN, is_guessed_too=False).batch == 1


def test_an_open_first_axis_that_is_no_batch_is_asked_for() -> None:
    data = text_model(
        'g (float["?",4] x) => (float[16] y) <float[4,16] w> '
        "{ h = MatMul(x, w) y = ReduceMax<axes=[0], keepdims=0>(h) }"
    )
    with pytest.raises(UsageError, match=r"and must be given; pass --dim 'x\[0\]=N'$"):
        score(data, batch=1)
    assert totals(score(data, dims={"x[0]": 6})).macs == 6 * 4 * 16


def test_a_batch_that_two_inputs_have_in_other_places() -> None:
    # the state's batch is its second axis, and given by its place
    data = text_model(
        'g (float["?","?",4] x, float[1,"?",8] h) => (float[a,b,c,d] y) '
        "<float[1,32,4] w, float[1,32,8] r> { t = Transpose<perm=[1,0,2]>(x) "
        'y = LSTM<hidden_size=8>(t, w, r, "", "", h) }'
    )
    found = score(data, batch=1, dims={"x[1]": 9, "h[1]": 1})
    assert (found.batch, totals(found).macs) == (1, 9 * 32 * 12)


@pytest.mark.shared_data
def test_the_cases_of_the_batch(shared_data: Path) -> None:
    image = score(shared_data / _CASES / "unbatched_image_is_batch3/chw.onnx")
    assert image.batch == 1
    assert "takes it as channels" in image.notes[-1]
    states = shared_data / _CASES / "silero_hint_batch/two_open_batches.onnx"
    dims = {"x[1]": 512, "state[1]": 1}
    given = score(states, batch=1, dims=dims)
    assert totals(given) == totals(score(states, dims={**dims, "x[0]": 1}))
    with pytest.raises(MansardError):
        score(states, batch=2, dims=dims)
