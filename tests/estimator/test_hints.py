"""Every hint that a message prints, followed once, leads to a score: over all fixtures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

from mansard.core.errors import ModelError
from mansard.estimator import score, totals, zoo
from tests.estimator.hints import Command, dead_ends, refusal, ways
from tests.estimator.models import single_model, text_model
from tests.estimator.node_cases import node_models
from tests.estimator.test_advice import NETWORKS
from tests.estimator.test_batch_axis import BATCHES, JOINED, NO_BATCH

_CASES = "cases/estimator"
_HEAD = "g (float[4,6] x) => (float[a] y, float[b,c] z)"

# Where the file holds no one number that fits: the rank of a matrix and of a volume that a list
# decides, and parts whose sum is another dimension.
_NOT_ONE_NUMBER = {
    "test_affine_grid_2d_expanded",
    "test_affine_grid_2d_align_corners_expanded",
    "test_split_to_sequence_2",
}


def opened(model: onnx.ModelProto) -> tuple[bytes, dict[str, int]]:
    """``model`` with a name for the first dimension of each input, and their true sizes."""
    proto = onnx.ModelProto.FromString(model.SerializeToString())
    known: dict[str, int] = {}
    for source in proto.graph.input:
        for size in source.type.tensor_type.shape.dim[:1]:
            name = f"dim_{len(known)}"
            known[name] = size.dim_value
            size.dim_param = name
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        for size in output.type.tensor_type.shape.dim:
            size.Clear()
    return proto.SerializeToString(), known


# Networks of which the command asks for something; a batch that has its name is 1 there.
_ASKED = sorted(NETWORKS.keys() - {"the batch", "the batch of an LSTM"})


@pytest.mark.parametrize("name", _ASKED)
def test_hints_on_small_networks(name: str, tmp_path: Path) -> None:
    data, given, _ = NETWORKS[name]
    assert not given
    assert refusal(data) is not None
    assert not [*dead_ends(data, refuse=Command(tmp_path))]


@pytest.mark.parametrize("name", [*BATCHES, *JOINED, *NO_BATCH])
def test_hints_on_networks_without_the_name_of_a_batch(name: str, tmp_path: Path) -> None:
    text, _ = {**BATCHES, **JOINED, **NO_BATCH}[name]
    data = text_model(re.sub(r"(g \(\w+\[)\d+", r'\1"?"', text, count=1))
    assert not [*dead_ends(data, refuse=Command(tmp_path))]


@pytest.mark.parametrize("name", zoo.names())
def test_hints_on_the_zoo(name: str) -> None:
    assert not [*dead_ends(zoo.read(name))]


def test_hints_on_every_operator() -> None:
    found = {
        name: text
        for name, proto in node_models().items()
        for text in dead_ends(proto.SerializeToString())
    }
    assert not found


def test_hints_on_every_operator_with_an_open_dimension() -> None:
    hints: list[str] = []

    def refuse(source: bytes | Path, options: Sequence[str]) -> str | None:
        message = refusal(source, options)
        if message is not None and not options:
            hints.append(message)
        return message

    found: list[str] = []
    for name, proto in node_models().items():
        if name not in _NOT_ONE_NUMBER:
            found += dead_ends(*opened(proto), refuse)
    assert not found
    assert len(hints) > 1000


@pytest.mark.shared_data
def test_hints_on_the_cases(shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / _CASES).rglob("*.onnx"))
    assert len(files) >= 10
    command = Command(tmp_path)
    assert not {path.name: text for path in files for text in dead_ends(path, refuse=command)}


# Files whose notes of shapes (value_info) repeat an open size behind its source.
_BEHIND = (
    "g (float[4,6] x) => (float[a,8] y, float[e] z) "
    "<float zero = {0}, float[2,8] w, float[1] one = {1}, "
    "bool[4,6] b, int64[2,u0] p, int64[u0,2] t, float[u0,2] f, int64[2] sh> "
    "{ b = Greater(x, zero) p = NonZero(b) t = Transpose(p) f = Cast<to=1>(t) y = MatMul(f, w) "
    "sh = Shape(t) z = Expand(one, sh) }"
)


def noted() -> bytes:
    """The graph above with its notes of shapes, which a text keeps for tensors that are written."""
    data = onnx.ModelProto.FromString(text_model(_BEHIND))
    assert {each.name for each in data.graph.value_info} >= {"p", "t", "f", "sh"}
    written: bytes = data.SerializeToString()
    return written


def test_only_the_source_of_an_open_size_is_asked_for() -> None:
    message = refusal(noted())
    assert message is not None
    assert "(NonZero): dimension 'p[1]' of what it writes depends on data: pass --dim" in message
    assert len(ways(message)) == 2
    assert "'t[0]'" not in message
    assert "'z[0]'" not in message
    assert "--upper-bounds to count at most 24" in message
    assert not [*dead_ends(noted())]


@pytest.mark.parametrize("name", ["p[1]", "u0", "NonZero:*", "*p*"])
def test_an_open_size_by_its_place_its_name_or_a_pattern(name: str) -> None:
    # 20 rows of 2 times 2 x 8
    assert totals(score(noted(), dims={name: 20})).macs == 20 * 2 * 8


def test_many_open_sizes_of_one_operator_have_a_pattern() -> None:
    steps = " ".join(f"p{i} = NonZero(x)" for i in range(9))
    names = ", ".join(f"p{i}" for i in range(9))
    data = text_model(
        f"g (float[2,3] x) => (int64[a,b] y) {{ {steps} y = Concat<axis=1>({names}) }}"
    )
    message = refusal(data)
    assert message is not None
    assert "pass --dim 'NonZero:*=N', or --upper-bounds, or score" in message
    assert not [*dead_ends(data)]


def test_an_integer_input_that_decides_lengths_is_named() -> None:
    # y has as many elements as the counts say in all: 5 + 6 + 7
    data = text_model(
        "g (int64[3] counts, float[1] x) => (float[a] y) <int64 zero = {0}, int64 one = {1}> "
        "{ n = ReduceSum<keepdims=0>(counts) r = Range(zero, n, one) f = Cast<to=1>(r) "
        "y = Mul(f, x) }"
    )
    message = refusal(data)
    assert message is not None
    assert "pass --value 'counts=1', or --dim 'r[0]=N'" in message
    assert not [*dead_ends(data)]
    assert totals(score(data, values={"counts": (5, 6, 7)})).work_flop == 18


def test_a_float_input_is_no_value() -> None:
    message = refusal(text_model("g (float[2,3] x) => (int64[2,a] y) { y = NonZero(x) }"))
    assert message is not None
    assert "--value" not in message


def test_what_is_open_behind_dimensions_of_inputs_is_asked_for_with_them() -> None:
    data = text_model(
        "g (float[batch,width] x) => (float[a,8] y) <float[2,8] w> "
        "{ p = NonZero(x) t = Transpose(p) f = Cast<to=1>(t) y = MatMul(f, w) }"
    )
    message = refusal(data)
    assert message is not None
    assert "then sizes that depend on data: 'p[1]' (NonZero)" in message
    assert message.endswith("pass --dim 'width=N' --dim 'p[1]=N'")  # the batch has its name
    assert not [*dead_ends(data)]


def test_sizes_that_come_to_light_one_behind_another() -> None:
    data = text_model(
        "g (float[2,3] x) => (int64[a,b] y) { p = NonZero(x) f = Cast<to=1>(p) y = NonZero(f) }"
    )
    message = refusal(data)
    assert message is not None
    assert "pass --dim 'p[1]=N' --dim 'y[1]=N'" in message
    assert not [*dead_ends(data)]


def test_a_size_that_fits_no_number_keeps_its_message() -> None:
    # 5 rows cannot be 4 rows, whatever the open width is
    data = text_model("g (float[5,n] x, float[4,n] z) => (float[a,b] y) { y = Add(x, z) }")
    with pytest.raises(ModelError, match="1 dimension"):
        score(data)


@pytest.mark.shared_data
def test_the_cases_of_hints(shared_data: Path) -> None:
    folder = shared_data / _CASES
    for name in ("nonzero_with_value_info", "nonzero_named_u0", "nonzero_without_value_info"):
        path = folder / f"derived_dims_hint/{name}.onnx"
        message = refusal(path)
        assert message is not None
        assert "pass --dim 'nz[1]=N', or --upper-bounds to count at most 256" in message
        # 20 rows of 2 times 2 x 32
        assert totals(score(path, dims={"NonZero:*": 20})).macs == 20 * 2 * 32
    named = folder / "derived_dims_hint/nonzero_named_u0.onnx"
    assert totals(score(named, dims={"u0": 20})).macs == 20 * 2 * 32
    counts = folder / "value_hint_missing/po.man.onnx"
    message = refusal(counts, ("--batch", "3"))
    assert message is not None
    assert "pass --value 'chPhCounts=1'" in message
    followed = score(counts, batch=3, values={"chPhCounts": 1})
    assert totals(followed) == totals(
        score(counts, dims={"N": 3}, values={"chPhCounts": (1, 1, 1)})
    )


REFUSED = [
    ("com.microsoft", "BeamSearch"),
    ("com.microsoft", "EPContext"),
    ("org.pytorch.aten", "ATen"),
    ("ai.onnx.preview.training", "Gradient"),
]


@pytest.mark.parametrize(("domain", "op_type"), REFUSED)
def test_an_operator_that_cannot_be_scored_is_left_out_visibly(domain: str, op_type: str) -> None:
    data = single_model(op_type, ["float[2,3]"], domain=domain).SerializeToString()
    message = refusal(data)
    assert message is not None
    assert message.count(f"({op_type})") == 1
    assert not [*dead_ends(data)]
    found = score(data, shapes={"y": (2, 3)}, allow_unknown=True)
    assert found.layers[0].work_flop is None
    with pytest.raises(ModelError):
        score(data, shapes={"y": (2, 3)})


def test_all_sizes_of_0_are_asked_for_at_once() -> None:
    data = text_model("g (float[3,0] x, float[3,0] z) => (float[3,a] y) { y = Add(x, z) }")
    message = refusal(data)
    assert message is not None
    assert message.endswith("pass --dim 'x[1]=N' --dim 'z[1]=N', with N = 0 if that is meant")
    assert not [*dead_ends(data)]
    # 3 x 5 sums
    assert totals(score(data, dims={"x[1]": 5, "z[1]": 5})).work_flop == 15
