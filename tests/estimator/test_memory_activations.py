"""Peak memory by hand, and against a naive count of what is alive at each node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mansard.estimator.memory import Memory, memory_of
from tests.estimator.fusing import Fused, fuse_text
from tests.estimator.loops import softmax_loop


def memory(fused: Fused) -> Memory:
    return memory_of(fused.nodes, fused.inputs, fused.outputs, fused.fusion, None)


def test_a_chain_holds_its_input_and_two_tensors() -> None:
    found = memory(fuse_text("a = Softmax(x) b = Softmax(a) y = Softmax(b)", "float[10,10] x"))
    # x stays; a and b, then b and y
    assert found.peak_activation_bytes == 1200
    assert found.fused_peak_bytes == 1200
    assert found.kv_cache_bytes == 0


def test_a_pointwise_operator_takes_over_what_nothing_reads_any_more() -> None:
    found = memory(fuse_text("a = Softmax(x) b = Relu(a) y = Exp(b)", "float[10,10] x"))
    assert found.peak_activation_bytes == 1200
    # x, and one tensor that changes in place; fused it is one kernel
    assert found.in_place_peak_bytes == 800
    assert found.fused_peak_bytes == 800


def test_the_networks_own_input_is_not_overwritten() -> None:
    found = memory(fuse_text("y = Relu(x)", "float[10,10] x"))
    assert found.in_place_peak_bytes == 800


def test_a_residual_is_alive_until_it_is_added() -> None:
    found = memory(
        fuse_text("a = Softmax(x) b = Softmax(a) c = Softmax(b) y = Add(a, c)", "float[100] x")
    )
    # x, a, b and c while c is made; then x, a, c and y
    assert found.peak_activation_bytes == 1600
    assert found.in_place_peak_bytes == 1600


def test_views_take_no_memory_but_keep_their_source() -> None:
    found = memory(
        fuse_text(
            "a = Softmax(x) n = Constant<value_ints = [100]>() v = Reshape(a, n) "
            "b = Softmax(a) c = Concat<axis = 0>(v, v) y = Neg(c)",
            "float[10,10] x",
        )
    )
    # x, a (through v) and b, which is read by nobody and gone at once; then x, a, c; x, c, y
    assert found.peak_activation_bytes == 400 + 800 + 800


def test_what_a_loop_makes_comes_on_top() -> None:
    found = memory(softmax_loop(3))
    # x 400, the loop's result 400, and the state that an iteration makes 400
    assert found.peak_activation_bytes == 1200


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["Add", "Mul"])),
        min_size=1,
        max_size=10,
    )
)
def test_the_peak_is_the_largest_sum_of_living_tensors(
    steps: list[tuple[int, int, str]],
) -> None:
    names, body, read = ["x"], [], {}
    for place, (one, other, op_type) in enumerate(steps):
        sources = names[-1 - one % len(names)], names[-1 - other % len(names)]
        read.update(dict.fromkeys(sources, place))
        names.append("y" if place == len(steps) - 1 else f"t{place}")
        body.append(f"{names[-1]} = {op_type}({sources[0]}, {sources[1]})")
    found = memory(fuse_text(" ".join(body), "float[25] x"))
    peak = 0
    for place in range(len(steps)):
        alive = {"x", names[place + 1]}
        alive |= {name for name in names[1 : place + 1] if read.get(name, -1) >= place}
        peak = max(peak, 100 * len(alive))
    assert found.peak_activation_bytes == peak
    assert found.in_place_peak_bytes is not None
    assert found.in_place_peak_bytes <= peak


def test_a_decoders_cache_is_what_it_returns_for_its_next_token() -> None:
    text = (
        "present_key = Concat<axis = 1>(past_key, k) "
        "present_value = Concat<axis = 1>(past_value, k) "
        "s = Add(present_key, present_value) y = Softmax(s)"
    )
    given_inputs = "float[1,7,8] past_key, float[1,7,8] past_value, float[1,1,8] k"
    fused = fuse_text(text, given_inputs)
    kept = Fused(fused.nodes, fused.inputs, ("y", "present_key", "present_value"), fused.fusion)
    # 8 tokens of 8 floats, keys and values
    assert memory(kept).kv_cache_bytes == 2 * 8 * 8 * 4
    assert memory(fused).kv_cache_bytes == 0
