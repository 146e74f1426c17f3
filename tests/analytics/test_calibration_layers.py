"""Times of layers beside groups, and the classes that are fitted to them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import GROUP_SCHEMA, OBSERVATION_SCHEMA
from mansard.analytics.models.predict.class_fit import TIMED_SCHEMA
from mansard.analytics.models.predict.groups import group_frame, halves, score_frame, terms
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.predict.timed_layers import (
    LAYER_GROUP_SCHEMA,
    ROOF_SCHEMA,
    TimedNetworks,
    at_roofs,
    join_layers,
    predict_by_classes,
    timed_networks,
)
from mansard.analytics.models.predict.totals_calibration import calibrate_totals
from mansard.core.records import LayerTime, Measurement
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.predict_factory import (
    ROUND,
    coefficient_rows,
    group,
    groups_of,
    mode_frame,
    scores_of,
)
from tests.analytics.score_factory import layer as score_layer
from tests.analytics.score_factory import score, write_scores

ENGINE = "onnxruntime cpu"
DEVICE, MODE = "Board", "fast"
# Of the made-up machine: a convolution's work takes twice its time at the roof, what it moves half.
WORK, TRAFFIC, LAUNCH_S = 2.0, 0.5, 5e-6


def layer(index: int, nodes: tuple[int, ...] | None, *seconds_s: float) -> LayerTime:
    return LayerTime(
        index=index,
        name=f"layer {index}",
        op_type="Conv",
        provider="cpu",
        nodes=nodes,
        runs=1,
        seconds_s=seconds_s,
        unknown={} if nodes else {"nodes": "made up"},
    )


def test_what_shares_a_layer_or_a_group_is_one_row() -> None:
    group_of = {0: 0, 1: 0, 2: 2, 3: 3, 4: 4, 5: 4}
    layers = [
        layer(0, (0,), 1.0),
        layer(1, (1,), 2.0),  # the other half of group 0
        layer(2, (2, 3), 4.0),  # two groups in one
        layer(3, (4,), 8.0),
        layer(4, (9,), 16.0),  # of a node that does not work: a view that the engine copies
        layer(5, None, 32.0),  # a reformat
    ]
    found = join_layers(layers, group_of)
    assert found.parts == ((3.0, (0,)), (4.0, (2, 3)), (8.0, (4,)))
    assert found.other_s == 48.0


def test_layers_that_overlap_are_one_row_through_each_other() -> None:
    # {0, 1} and {1, 2} share group 1, and so the three groups and both layers are one.
    found = join_layers([layer(0, (0, 1), 1.0), layer(1, (1, 2), 2.0)], {0: 0, 1: 1, 2: 2})
    assert found.parts == ((3.0, (0, 1, 2)),)


def test_of_the_calls_the_lower_quartile_counts() -> None:
    # Of 1, 2, 3, 4 and 100 the quartile is at place 1: 2.
    found = join_layers([layer(0, (0,), 100.0, 4.0, 1.0, 3.0, 2.0)], {0: 0})
    assert found.parts == ((2.0, (0,)),)


def test_layers_are_scaled_to_a_call_without_a_profile() -> None:
    # 3 + 1 + 2 s in a profile are 3 s without it: each half as long.
    layers = [layer(0, (0,), 3.0), layer(1, (1,), 1.0), layer(2, None, 2.0)]
    found = join_layers(layers, {0: 0, 1: 1}, 3.0)
    assert found.parts == ((1.5, (0,)), (0.5, (1,)))
    assert found.other_s == 1.0


# A group of GROUP_SCHEMA: a convolution of 10 FLOP and 4 bytes.
CONV = {
    "score_id": "net",
    "group": 3,
    "name": "conv",
    "op_class": "conv",
    "tensor_flop": 0.0,
    "cuda_precision": "fp32",
    "cuda_flop": 10.0,
    "function_flop": 0.0,
    "traffic_bytes": 4.0,
    "n_launches": 1,
}


def test_halves_add_where_the_longer_counts_in_whole_groups() -> None:
    moved = CONV | {"group": 4, "op_class": "movement", "cuda_precision": None, "cuda_flop": 0.0}
    found = halves(pl.DataFrame([CONV, moved], schema=GROUP_SCHEMA))
    shown = found.select("group", "op_class", "cuda_flop", "traffic_bytes", "n_launches").rows()
    assert shown == [
        (3, "conv work", 10.0, 0.0, 1),
        (3, "conv traffic", 0.0, 4.0, 0),
        (4, "movement work", 0.0, 0.0, 0),
        (4, "movement traffic", 0.0, 4.0, 1),
    ]


def test_functions_are_a_class_for_all_groups() -> None:
    # A convolution with a sigmoid: of 10 FLOP 3 are exponentials. The sigmoid alone has no others.
    row = CONV | {"function_flop": 3.0}
    alone = row | {"group": 4, "op_class": "elementwise", "cuda_flop": 3.0}
    found = terms(pl.DataFrame([row, alone], schema=GROUP_SCHEMA))
    shown = found.select("group", "op_class", "cuda_flop", "traffic_bytes", "n_launches").rows()
    assert shown == [
        (3, "conv work", 7.0, 0.0, 1),
        (3, "conv traffic", 0.0, 4.0, 0),
        (3, "function work", 3.0, 0.0, 0),
        (4, "elementwise work", 0.0, 0.0, 0),
        (4, "elementwise traffic", 0.0, 4.0, 1),
        (4, "function work", 3.0, 0.0, 0),
    ]


# Work and traffic at the roof of five networks of two convolutions each, µs: no two alike.
NETWORKS = {
    name: ((10.0 * at, 7.0 + at), (40.0 / at, 5.0 * at * at)) for at, name in enumerate("abcde", 1)
}


def took_s(name: str) -> float:
    """Of a whole network on the made-up machine."""
    return sum(WORK * w * 1e-6 + TRAFFIC * q * 1e-6 + LAUNCH_S for w, q in NETWORKS[name])


def made_up() -> tuple[pl.DataFrame, pl.DataFrame, TimedNetworks]:
    """Predictions by the roofs, what was observed, and the layers of it."""
    predictions, observations, rows, roofs = [], [], [], []
    for name, groups in NETWORKS.items():
        work_s, traffic_s = (sum(each) * 1e-6 for each in zip(*groups, strict=True))
        same = {"device": DEVICE, "mode": MODE, "network": name, "batch": 1, "precision": "fp32"}
        same |= {"phase": "inference"}
        predictions.append(
            same
            | {
                "score_id": name,
                "latency_s": sum(max(pair) for pair in groups) * 1e-6,
                "compute_s": sum(w for w, q in groups if w >= q) * 1e-6,
                "memory_s": sum(q for w, q in groups if q > w) * 1e-6,
                "launch_s": 0.0,
                "n_launches": 2,
            }
        )
        observations.append(
            same | {"engine": ENGINE, "latency_s": took_s(name), "source": "measured"}
        )
        for at, ((w, q), half) in enumerate(product(groups, ("work", "traffic"))):
            pair_s = WORK * w * 1e-6 + TRAFFIC * q * 1e-6 + LAUNCH_S
            rows.append(
                same
                | {
                    "layer": at // 2,
                    "op_class": f"conv {half}",
                    "roof_s": (w if half == "work" else q) * 1e-6,
                    "n_launches": 1 if half == "work" else 0,
                    "measured_s": pair_s,
                    "engine": ENGINE,
                }
            )
        for half, roof_s in (("work", work_s), ("traffic", traffic_s)):
            roofs.append(same | {"score_id": name, "op_class": f"conv {half}", "roof_s": roof_s})
    schema = {**TIMED_SCHEMA, "phase": pl.String, "engine": pl.String}
    timed = TimedNetworks(
        pl.DataFrame(rows, schema=schema),
        pl.DataFrame(roofs).select(list(ROOF_SCHEMA)),
        {(DEVICE, "inference", ENGINE): 0.02, (DEVICE, "inference", "another"): 0.5},
    )
    return pl.DataFrame(predictions), pl.DataFrame(observations, schema=OBSERVATION_SCHEMA), timed


def test_layers_give_the_classes_and_these_the_networks_that_were_left_out() -> None:
    predictions, observations, timed = made_up()
    own = calibrate_totals(predictions, observations, None, timed)[DEVICE, "inference"]
    assert own.classes is not None
    assert (own.engine, own.classes.other_share) == (ENGINE, 0.02)
    assert own.why == "layers of 5 networks were timed"
    factors = own.classes.fit.all_networks
    assert factors.factor("conv work", "fp32") == pytest.approx(WORK, rel=0.02)
    assert factors.factor("conv traffic", "fp32") == pytest.approx(TRAFFIC, rel=0.05)
    assert factors.launch_s == pytest.approx(LAUNCH_S, rel=0.1)
    unseen = own.networks.misfit
    assert unseen is not None
    assert unseen.median < 0.02
    # The same without layers: the roofs of whole groups, of which the longer part counts.
    plain = calibrate_totals(predictions, observations, None, None)[DEVICE, "inference"]
    assert plain.classes is None
    assert plain.why == "no layers of these networks were timed"
    assert plain.networks.misfit is not None
    assert plain.networks.misfit.median > 2 * unseen.median
    # It stands beside the classes, as what was not taken.
    assert own.other_networks is not None
    assert own.other_networks.misfit == plain.networks.misfit
    assert plain.other_networks is None


def test_classes_without_a_score_to_predict_are_no_error() -> None:
    predictions, observations, timed = made_up()
    calibration = calibrate_totals(predictions, observations, None, timed)
    own = calibration[DEVICE, "inference"].classes
    assert own is not None
    groups, scores = groups_of(group(precision="fp32", cuda=1e9)), scores_of("s")
    classes = {("board", "inference"): own}

    def found(scores: pl.DataFrame) -> pl.DataFrame:
        return predict_by_classes(groups, scores, coefficient_rows(ROUND), mode_frame(), classes)

    assert len(found(scores)) == 1
    other = found(scores.with_columns(phase=pl.lit("training")))
    assert other.is_empty()
    assert other.schema == found(scores).schema


def test_the_share_of_the_engine_is_of_its_own_layers(tmp_path: Path) -> None:
    write_two_modes(tmp_path)
    counted = score("net", [score_layer(0, 10**9, 10**6)])
    write_scores(tmp_path, [counted, score("never run", [score_layer(0, 10**9, 10**6)])])

    def ran(threads: int, own_s: float, engine_s: float) -> Measurement:
        layers = (layer(0, (0,), own_s), layer(1, None, engine_s))
        known = {"model_hash": counted.model_hash, "profiled_s": (1.0,), "threads": threads}
        return measurement("nets", (0.01,), layers=layers, **known)

    write_networks(tmp_path, [ran(2, 3e-3, 1e-3), ran(1, 1e-3, 1e-3)])
    models = find_models(ingest(tmp_path))
    layers = models.dataset.layers
    timed = timed_networks(
        models, layers, group_frame(layers), score_frame(layers), models.coefficients, models.modes
    )
    assert timed is not None
    assert timed.other_share == {
        ("Example", "inference", ENGINE): 0.25,
        ("Example", "inference", f"{ENGINE} 1 thread"): 0.5,
    }
    # The roofs are of what was run alone.
    assert timed.roofs["score_id"].n_unique() == 1


def test_roofs_and_rows_stand_in_the_order_of_the_groups() -> None:
    # Sums over classes in another order are other numbers in their last digits.
    names = [f"class {at * 7 % 40}" for at in range(40)]
    groups = groups_of(*(group(at, cuda=1e9, op_class=name) for at, name in enumerate(names)))
    same = {"device": "board", "mode": "m", "network": "net", "batch": 1, "precision": "fp32"}
    of_score = {"phase": "inference", "engine": ENGINE, "score_id": "s", "measured_s": 1.0}
    rows = [{**same, **of_score, "layer": at, "group": at} for at in range(40)]
    timed = at_roofs(
        pl.DataFrame(rows, schema=LAYER_GROUP_SCHEMA), groups, coefficient_rows(ROUND),
        mode_frame(), {},
    )  # fmt: skip
    assert timed.roofs.filter(pl.col("roof_s") > 0)["op_class"].to_list() == [
        f"{name} work" for name in names
    ]
    assert timed.rows["layer"].to_list() == sorted(timed.rows["layer"].to_list())


def test_totals_calibrate_where_classes_are_further_off() -> None:
    predictions, observations, timed = made_up()
    # A profile that stretches layers, of each network by another factor, and totals that are twice
    # what the roofs say.
    stretch = {name: 9.0**at for at, name in enumerate(NETWORKS)}
    odd = timed.rows.with_columns(
        measured_s=pl.col("measured_s")
        * pl.col("network").replace_strict(stretch, return_dtype=pl.Float64)
    )
    twice = dict(predictions.select("network", 2 * pl.col("latency_s")).iter_rows())
    took = observations.with_columns(
        latency_s=pl.col("network").replace_strict(twice, return_dtype=pl.Float64)
    )
    layers = TimedNetworks(odd, timed.roofs, timed.other_share)
    own = calibrate_totals(predictions, took, None, layers)[DEVICE, "inference"]
    assert own.classes is None
    assert own.why == "the error on networks left out is smaller than with classes of operators"
    assert own.networks.misfit is not None
    assert own.other_networks is not None
    assert own.networks.mean_error < own.other_networks.mean_error


def test_layers_that_are_too_few_are_said_to_be() -> None:
    predictions, observations, timed = made_up()
    # Two layers of each of three networks: 6, and it takes 8 in a mode.
    few = timed.rows.filter(pl.col("network").is_in(["a", "b", "c"]))
    layers = TimedNetworks(few, timed.roofs, timed.other_share)
    own = calibrate_totals(predictions, observations, None, layers)[DEVICE, "inference"]
    assert (own.classes, own.why) == (None, "too few layers of these networks were timed")
    # Of one network alone there are no classes to judge another by.
    alone = timed.rows.filter(pl.col("network") == "a")
    more = pl.concat([alone.with_columns(layer=pl.col("layer") + 2 * at) for at in range(4)])
    layers = TimedNetworks(more, timed.roofs, timed.other_share)
    own = calibrate_totals(predictions, observations, None, layers)[DEVICE, "inference"]
    assert own.classes is None
    assert own.why == "too few networks have timed layers to test classes of operators"


def test_the_factors_of_a_network_left_out_do_not_know_its_layers() -> None:
    predictions, observations, timed = made_up()
    is_odd = pl.col("network") == "e"
    slow = TimedNetworks(
        timed.rows.with_columns(
            measured_s=pl.when(is_odd).then(10 * pl.col("measured_s")).otherwise("measured_s")
        ),
        timed.roofs,
        timed.other_share,
    )
    classes = calibrate_totals(predictions, observations, None, slow)[DEVICE, "inference"].classes
    assert classes is not None
    without = classes.factors_without("e")
    assert without is not None
    assert without.factor("conv work", "fp32") == pytest.approx(WORK, rel=0.02)


def test_a_calibration_is_of_one_engine() -> None:
    predictions, observations, timed = made_up()
    is_other = pl.col("network") == "a"
    mixed = observations.with_columns(
        engine=pl.when(is_other).then(pl.lit("another")).otherwise("engine"),
        latency_s=pl.when(is_other).then(1.0).otherwise("latency_s"),
    )
    own = calibrate_totals(predictions, mixed, None, timed)[DEVICE, "inference"]
    assert own.engine == ENGINE
    assert sorted(own.lines.pairs["network"]) == ["b", "c", "d", "e"]
