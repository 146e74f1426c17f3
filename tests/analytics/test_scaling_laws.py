"""Each law by hand, and which laws a board's modes can tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.scaling.board import (
    GPU,
    MEMORY,
    N_FOLDS,
    ONE,
    SMS_GPU,
    candidates,
    choose,
    folds,
    usable,
)
from mansard.analytics.models.scaling.laws import (
    CLOCKS,
    Array,
    Columns,
    Law,
    Least,
    Monomial,
    Sum,
    columns_of,
    is_outside,
    parts_of,
    varied_columns,
)
from tests.analytics.model_factory import board_modes


def clocks(**known: list[float]) -> Columns:
    n_modes = len(next(iter(known.values())))
    return {name: np.array(known.get(name, [np.nan] * n_modes)) for name in CLOCKS}


def predicted(law: Law, columns: Columns, values: list[float], at: Columns) -> Array:
    fitted = law.fit(parts_of(law, columns), np.array(values))
    assert fitted is not None
    return fitted.predict(parts_of(law, at))[0]


def test_a_monomial_is_a_product_of_powers() -> None:
    columns = clocks(n_sms=[8, 16], gpu_hz=[3.0, 2.0])
    # 8 · 3² = 72, 16 · 2² = 64.
    np.testing.assert_array_equal(Monomial((("n_sms", 1), ("gpu_hz", 2))).of(columns), [72.0, 64.0])
    np.testing.assert_array_equal(ONE.of(columns), [1.0])


def test_one_term_is_the_median_of_the_shares() -> None:
    law = Sum((SMS_GPU,))
    columns = clocks(n_sms=[6, 8, 16], gpu_hz=[100.0, 100.0, 100.0])
    # Per SM and clock 2, 2 and 1 (it fell short): the median is 2, a mean would not be.
    values = [1200.0, 1600.0, 1600.0]
    np.testing.assert_allclose(
        predicted(law, columns, values, clocks(n_sms=[10], gpu_hz=[50.0])), [1000.0]
    )


def test_two_terms_are_found_and_none_is_negative() -> None:
    law = Sum((ONE, GPU))
    columns = clocks(gpu_hz=[1.0, 2.0, 3.0])
    # 5 + 2 f
    at = clocks(gpu_hz=[10.0])
    np.testing.assert_allclose(predicted(law, columns, [7.0, 9.0, 11.0], at), [25.0])
    # Falling values: a slope below 0 is not allowed, so that a constant is left.
    falling = predicted(law, columns, [3.0, 2.0, 1.0], clocks(gpu_hz=[1.0, 9.0]))
    assert falling[0] == pytest.approx(falling[1])


def test_times_in_a_row_add_up() -> None:
    # 1/P = 1 / (SMs · f) + 1 / (4 f): with f = 8 and 4 SMs 1/32 + 1/32, with 12 SMs 1/96 + 3/96.
    law = Sum((Monomial((("n_sms", -1), ("gpu_hz", -1))), Monomial((("gpu_hz", -1),))), True)
    columns = clocks(n_sms=[4, 12], gpu_hz=[8.0, 8.0])
    at = clocks(n_sms=[4], gpu_hz=[16.0])
    np.testing.assert_allclose(predicted(law, columns, [16.0, 24.0], at), [32.0])


def test_two_terms_of_one_shape_cannot_be_told_apart() -> None:
    law = Sum((GPU, SMS_GPU))
    columns = clocks(n_sms=[8, 8, 8], gpu_hz=[1.0, 2.0, 3.0])
    assert law.fit(parts_of(law, columns), np.array([1.0, 2.0, 3.0])) is None


def test_the_lesser_of_two_limits() -> None:
    # AGX Orin's shape: 60 byte · f_memory and 200 byte · f_gpu.
    law = Least(MEMORY, GPU)
    columns = clocks(memory_hz=[2.0, 3.0, 3.0, 3.0], gpu_hz=[0.4, 0.6, 1.2, 1.3])
    # min(120, 80), min(180, 120), min(180, 240), min(180, 260)
    values = [80.0, 120.0, 180.0, 180.0]
    at = clocks(memory_hz=[3.0, 1.0], gpu_hz=[0.8, 1.0])
    # min(180, 160), min(60, 200)
    np.testing.assert_allclose(predicted(law, columns, values, at), [160.0, 60.0])


def test_a_limit_that_held_no_mode_is_at_least_what_was_seen() -> None:
    law = Least(MEMORY, GPU)
    # 200 byte · f_gpu; that the last one is half a percent short tells of no other limit.
    columns = clocks(memory_hz=[3.0, 3.0, 3.0], gpu_hz=[0.4, 0.5, 0.6])
    fitted = law.fit(parts_of(law, columns), np.array([80.0, 100.0, 119.4]))
    assert fitted is not None
    value, most = fitted.predict(parts_of(law, clocks(memory_hz=[3.0, 3.0], gpu_hz=[0.55, 1.2])))
    # 200 byte · 0.55 = 110 is below the 119.4 seen; 200 · 1.2 = 240 is not, and may be true.
    np.testing.assert_allclose(value, [110.0, 119.4])
    np.testing.assert_allclose(most, [np.nan, 240.0])


def test_so_is_the_other_limit() -> None:
    law = Least(MEMORY, GPU)
    # 60 byte of the memory's clock in both; of the GPU's clock 30 and 60 byte were seen at least.
    columns = clocks(memory_hz=[1.0, 2.0], gpu_hz=[2.0, 2.0])
    fitted = law.fit(parts_of(law, columns), np.array([60.0, 120.0]))
    assert fitted is not None
    value, most = fitted.predict(parts_of(law, clocks(memory_hz=[2.0, 1.0], gpu_hz=[1.0, 2.0])))
    # 60 · 1 is below 60 · 2; 60 · 2 is not below 60 · 1.
    np.testing.assert_allclose(value, [60.0, 60.0])
    np.testing.assert_allclose(most, [120.0, np.nan])


def test_a_limit_that_may_not_exist_is_none_until_it_shows() -> None:
    law = Least(SMS_GPU, GPU, is_second_sure=False)
    # 255 and 245 FLOP of each SM in a cycle: 2 % more or less than 250 tell of no limit.
    few = clocks(n_sms=[6, 8], gpu_hz=[1.0, 1.0])
    at = clocks(n_sms=[16], gpu_hz=[1.0])
    np.testing.assert_allclose(predicted(law, few, [1530.0, 1960.0], at), [16 * 250])
    # With 16 SMs no more than 3000 in a cycle: what they share is the limit.
    more = clocks(n_sms=[6, 8, 16], gpu_hz=[1.0, 1.0, 1.0])
    at = clocks(n_sms=[16, 4], gpu_hz=[2.0, 1.0])
    np.testing.assert_allclose(predicted(law, more, [1500.0, 2000.0, 3000.0], at), [6000.0, 1000.0])


def test_what_no_mode_knows_is_dropped_and_what_never_varies_is_no_term() -> None:
    laws = candidates("constant_power", "", is_gpu=True)
    known, varied = frozenset({"gpu_hz", "memory_hz"}), frozenset({"gpu_hz"})
    found = list(usable(laws, known, varied))
    assert Sum((ONE,)) in found
    assert Sum((ONE, GPU)) in found
    assert all(MEMORY not in law.monomials for law in found)
    assert len(found) == len(set(found))
    # SMs that nobody knows are the same in all modes.
    peaks = list(usable(candidates("peak", "fp32", is_gpu=True), known, varied))
    assert peaks[0] == Sum((GPU,))


def test_a_quantity_that_nobody_knows_has_no_law() -> None:
    assert candidates("weight", "", is_gpu=True) == ()


def test_every_mode_is_left_out_once() -> None:
    for n_modes in (2, 3, N_FOLDS, 30):
        masks = list(folds(np.ones(n_modes, dtype=np.bool_)))
        assert len(masks) == min(n_modes, N_FOLDS)
        np.testing.assert_array_equal(np.sum(masks, axis=0), np.ones(n_modes))
    kept = np.array([True, False, True])
    np.testing.assert_array_equal(list(folds(kept)), [[True, False, False], [False, False, True]])
    assert not list(folds(np.array([True])))


def test_the_simplest_law_wins_where_more_terms_say_no_more() -> None:
    columns = clocks(gpu_hz=[1.0, 2.0, 3.0, 4.0])
    laws = (Sum((ONE,)), Sum((ONE, GPU)))
    flat = choose(laws, columns, np.array([5.0, 5.0, 5.0, 5.0]))
    assert flat is not None
    assert flat.law == laws[0]
    rising = choose(laws, columns, np.array([7.0, 9.0, 11.0, 13.0]))
    assert rising is not None
    assert rising.law == laws[1]
    assert np.abs(rising.errors).max() < 1e-9


def test_a_mode_is_left_out_before_the_law_is_chosen() -> None:
    laws = (Sum((GPU,)), Least(GPU, ONE, is_second_sure=False))
    # Of all three a plateau at 2.2 is chosen, and it meets the first two when they are left out.
    # From two modes it cannot be told, so that they are met by the median share of the others:
    # (1 + 2.2 / 3) / 2 = 0.8667 for both. The third is 3 without a plateau, where 2.2 is true.
    choice = choose(laws, clocks(gpu_hz=[1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.2]))
    assert choice is not None
    assert choice.law == laws[1]
    np.testing.assert_allclose(np.exp(choice.errors), [0.8667, 0.8667, 3 / 2.2], rtol=1e-4)


def test_one_mode_has_a_law_but_no_error() -> None:
    choice = choose((Sum((ONE,)), Sum((ONE, GPU))), clocks(gpu_hz=[1.0]), np.array([5.0]))
    assert choice is not None
    assert len(choice.errors) == 0
    assert choose((Sum((ONE,)),), clocks(gpu_hz=[]), np.array([])) is None


def test_outside_is_beyond_what_was_seen() -> None:
    seen, names = clocks(gpu_hz=[1.0, 2.0], n_sms=[8, 8]), frozenset({"gpu_hz", "n_sms"})
    wanted = clocks(gpu_hz=[1.5, 2.004, 2.1, 0.5, 1.5], n_sms=[8, 8, 8, 8, 16])
    np.testing.assert_array_equal(is_outside(wanted, seen, names), [False, False, True, True, True])
    assert is_outside(wanted, clocks(gpu_hz=[np.nan]), names).sum() == 0


def test_a_clock_of_0_is_no_clock() -> None:
    modes = board_modes([0.0, 612e6], [3199e6])
    columns = columns_of(modes)
    np.testing.assert_array_equal(columns["gpu_hz"], [np.nan, 612e6])
    assert varied_columns(columns) == frozenset()


@given(
    st.lists(st.tuples(st.floats(1e8, 2e9), st.floats(1e8, 4e9)), min_size=1, max_size=9),
    st.floats(1, 100),
    st.floats(1, 400),
)
def test_limits_bind_where_they_were_reached(
    modes: list[tuple[float, float]], per_memory: float, per_gpu: float
) -> None:
    """Fitted on a board that follows the law, every mode it has seen is met."""
    columns = clocks(gpu_hz=[gpu for gpu, _ in modes], memory_hz=[memory for _, memory in modes])
    values = np.minimum(per_memory * columns["memory_hz"], per_gpu * columns["gpu_hz"])
    law = Least(MEMORY, GPU)
    np.testing.assert_allclose(predicted(law, columns, values.tolist(), columns), values)
