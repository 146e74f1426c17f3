from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import PREDICTION_KEY
from mansard.analytics.models.predict.models import Models, find_models
from mansard.analytics.models.predict.prediction import NetworkSelection, basis_of, predict
from mansard.analytics.pages.results import networks_of_runs
from mansard.core.records import LayerScore, ModelScore
from tests.analytics.board_runs import write_board
from tests.analytics.factory import (
    Ceilings,
    fma_trials,
    manifest,
    stream_trials,
    write_run,
    write_two_modes,
)
from tests.analytics.score_factory import layer, score, write_scores

# The made-up machine at two cores: 128 GFLOP/s in fp32, 16 GB/s, so the ridge is at 8.
P, B = 128e9, 16e9
works = st.integers(min_value=0, max_value=10**13)
traffics = st.integers(min_value=0, max_value=10**11)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return find_models(ingest(write_two_modes(tmp_path_factory.mktemp("runs"))))


def networks(models: Models, *scores: ModelScore) -> pl.DataFrame:
    return networks_of_runs(predict(models, [NetworkSelection(scores=scores)], each_run=True))


def in_two_cores(models: Models, *layers: LayerScore, precision: str = "fp32") -> dict[str, object]:
    found = networks(models, score("net", layers, precision=precision))
    return found.filter(pl.col("label") == "2c").row(0, named=True)


def seconds(models: Models, *pairs: tuple[int, int]) -> list[float]:
    """The time in s at two cores of a network of one layer for each work and traffic."""
    nets = [score(f"net {at}", [layer(0, *pair)]) for at, pair in enumerate(pairs)]
    found = networks(models, *nets).filter(pl.col("label") == "2c").sort("model")
    return found["time_s"].to_list()


def test_a_compute_bound_layer_takes_work_over_peak(models: Models) -> None:
    # 12.8 GFLOP / 128 GFLOP/s = 0.1 s; 0.16 GB / 16 GB/s = 0.01 s
    found = in_two_cores(models, layer(0, 12_800_000_000, 160_000_000))
    assert found["time_s"] == pytest.approx(0.1)
    assert found["bound"] == "compute"
    assert found["memory_share"] == 0.0


def test_layers_add_and_are_bound_one_by_one(models: Models) -> None:
    # 0.1 s of arithmetic, then 3.2 GB / 16 GB/s = 0.2 s of memory; the sum is 0.3 s, while
    # the whole network's max(0.1, 0.21) would hide a third of it
    found = in_two_cores(models, layer(0, 12_800_000_000, 160_000_000), layer(1, 0, 3_200_000_000))
    assert found["time_s"] == pytest.approx(0.3)
    assert found["bound"] == "memory"
    assert found["memory_share"] == pytest.approx(2 / 3)
    assert found["intensity"] == pytest.approx(12.8 / 3.36)
    assert found["attainable_flop_per_s"] == pytest.approx(12.8e9 / 0.3)


def test_each_mode_has_its_own_time(models: Models) -> None:
    found = networks(models, score("net", [layer(0, 64_000_000_000, 8)]))
    times = dict(found.select("label", "time_s").rows())
    # 64 GFLOP at 64 and at 128 GFLOP/s
    assert times == {"1c": pytest.approx(1.0), "2c": pytest.approx(0.5)}


def test_the_interval_is_that_of_the_ceiling(models: Models) -> None:
    found = in_two_cores(models, layer(0, 12_800_000_000, 0))
    (peak,) = [roof.peak("fp32") for roof in models.roofs if roof.label == "2c"]
    assert peak.high
    assert peak.low
    assert found["low_s"] == pytest.approx(12.8e9 / peak.high)
    assert found["high_s"] == pytest.approx(12.8e9 / peak.low)


def test_no_peak_no_guess(models: Models) -> None:
    found = in_two_cores(models, layer(0, 10**9, 16_000_000, precision="fp16"), precision="fp16")
    assert found["time_s"] is None
    assert found["reason"] == "no fp16 peak is known in this mode"
    assert found["least_s"] == pytest.approx(0.001)  # its traffic alone: 16 MB / 16 GB/s


def test_a_layer_without_work_needs_no_peak(models: Models) -> None:
    found = in_two_cores(models, layer(0, 0, 16_000_000, precision="int64"))
    assert found["time_s"] == pytest.approx(0.001)


def test_integer_work_on_positions_is_timed_by_its_traffic(models: Models) -> None:
    # 1000 additions of positions over 16 MB / 16 GB/s = 1 ms; no int64 peak is measured.
    positions = msgspec.structs.replace(layer(0, 1000, 16_000_000, precision="int64"), macs=0)
    assert in_two_cores(models, positions)["time_s"] == pytest.approx(0.001)
    product = msgspec.structs.replace(positions, precision="int8", macs=500)
    found = in_two_cores(models, product)
    assert found["time_s"] is None
    assert found["reason"] == "no int8 peak is known in this mode"


