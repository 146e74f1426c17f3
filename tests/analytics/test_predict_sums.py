"""The quick sums against the same sums written out, group by group and mode by mode."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.models.predict.engine import predict_scores
from mansard.analytics.models.predict.group_rows import predict_groups
from mansard.analytics.models.predict.times import bound_sums, ridges
from tests.analytics.predict_factory import (
    BYTE_J,
    CONSTANT_W,
    DRAM,
    FP16,
    FP16_J,
    FP32,
    FP32_J,
    LAUNCH,
    TENSOR,
    TENSOR_J,
    Key,
    Value,
    coefficient_rows,
    group,
    groups_of,
    mode_frame,
    scores_of,
)

flop = st.one_of(st.just(0.0), st.floats(1e3, 1e13))
n_bytes = st.one_of(st.just(0.0), st.floats(1.0, 1e11))
rate = st.floats(1e6, 1e14)


def cost(low: float, high: float) -> st.SearchStrategy[Value]:
    """A coefficient with an interval of up to ± 50 %, or without one."""
    spread = st.floats(0.0, 0.5)
    return st.builds(
        lambda value, below, above: (value, value * (1 - below), value * (1 + above)),
        st.floats(low, high),
        spread,
        spread,
    )


boards = st.fixed_dictionaries(
    {
        FP32: cost(1e9, 1e13),
        DRAM: cost(1e8, 1e12),
        FP32_J: cost(1e-13, 1e-10),
        BYTE_J: cost(1e-12, 1e-9),
        CONSTANT_W: cost(0.1, 100.0),
    },
    optional={
        FP16: cost(1e9, 1e13),
        TENSOR: cost(1e9, 1e14),
        FP16_J: cost(1e-13, 1e-10),
        TENSOR_J: cost(1e-14, 1e-11),
        LAUNCH: cost(1e-7, 1e-3),
    },
)
groups = st.builds(
    group,
    tensor=flop,
    tensor_precision=st.sampled_from(["fp16", "tf32"]),
    cuda=flop,
    precision=st.sampled_from(["fp32", "fp16"]),
    traffic=n_bytes,
    op_class=st.sampled_from(["conv", "movement"]),
    n_launches=st.integers(0, 5),
)


def value_of(board: dict[Key, Value], key: Key) -> float | None:
    found = board.get(key)
    return found[0] if isinstance(found, tuple) else found


def written_out(
    rows: list[dict[str, object]], board: dict[Key, Value], factors: dict[str, float]
) -> tuple[float | None, float | None]:
    """Latency in s and energy in J by docs/understand/prediction.md, one group at a time."""
    has_tensor = TENSOR in board
    total_s = dynamic_j = 0.0
    is_timed = is_priced = True
    for row in rows:
        own = "fp32" if row["tensor_precision"] == "tf32" else "fp16"
        on_tensor = row["tensor_precision"] == "fp16" and has_tensor
        tensor = ("fp16", "tensor core") if on_tensor else (own, "CUDA core")
        cuda = str(row["cuda_precision"])
        cuda = "fp32" if cuda == "fp16" and has_tensor and FP16 not in board else cuda
        times: list[float] = []
        for amount, (precision, unit) in (
            (float(str(row["tensor_flop"])), tensor),
            (float(str(row["cuda_flop"])), (cuda, "CUDA core")),
        ):
            if not amount:
                times.append(0.0)
                continue
            peak = value_of(board, ("peak", precision, unit))
            joules = value_of(board, ("flop_energy", precision, unit))
            is_timed &= peak is not None
            is_priced &= joules is not None
            times.append(amount / (peak or 1.0))
            dynamic_j += amount * (joules or 0.0)
        work_s = max(times) if on_tensor else sum(times)
        traffic = float(str(row["traffic_bytes"]))
        roof_s = max(work_s, traffic / (value_of(board, DRAM) or 1.0))
        starts_s = int(str(row["n_launches"])) * (value_of(board, LAUNCH) or 0.0)
        total_s += roof_s * factors.get(str(row["op_class"]), 1.0) + starts_s
        dynamic_j += traffic * (value_of(board, BYTE_J) or 0.0)
    energy_j = dynamic_j + total_s * (value_of(board, CONSTANT_W) or 0.0)
    return (total_s if is_timed else None), (energy_j if is_timed and is_priced else None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(groups, min_size=1, max_size=8),
    st.lists(boards, min_size=1, max_size=6),
    st.fixed_dictionaries({}, optional={"conv": st.floats(0.5, 4.0)}),
)
def test_the_quick_sum_is_the_sum(
    drawn: list[dict[str, object]], modes: list[dict[Key, Value]], factors: dict[str, float]
) -> None:
    rows = [{**row, "group": at} for at, row in enumerate(drawn)]
    names = [f"m{at}" for at in range(len(modes))]
    coefficients = pl.concat(
        [coefficient_rows(board, name) for board, name in zip(modes, names, strict=True)]
    )
    frames = (groups_of(*rows), coefficients, mode_frame(names))
    found = predict_scores(frames[0], scores_of("s"), *frames[1:], efficiency=factors).collect()
    rows_found = predict_groups(*frames, efficiency=factors)
    for name, board in zip(names, modes, strict=True):
        seconds, joules = written_out(rows, board, factors)
        got = found.row(by_predicate=pl.col("mode") == name, named=True)
        assert got["latency_s"] == (None if seconds is None else pytest.approx(seconds, rel=1e-9))
        assert got["energy_j"] == (None if joules is None else pytest.approx(joules, rel=1e-9))
        own = rows_found.filter(pl.col("mode") == name)
        assert (own["time_s"].null_count() == 0) == (seconds is not None)
        if seconds is not None:
            assert own["time_s"].sum() == pytest.approx(seconds, rel=1e-9)
            assert own["least_s"].sum() == pytest.approx(seconds, rel=1e-9)
        if joules is not None:
            assert own["energy_j"].sum() == pytest.approx(joules, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(groups, min_size=1, max_size=5), boards)
def test_values_lie_in_their_intervals_and_reasons_stand_for_nulls(
    drawn: list[dict[str, object]], board: dict[Key, Value]
) -> None:
    rows = [{**row, "group": at} for at, row in enumerate(drawn)]
    found = predict_scores(groups_of(*rows), scores_of("s"), coefficient_rows(board), mode_frame())
    got = found.collect().row(0, named=True)
    assert (got["reason"] is None) == (got["latency_s"] is not None and got["energy_j"] is not None)
    for name, unit in (("latency", "s"), ("energy", "j"), ("power", "w")):
        value = got[f"{name}_{unit}"]
        low, high = got[f"{name}_low_{unit}"], got[f"{name}_high_{unit}"]
        assert (low is None) == (high is None) == (value is None)
        if value is not None:
            assert low <= value <= high


@settings(max_examples=30, deadline=None)
@given(st.lists(groups, min_size=1, max_size=5), boards, st.floats(1.0, 10.0))
def test_a_faster_ceiling_never_makes_it_slower(
    drawn: list[dict[str, object]], board: dict[Key, Value], factor: float
) -> None:
    rows = [{**row, "group": at} for at, row in enumerate(drawn)]
    for key in (FP32, DRAM):
        value = value_of(board, key)
        assert value is not None
        better = {**board, key: (value * factor,) * 3}
        frame = pl.concat([coefficient_rows(board, "old"), coefficient_rows(better, "new")])
        found = predict_scores(groups_of(*rows), scores_of("s"), frame, mode_frame(("old", "new")))
        old, new = found.collect()["latency_s"].to_list()
        assert (old is None) == (new is None)
        if old is not None:
            assert new <= old * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1.0, 1e12), n_bytes), min_size=1, max_size=20),
    st.lists(st.tuples(rate, rate), min_size=1, max_size=20),
)
def test_prefix_sums_find_who_is_bound_by_work(
    drawn: list[tuple[float, float]], peaks: list[tuple[float, float]]
) -> None:
    work, moved = (np.array(part) for part in zip(*drawn, strict=True))
    per_flop, per_byte = (1 / np.array(part) for part in zip(*peaks, strict=True))
    bound_flop, other_bytes = bound_sums(work, moved, ridges(per_flop, per_byte))
    quick_s = bound_flop * per_flop + other_bytes * per_byte
    slow_s = [
        sum(max(w * x, q * y) for w, q in drawn) for x, y in zip(per_flop, per_byte, strict=True)
    ]
    np.testing.assert_allclose(quick_s, slow_s, rtol=1e-12)


def test_a_machine_without_main_memory_runs_what_moves_nothing() -> None:
    found = predict_scores(
        groups_of(group(cuda=1e9, score="work"), group(cuda=1e9, traffic=1.0, score="move")),
        scores_of("work", "move"),
        coefficient_rows({FP32: 1e12}),
        mode_frame(),
    )
    # 1 GFLOP at 1 TFLOP/s
    assert found.collect()["latency_s"].to_list() == [pytest.approx(1e-3), None]
