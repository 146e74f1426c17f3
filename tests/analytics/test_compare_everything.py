"""What is compared of networks, layers, programs, servers and networks at once; and baselines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.decisions.comparing.baseline import read_baseline, write_baseline
from mansard.analytics.decisions.comparing.comparison import Change, Comparison, compare
from mansard.analytics.decisions.comparing.gathering import sides_of
from mansard.analytics.decisions.comparing.sides import ComparedQuantity, Side, pair_runs
from mansard.core.errors import InputError, MansardError, SchemaError, UsageError
from mansard.core.records import LayerTime, NamedWindow, ProgramRun
from tests.analytics.factory import (
    manifest,
    measurement,
    program,
    repetition,
    window,
    write_networks,
    write_programs,
    write_run,
)
from tests.analytics.generation_rows import (
    generation,
    generation_request,
    generation_round,
    write_generations,
)
from tests.analytics.test_concurrent_rows import RUN
from tests.analytics.test_decide_compare import NINE

NET = "net inference, batch 1, fp32, onnxruntime cpu"


def the_side(runs: Path, **chosen: Any) -> Side:
    (found,) = sides_of(ingest(runs), **chosen)
    return found


def quantities(side: Side) -> dict[str, ComparedQuantity]:
    return {one.name: one for one in side.quantities}


def reasons(side: Side) -> dict[str, str]:
    return {one.name: one.why for one in side.unusable}


def nine(factor: float) -> list[float]:
    return [float(factor * value) for value in NINE]


def test_a_network_alone_has_its_time_tail_energy_and_memory(tmp_path: Path) -> None:
    # 450 single calls are four hundreds; of each hundred one takes 30 ms: the 99th percentile lies
    # a hundredth of the way from 20 to 30 ms: position 98.01 of 0 … 99.
    calls = ([0.02] * 99 + [0.03]) * 4 + [0.02] * 50
    energy = tuple(window({"VDD_IN": w}, ("VDD_IN",), repetitions=100) for w in (10.0, 11.0))
    row = measurement(
        "one", nine(0.02), call_seconds_s=tuple(calls), energy=energy, memory_bytes=4096
    )
    write_networks(tmp_path / "runs", [row])
    seen = quantities(the_side(tmp_path / "runs"))
    assert {name: (one.kind, one.unit) for name, one in seen.items()} == {
        f"{NET}: time": ("p50", "s"),
        f"{NET}: 99th percentile of 100 calls": ("p99", "s"),
        f"{NET}: energy": ("energy", "J"),
        f"{NET}: peak memory": ("memory", "B"),
    }
    tail = seen[f"{NET}: 99th percentile of 100 calls"]
    assert tail.runs[0][""] == pytest.approx([0.0201] * 4)
    # 10 W and 11 W for 2 s over 100 calls
    assert seen[f"{NET}: energy"].runs[0][""] == pytest.approx([0.2, 0.22])
    assert seen[f"{NET}: peak memory"].value == pytest.approx(4096)
    assert seen[f"{NET}: time"].value == pytest.approx(0.02, rel=1e-2)


def test_what_has_no_value_says_why(tmp_path: Path) -> None:
    rows = [
        measurement("one", nine(0.02)),
        measurement("one", nine(0.02), model="other", disturbances=("it was throttled",)),
    ]
    write_networks(tmp_path / "runs", rows)
    whys = reasons(the_side(tmp_path / "runs"))
    assert whys[f"{NET}: energy"] == "no meter was read"
    assert (
        whys[f"{NET}: 99th percentile of 100 calls"] == "9 single calls were timed, 100 are needed"
    )
    assert whys[f"{NET.replace('net', 'other', 1)}: time"] == "it was throttled"


def test_sizes_and_precisions_are_other_quantities(tmp_path: Path) -> None:
    rows = [
        measurement("one", nine(0.02), dimensions={"sequence": size}, trial_id=f"{size:016}")
        for size in (128, 512)
    ]
    write_networks(tmp_path / "runs", rows)
    names = [name for name, one in quantities(the_side(tmp_path / "runs")).items()]
    assert [name.split(", ")[2] for name in names if name.endswith("time")] == [
        "sequence 128",
        "sequence 512",
    ]


def layer(index: int, name: str, nodes: Sequence[int] | None, seconds: float) -> LayerTime:
    return LayerTime(
        index=index, name=name, op_type="Conv", provider="cpu",
        nodes=None if nodes is None else tuple(nodes), runs=1, seconds_s=tuple(nine(seconds)),
        unknown={"nodes": "not traced"} if nodes is None else {},
    )  # fmt: skip


def with_layers(runs: Path, *layers: LayerTime, **known: Any) -> Side:
    row = measurement("one", nine(0.02), layers=layers, profiled_s=tuple(nine(0.02)), **known)
    write_networks(runs, [row])
    return the_side(runs, with_layers=True)


def test_layers_pair_by_their_nodes_and_else_by_their_names(tmp_path: Path) -> None:
    first = with_layers(
        tmp_path / "a", layer(0, "conv", [0, 1], 1e-3), layer(1, "gemm", None, 2e-3),
        layer(2, "gone", [4], 1e-3),
    )  # fmt: skip
    second = with_layers(
        tmp_path / "b", layer(0, "conv renamed", [0, 1], 2e-3), layer(1, "gemm", None, 2e-3),
        layer(2, "new", [5], 1e-3),
    )  # fmt: skip
    found = compare(first, second)
    assert {one.quantity: (round(one.ratio, 3), one.is_significant) for one in found.layers} == {
        f"{NET}: layer conv renamed": (2.0, True),
        f"{NET}: layer gemm": (1.0, False),
    }
    assert found.only_first == (f"{NET}: layer gone",)
    assert found.only_second == (f"{NET}: layer new",)
    assert [one.kind for one in found.changes] == ["p50"]
    # Of another network nodes are others: conv is found by its name alone.
    other = with_layers(tmp_path / "c", layer(0, "conv", [7], 1e-3), model_hash="b" * 16)
    assert [one.quantity for one in compare(first, other).layers] == [f"{NET}: layer conv"]
    assert the_side(tmp_path / "a").quantities[0].kind != "layer"


def change(found: Comparison, name: str) -> Change:
    return next(one for one in found.changes if one.quantity == name)


def with_metric(run: str, metrics: Sequence[float], **known: Any) -> ProgramRun:
    row = program(run, [1.0], metric_pattern="x", **known)
    return replace(row, repetitions=tuple(repetition(1.0, metric=metric) for metric in metrics))


def test_a_program_has_its_wall_time_energy_memory_metric_and_windows(tmp_path: Path) -> None:
    sides = []
    for name, factor in (("a", 1.0), ("b", 1.1)):
        prefill = NamedWindow(
            name="prefill", start_s=101.0, window_s=0.5 * factor, energy=None,
            unknown={"energy": "no meter"},
        )  # fmt: skip
        row = program(name, nine(factor), power_w=10.0, metric=3.0, windows=[prefill])
        write_programs(tmp_path / name, [row])
        sides.append(the_side(tmp_path / name))
    found = compare(sides[0], sides[1])
    ratios = {one.quantity: round(one.ratio, 4) for one in found.changes}
    assert ratios == {
        "llm: time": 1.1,
        "llm: energy": 1.1,  # 10 W of a longer run
        "llm: peak memory": 1.0,
        "llm: metric": 1.0,
        "llm [prefill]: time": 1.1,
    }
    assert change(found, "llm: time").is_significant
    assert change(found, "llm: metric").is_equal
    assert reasons(sides[0]) == {"llm [prefill]: energy": "no meter"}


def test_runs_that_have_nothing_in_common_are_compared_all_the_same(tmp_path: Path) -> None:
    # Two runs of a metric of 1e-25 and 1e25: nothing is known of it, and no number overflows.
    for name, metric in (("one", 1e-25), ("two", 1e25)):
        write_programs(tmp_path / "runs", [with_metric(name, [metric] * 5)])
    side = the_side(tmp_path / "runs")
    write_baseline(tmp_path / "base.json", [side])
    assert read_baseline(tmp_path / "base.json") == (side,)
    assert not change(compare(side, side), "llm: metric").is_significant


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ((0.5, 0.0, 0.5), "a repetition is 0 or less, of which there is no ratio"),
        ((-1.0, -2.0), "a repetition is 0 or less, of which there is no ratio"),
        ((1e300, 1.0), "a repetition is not a number, or above all that is measured"),
    ],
)
def test_metrics_that_have_no_ratio_are_not_compared(
    tmp_path: Path, metrics: tuple[float, ...], why: str
) -> None:
    write_programs(tmp_path / "runs", [with_metric("one", metrics)])
    assert reasons(the_side(tmp_path / "runs"))["llm: metric"] == why


def test_runs_of_one_build_count_together_and_those_of_another_do_not(tmp_path: Path) -> None:
    for at, (name, build, factor) in enumerate(
        [("old", "b" * 16, 9.0), ("one", "c" * 16, 1.0), ("two", "c" * 16, 1.2)]
    ):
        row = program(name, nine(factor), program_hash=build, started_utc=f"2026-01-0{at + 1}")
        write_programs(tmp_path / "runs", [row])
    time = quantities(the_side(tmp_path / "runs"))["llm: time"]
    assert len(time.runs) == 2
    assert time.value == pytest.approx((1.0 * 1.2) ** 0.5, rel=1e-3)
    # t of one degree of freedom, 12.706, times ln(1.2)/√2/√2
    assert time.high == pytest.approx(time.value * 1.2 ** (12.706 / 2), rel=1e-3)


def labelled(runs: Path, name: str, label: str, factor: float) -> None:
    run = replace(manifest(name, 2, 1, kind="programs"), label=label)
    write_run(runs / name, run, [program(name, nine(factor))])


def test_two_labels_of_one_folder(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, label, factor in (("one", "v1", 1.0), ("two", "v2", 1.3)):
        labelled(runs, name, label, factor)
    first, second = (the_side(runs, build=label) for label in ("v1", "v2"))
    found = compare(first, second)
    assert change(found, "llm: time").ratio == pytest.approx(1.3)
    assert "label: v1 and v2" in found.differences
    assert (first.builds, second.builds) == (("v1",), ("v2",))
    with pytest.raises(UsageError, match="no run has the label 'v3'; there are v1, v2"):
        the_side(runs, build="v3")


def test_a_server_has_its_first_token_token_time_rate_energy_and_memory(tmp_path: Path) -> None:
    # Two requests at once, first tokens after 0.1 and 0.2 s, then two more, 0.05 s apart: 0.15 s
    # is the median; 6 tokens in 0.3 s; 12 J of 6 tokens.
    rounds = [
        generation_round(
            [
                generation_request(0.0, [0.1, 0.15, 0.2]),
                generation_request(0.0, [0.2, 0.25, 0.3]),
            ],
            whole=window({"VDD_IN": 6.0}, ("VDD_IN",), window_s=2.0, repetitions=6),
        )
        for _ in range(5)
    ]
    write_generations(tmp_path / "runs", [generation("one", rounds, memory_bytes=1000)])
    seen = {one.kind: one for one in the_side(tmp_path / "runs").quantities}
    assert {kind: round(one.value, 6) for kind, one in seen.items()} == {
        "first-token": 0.15,
        "token-time": 0.05,
        "rate": 20.0,
        "energy": 2.0,
        "memory": 1000.0,
    }
    assert seen["rate"].name == "tiny on llama.cpp, prompt 100, answer 3, 2 at once: rate"
    assert seen["rate"].n_repetitions == 5


def test_networks_at_once_have_rates_and_a_makespan(tmp_path: Path) -> None:
    # 30 runs of a in a window of 2 s; rounds of 0.1 s that are 0.12 s on the other side.
    sides = []
    for name, factor in (("a", 1.0), ("b", 1.2)):
        rounds = tuple(nine(0.1 * factor))
        row = replace(RUN, run_id=name, window_s=2.0, order="in step", round_s=rounds)
        write_run(tmp_path / name / "run", manifest(name, 2, 1, kind="multi"), [row])
        sides.append(the_side(tmp_path / name))
    seen = quantities(sides[0])
    whole = "a on cpu:0, b on cpu:1, in step, in threads"
    assert seen[f"{whole}: network 1, a: rate"].value == pytest.approx(15.0)
    found = compare(sides[0], sides[1])
    makespan = change(found, f"{whole}: makespan")
    assert (round(makespan.ratio, 3), makespan.is_significant) == (1.2, True)
    assert change(found, f"{whole}: network 1, a: rate").is_significant is None  # one value a side


def test_kernels_need_not_be_there_and_may_be_on_one_side(tmp_path: Path) -> None:
    write_networks(tmp_path / "a", [measurement("net", nine(0.02))])
    write_programs(tmp_path / "a", [program("prog", nine(1.0))])
    write_programs(tmp_path / "b", [program("prog", nine(1.0))])
    first, second = (the_side(tmp_path / name) for name in "ab")
    (pair,), _, _ = pair_runs([first], [second])
    found = compare(*pair)
    assert [one.quantity for one in found.changes] == ["llm: time", "llm: peak memory"]
    assert found.only_first == (f"{NET}: time",)


def test_a_baseline_keeps_what_a_later_test_needs(tmp_path: Path) -> None:
    for name, factor in (("a", 1.0), ("b", 1.1)):
        write_programs(tmp_path / name, [program(name, nine(factor), metric=2.0)])
    first, second = (the_side(tmp_path / name) for name in "ab")
    write_baseline(tmp_path / "base.json", [first])
    (kept,) = read_baseline(tmp_path / "base.json")
    assert kept == first
    assert compare(kept, second) == compare(first, second)
    assert read_baseline(tmp_path / "base.json", name="x: ", mode="2C")[0].label == "x: 2c"
    with pytest.raises(UsageError, match="no mode '9c'; there are 2c"):
        read_baseline(tmp_path / "base.json", mode="9c")
    with pytest.raises(UsageError, match="no label 'v1'; there are none"):
        read_baseline(tmp_path / "base.json", build="v1")


def broken(text: str, way: str) -> str:
    """A baseline that was cut, or whose document was changed."""
    if way in {"empty", "cut"}:
        return text[: len(text) // 2 if way == "cut" else 0]
    if way == "huge":
        return text.replace('"value": ', '"value": 1e999, "was": ', 1)
    document = json.loads(text)
    (side,) = document["content"]["sides"]
    time = side["quantities"][0]
    runs = {"negative": [-1.0, 1.0], "vast": [1e300] * 9, "text": ["fast"]}
    if way in runs:
        time["runs"][0][""] = runs[way]
    else:
        changes: dict[str, tuple[Any, Any, Any]] = {
            "version": (document, "version", 99),
            "high end": (time, "high", 1e300),
            "no runs": (document["content"], "sides", []),
            "empty run": (time["runs"], 0, {}),
            "kind": (time, "kind", "p51"),
        }
        place, name, value = changes[way]
        place[name] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("way", "error"),
    [
        *((way, SchemaError) for way in ("empty", "cut", "version", "huge", "text", "kind")),
        *((way, InputError) for way in ("negative", "vast", "high end", "no runs", "empty run")),
    ],
)
def test_a_bad_baseline_is_refused_in_a_line(
    tmp_path: Path, way: str, error: type[MansardError]
) -> None:
    write_programs(tmp_path / "runs", [program("one", nine(1.0))])
    path = tmp_path / "base.json"
    write_baseline(path, [the_side(tmp_path / "runs")])
    path.write_text(broken(path.read_text(), way))
    with pytest.raises(error) as refused:
        read_baseline(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
