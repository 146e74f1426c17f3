"""The cache-aware model: its law for one operator, and a network by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mansard.estimator.traffic import cached_traffic, effective_cache_bytes, fused_traffic
from tests.estimator.fusing import Fused, fuse_text
from tests.estimator.loops import softmax_loop

SIZES = st.integers(1, 10_000)
LINEAR = "y = MatMul(x, w)"


def total(fused: Fused, cache_bytes: int) -> int:
    return sum(cached_traffic(fused.fusion, cache_bytes).values())


def by_node(fused: Fused, cache_bytes: int) -> list[int]:
    return [moved for _, moved in sorted(cached_traffic(fused.fusion, cache_bytes).items())]


@given(rows=st.integers(1, 60), inner=st.integers(1, 60), columns=st.integers(1, 60), cache=SIZES)
def test_one_operator_writes_what_the_cache_does_not_hold(
    rows: int, inner: int, columns: int, cache: int
) -> None:
    fused = fuse_text(LINEAR, f"float[{rows},{inner}] x", f"float[{inner},{columns}] w")
    reads, writes = 4 * rows * inner, 4 * rows * columns
    # a single number is compiled into the kernel
    reads += 4 * inner * columns if inner * columns > 1 else 0
    assert total(fused, cache) == reads + max(0, writes - cache)


@given(elements=st.integers(1, 4000), cache=SIZES)
def test_one_activation_follows_the_same_law(elements: int, cache: int) -> None:
    fused = fuse_text("y = Relu(x)", f"float[{elements}] x")
    assert total(fused, cache) == 4 * elements + max(0, 4 * elements - cache)


CHAIN = "a = MaxPool<kernel_shape = [1]>(x) b = MaxPool<kernel_shape = [1]>(a) "
CHAIN += "y = MaxPool<kernel_shape = [1]>(b)"


def test_what_stays_is_neither_written_nor_read_again() -> None:
    fused = fuse_text(CHAIN, "float[1,1,100] x")  # 400 bytes each
    # room for all four: only x is read
    assert by_node(fused, 1600) == [400, 0, 0]
    # room for two: the third kernel pushes out x, which is clean, and a, which is not
    assert by_node(fused, 800) == [400, 0, 400]
    # room for one: each kernel's result stays and the one before it is written when
    # room is needed, which is when the next result is made
    assert by_node(fused, 400) == [400, 400, 400]
    # room for half: half of each result is written at once, half is read again, and the
    # half that stayed is written when the next result needs its place
    assert by_node(fused, 200) == [400 + 200, 200 + 200 + 200, 200 + 200 + 200]


def test_without_a_cache_everything_is_moved() -> None:
    fused = fuse_text(CHAIN, "float[1,1,100] x")
    moved = fused_traffic(fused.fusion)
    assert by_node(fused, 0) == [m.read_bytes + m.write_bytes for _, m in sorted(moved.items())]


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=6),
    cache=SIZES,
    more=st.integers(0, 999),
)
def test_a_larger_cache_never_moves_more(sizes: list[int], cache: int, more: int) -> None:
    rows = " ".join(f"t{i + 1} = MatMul(t{i}, w{i})" for i in range(len(sizes)))
    stored = ", ".join(
        f"float[{a},{b}] w{i}" for i, (a, b) in enumerate(zip([7, *sizes], sizes, strict=False))
    )
    last = f"t{len(sizes)}"
    fused = fuse_text(f"{rows} y = Softmax({last})", "float[3,7] t0", stored)
    fits = total(fused, cache + more)
    assert fits <= total(fused, cache) <= fused.total_bytes()


def test_shared_weights_are_read_again_only_if_they_left() -> None:
    text = "a = MatMul(x, w) y = MatMul(a, w)"
    fused = fuse_text(text, "float[1,100] x", "float[100,100] w")  # 40,000 and 400 bytes
    assert by_node(fused, 41_200) == [40_400, 0]
    # 19,600 bytes of w are there beside a; the rest is read again. y pushes out a, written.
    assert by_node(fused, 20_000) == [40_400, 20_400 + 400]


def test_a_loop_finds_what_its_last_iteration_left() -> None:
    fused = softmax_loop(5)
    # 400 bytes a state; the first iteration reads it, all others find it
    assert total(fused, 10_000) == 400
    # nothing stays: each of five iterations reads and writes it
    assert total(fused, 0) == 5 * 800


def test_half_of_an_l2_counts() -> None:
    assert effective_cache_bytes(40_000_000) == 20_000_000