def test_an_unknown_layer_makes_the_time_unknown(models: Models) -> None:
    odd = layer(1, None, 16_000_000, op_type="NonMaxSuppression")
    found = in_two_cores(models, layer(0, 12_800_000_000, 0), odd)
    assert found["time_s"] is None
    assert found["work_flop"] is None
    assert found["n_layers_unknown"] == 1
    assert found["reason"] == "the work of NonMaxSuppression is unknown"
    assert found["least_s"] == pytest.approx(0.101)  # 0.1 s and the odd layer's 1 ms of traffic


def test_no_main_memory_no_time(tmp_path: Path) -> None:
    trials = [*fma_trials("r"), *stream_trials("r", Ceilings(levels={"L1": 256e9}))]
    write_run(tmp_path / "r", manifest("r"), trials)
    bare = find_models(ingest(tmp_path))
    found = networks(bare, score("net", [layer(0, 10**9, 10**6)])).row(0, named=True)
    assert found["time_s"] is None
    assert str(found["reason"]).startswith("no DRAM bandwidth: no read working set above")


def test_a_network_of_nothing_takes_no_time(models: Models) -> None:
    found = in_two_cores(models, layer(0, 0, 0, op_type="Reshape"))
    assert found["time_s"] == 0.0
    assert found["bound"] is None
    assert found["intensity"] is None


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(work=works, more_work=works, traffic=traffics, more_traffic=traffics)
def test_time_grows_with_work_and_with_traffic(
    models: Models, work: int, more_work: int, traffic: int, more_traffic: int
) -> None:
    base, harder, wider = seconds(
        models, (work, traffic), (work + more_work, traffic), (work, traffic + more_traffic)
    )
    assert harder >= base
    assert wider >= base


@settings(max_examples=25)
@given(work=works, traffic=traffics)
def test_time_is_the_larger_of_the_two_and_inside_its_interval(
    models: Models, work: int, traffic: int
) -> None:
    found = in_two_cores(models, layer(0, work, traffic))
    time, low, high = found["time_s"], found["low_s"], found["high_s"]
    assert isinstance(time, float)
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert time == pytest.approx(max(work / P, traffic / B))
    assert low <= time <= high


@settings(max_examples=20)
@given(st.lists(st.tuples(works, traffics), min_size=1, max_size=6), st.randoms())
def test_order_of_layers_does_not_matter(
    models: Models, pairs: list[tuple[int, int]], random: object
) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (
        in_two_cores(models, *[layer(at, *pair) for at, pair in enumerate(order)])
        for order in (pairs, shuffled)
    )
    assert one["time_s"] == pytest.approx(other["time_s"])
    assert one["bound"] == other["bound"]


def test_batches_of_one_model_stay_apart(models: Models) -> None:
    found = networks(
        models,
        score("net", [layer(0, 128_000_000, 8)], batch=1),
        score("net", [layer(0, 1_024_000_000, 8)], batch=8),
    ).filter(pl.col("label") == "2c")
    # 0.128 and 1.024 GFLOP at 128 GFLOP/s
    assert dict(found.select("batch", "time_s").rows()) == {
        1: pytest.approx(0.001),
        8: pytest.approx(0.008),
    }


def test_parts_together_are_the_whole(models: Models) -> None:
    nets = [score(f"net {at}", [layer(0, 10**at, 10**9)]) for at in (9, 10, 11)]
    basis = basis_of(models, [NetworkSelection(scores=nets)])
    assert basis.parts() == [None]
    parts = basis.parts(each_network=True)
    assert sorted(map(str, parts)) == ["net 10", "net 11", "net 9"]
    found, whole = pl.concat(map(basis.predictions, parts)), basis.predictions()
    key = [*PREDICTION_KEY, "mode"]
    assert whole.height == 6  # three networks in two modes
    assert found.sort(key).equals(whole.sort(key))


def test_a_device_is_predicted_alike_whatever_else_is_asked(tmp_path: Path) -> None:
    runs = write_board(write_two_modes(tmp_path))  # a GPU with launch costs, a CPU without
    write_scores(runs, [score("net", [layer(0, 1_280_000_000, 10**6)])])
    dataset = ingest(runs)
    alone = predict(find_models(dataset, "Orin")).predictions
    (device,) = alone["device"].unique().to_list()
    together = predict(find_models(dataset)).predictions
    assert together["device"].n_unique() == 2
    assert together.filter(device=device).equals(alone)
    assert not any("launch" in note for note in alone["notes"].drop_nulls())
