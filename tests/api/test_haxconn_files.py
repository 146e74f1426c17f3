"""HaX-CoNN's files as a problem: what is read, what is missing, and what is odd."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard import api
from mansard.api.deciding.haxconn_files import HaxconnFiles, read_haxconn
from mansard.api.deciding.haxconn_logs import published_rounds, solver_overheads
from mansard.core.errors import InputError, MansardError, UsageError

LAYERS = {
    "0-9": {"gpu": {"total_gpu_time_ms": 0.4, "layer_count": 10}},
    "10-24": {"gpu": {"total_gpu_time_ms": 0.2, "layer_count": 15}},
    "25-29": {"gpu": {"total_gpu_time_ms": 0.3, "layer_count": 5}},
}
# The engine that changes at 10 has 1 ms on the DLA, the one that changes at 24 0.4 ms. A mark names
# the first layer of a group or the one before it, so 24 is the group that begins at 25.
ENGINES = {
    "net_gpu_transition_at_24": {"total_time": 0.4, "layer_diff": 0},
    "net_gpu_transition_at_10": {"total_time": 1.0, "layer_diff": 0.6},
    "net_dla_transition_at_-1": {"total_time": 0, "layer_diff": 0},
}
MARKS = {
    "net_gpu_mark_at_-1": {"mean_time": 1.0, "transition_cost": 0.0},
    "net_gpu_mark_at_10": {"mean_time": 1.021, "transition_cost": 0.021},
    "net_gpu_mark_at_24": {"mean_time": 0.999, "transition_cost": -0.001},
    "net_dla_mark_at_10": {"mean_time": 2.0, "transition_cost": 0.073},
    "net_dla_mark_at_24": {"mean_time": 2.0, "transition_cost": 0.05123},
}
ROUNDS = """Summary of Exp1. A and B
Only GPU: 8.1 ms
HaX-CoNN: 7.8 ms
Overall improvement over best-baseline: 4.86%
This is claimed in the paper as 0%.
"""
TOTAL = "{} a_dla_{}_1_results.log:[12/28/2023-19:33:36] [I]    Total     {}    6.43    100.0\n"


def written(folder: Path, **files: Any) -> Path:
    """A folder with files, by the ends of their names."""
    folder.mkdir(exist_ok=True)
    for kind, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        ending = {"rounds": "multi_dnn_expected.txt", "overhead": "z3_overhead.txt"}.get(kind)
        (folder / (ending or f"{kind}.json")).write_text(text, encoding="utf-8")
    return folder


def read(folder: Path, **files: Any) -> HaxconnFiles:
    return read_haxconn([written(folder, **files)])


def test_times_costs_and_directions(tmp_path: Path) -> None:
    imported = read(
        tmp_path, layer_results=LAYERS, dla_compute_times=ENGINES, transition_results=MARKS
    )
    (network,) = imported.problem.networks
    assert (network.name, network.model) == ("net", "net")
    first, second, third = network.groups
    assert [group.name for group in network.groups] == ["0-9", "10-24", "25-29"]
    assert first.time_s == {"gpu": pytest.approx(0.4e-3)}  # no engine runs all on the DLA
    assert second.time_s == {"gpu": pytest.approx(0.2e-3), "dla0": pytest.approx(0.6e-3)}
    assert third.time_s == {"gpu": pytest.approx(0.3e-3), "dla0": pytest.approx(0.4e-3)}
    assert first.leave_s == {"gpu": pytest.approx(21e-6), "dla0": pytest.approx(73e-6)}
    assert second.leave_s == {"gpu": 0.0, "dla0": pytest.approx(51.23e-6)}
    assert third.leave_s == {}
    assert {group.source for group in network.groups} == {"published"}
    notes = "\n".join(imported.problem.notes)
    assert "1 costs below 0 count as 0" in notes
    assert "no engine runs all on the DLA, so 0-9 has no time there" in notes
    assert "dummy" not in notes
    assert "units" not in notes


def test_groups_are_joined_where_the_profile_of_the_dla_cannot_be(tmp_path: Path) -> None:
    layers = {**LAYERS, "30-39": {"gpu": {"total_gpu_time_ms": 0.1}}}
    engines = {f"net_gpu_transition_at_{at}": {"total_time": ms} for at, ms in
               ((10, 1.0), (24, 0.02), (30, 0.3))}  # fmt: skip
    imported = read(tmp_path, layer_results=layers, dla_compute_times=engines)
    groups = imported.problem.networks[0].groups
    assert [group.name for group in groups] == ["0-9", "10-29", "30-39"]
    # 0.2 + 0.3 ms on the GPU; 1.0 − 0.3 ms on the DLA.
    assert groups[1].time_s == {"gpu": pytest.approx(0.5e-3), "dla0": pytest.approx(0.7e-3)}
    assert any("engines that change at 24 spend less" in note for note in imported.problem.notes)


def test_what_is_missing_or_looks_made_up_is_said(tmp_path: Path) -> None:
    alone = read(tmp_path / "alone", layer_results=LAYERS)
    notes = "\n".join(alone.problem.notes)
    assert "no transition_results.json: changes of accelerator are unknown" in notes
    assert "no dla_compute_times.json: times on the DLA are unknown" in notes
    assert [group.time_s for group in alone.problem.networks[0].groups] == [
        {"gpu": pytest.approx(time_s)} for time_s in (0.4e-3, 0.2e-3, 0.3e-3)
    ]
    marks = {f"net_gpu_mark_at_{at}": {"transition_cost": 0.05} for at in (10, 24)}
    marks["net_gpu_mark_at_-1"] = {"transition_cost": 0.0, "mean_time": 900.0}  # microseconds
    odd = read(tmp_path / "odd", layer_results=LAYERS, transition_results=marks)
    notes = "\n".join(odd.problem.notes)
    assert "one table, of leaving the GPU; what leaving the DLA costs is unknown" in notes
    assert "whole multiples of 10 us: dummy data?" in notes
    assert "units: the groups take 0.9 ms on the GPU and the whole engine 900" in notes


def test_times_on_the_dla_beside_those_on_the_gpu_come_first(tmp_path: Path) -> None:
    layers = {name: {**entry, "dla": {"total_time": 9.0, "layer_diff": 0.7}}
              for name, entry in LAYERS.items()}  # fmt: skip
    imported = read(tmp_path, layer_results=layers, dla_compute_times=ENGINES)
    assert all(
        group.time_s["dla0"] == pytest.approx(0.7e-3)
        for group in imported.problem.networks[0].groups
    )
    uses = {each.file: each.use for each in imported.files}
    assert "nothing: layer_results.json has times" in uses["dla_compute_times.json"]


def test_each_folder_is_a_network(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "net", layer_results=LAYERS, dla_compute_times=ENGINES, transition_results=MARKS
    )
    both = read_haxconn([folder, folder])
    assert [network.name for network in both.problem.networks] == ["net", "net #2"]
    request = api.ScheduleRequest(sources=(folder, folder), save=tmp_path / "problem.toml")
    answer = api.schedule(request)
    assert answer.best.is_optimal
    again = api.schedule(api.ScheduleRequest(problem=tmp_path / "problem.toml"))
    assert again.best.makespan_s == answer.best.makespan_s


def test_the_logs() -> None:
    (pair,) = published_rounds(ROUNDS)
    assert pair.pair == "A and B"
    assert pair.gain == pytest.approx(0.0486)
    assert pair.time_s == {"Only GPU": pytest.approx(8.1e-3), "HaX-CoNN": pytest.approx(7.8e-3)}
    text = TOTAL.format("<", "x", 6000.0) + "---\n" + TOTAL.format(">", "x", 6060.0)
    assert solver_overheads(text) == [pytest.approx(0.01)]
    assert solver_overheads(TOTAL.format(">", "x", 6060.0)) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"layer_results": {}}, "holds no groups of layers"),
        ({"layer_results": "{"}, "is not JSON"),
        ({"layer_results": [1]}, "is not what HaX-CoNN writes"),
        ({"layer_results": {"0-9": {"gpu": {"total_gpu_time_ms": "1"}}}}, "Expected `float"),
        ({"layer_results": {"0-9": {"gpu": {"total_gpu_time_ms": -1}}}}, "Expected `float` >= 0"),
        ({"layer_results": '{"0-9": {"gpu": {"total_gpu_time_ms": NaN}}}'}, "is not what HaX-CoNN"),
        ({"layer_results": {"0-9": {}}}, "group 0-9 has no time above 0"),
        ({"layer_results": {"9-0": {}}}, "'9-0' is not a group of layers"),
        ({"layer_results": {"a\x1b[2J": {}}}, r"is not a group of layers"),
        (
            {"layer_results": {**LAYERS, "31-32": {"gpu": {"total_gpu_time_ms": 1}}}},
            "group 31-32 does not follow layer 29",
        ),
        ({"layer_results": LAYERS, "transition_results": {"x": {}}}, "is not what HaX-CoNN"),
        (
            {"layer_results": LAYERS, "transition_results": {"x": {"transition_cost": 1}}},
            "'x' does not name a network, gpu or dla, and the layer",
        ),
        (
            {
                "layer_results": LAYERS,
                "dla_compute_times": {
                    f"{name}_gpu_transition_at_10": {"total_time": 1.0} for name in "ab"
                },
            },
            "is of several networks: a, b",
        ),
        ({"layer_results": LAYERS, "emc_results": {"c": {"k": "890%"}}}, "is not a percentage"),
        ({"layer_results": LAYERS, "rounds": "nothing"}, "holds no summary of a pair"),
        ({"layer_results": LAYERS, "overhead": ""}, "holds no run alone and beside the solver"),
        ({"rounds": ROUNDS}, "none of them is a layer_results.json"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path, **files)
    assert str(error.value).isprintable()


_NUMBERS = st.one_of(
    st.floats(), st.integers(-(2**70), 2**70), st.none(), st.text(max_size=3), st.booleans()
)
_KEYS = st.one_of(
    st.sampled_from(["0-9", "10-24", "25-29", "net_gpu_mark_at_10", "net_dla_transition_at_-1"]),
    st.text(max_size=5),
)
_ENTRIES = st.dictionaries(
    st.sampled_from(
        ["gpu", "dla", "total_time", "transition_cost", "mean_time", "total_gpu_time_ms"]
    ),
    st.one_of(_NUMBERS, st.dictionaries(st.sampled_from(["total_gpu_time_ms"]), _NUMBERS)),
    max_size=3,
)


@settings(max_examples=200)
@given(
    layers=st.dictionaries(_KEYS, _ENTRIES, max_size=3),
    engines=st.dictionaries(_KEYS, _ENTRIES, max_size=3),
    text=st.text(max_size=40),
)
def test_any_content_is_a_problem_or_one_line(
    layers: dict[str, Any], engines: dict[str, Any], text: str
) -> None:
    with TemporaryDirectory() as name:
        folder = written(
            Path(name),
            layer_results=layers,
            dla_compute_times=engines,
            transition_results=engines,
            rounds=ROUNDS + text,
        )
        with suppress(MansardError):
            assert all(group.time_s for group in read_haxconn([folder]).problem.networks[0].groups)


def test_what_is_not_there_or_not_theirs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not there"):
        read_haxconn([tmp_path / "none"])
    with pytest.raises(UsageError, match="holds none of HaX-CoNN's files"):
        read_haxconn([tmp_path])
    strange = tmp_path / "mylayer_results.json"  # another word than theirs
    strange.write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="is not one of HaX-CoNN's files"):
        read_haxconn([strange])
    written(tmp_path, layer_results=LAYERS)
    (tmp_path / "net_layer_results.json").write_text(json.dumps(LAYERS), encoding="utf-8")
    with pytest.raises(UsageError, match=r"two are a layer_results\.json"):
        read_haxconn([tmp_path])
    with pytest.raises(UsageError, match="cannot be combined with other problems"):
        api.schedule(api.ScheduleRequest(sources=(tmp_path,), models=("resnet18",)))


@pytest.mark.shared_data
def test_the_recorded_files_give_a_proven_schedule(shared_data: Path) -> None:
    answer = api.schedule(api.ScheduleRequest(sources=(shared_data / "scheduling",)))
    assert answer.best.is_optimal
    assert len(answer.files) == 6
    (network,) = answer.problem.networks
    assert network.name == "googlenet"
    # Engines that change at 24, 67 and 110 have less on the DLA than later ones.
    assert [group.name for group in network.groups] == [
        "0-9", "10-38", "39-52", "53-80", "81-94", "95-123", "124-140",
    ]  # fmt: skip
    # 0.1490 + 0.2048 ms on the GPU; 2.4640 − 1.9233 ms on the DLA.
    assert network.groups[1].time_s == {
        "gpu": pytest.approx(0.35371511e-3),
        "dla0": pytest.approx(0.540612941e-3),
    }
    assert [pair.time_s["HaX-CoNN"] for pair in answer.published] == pytest.approx(
        [7.8e-3, 14.4e-3, 8.4e-3, 13.6e-3]
    )
