"""Mappings of several networks: read from files, and drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import InputError, UsageError
from mansard.inference.multi.mappings import (
    MappedNetwork,
    Mapping,
    StagePlace,
    check_mapping,
    device_cpus,
    dla_of,
    in_one_engine,
    read_mappings,
)
from reproductions.nn_profiler.drawing import Drawing, draw

SAMPLE = "networks/Varatheepan+NN-Profiler__README_multi_dnn_orin_nano_sample.json"
CUTS = {"a": (3, 7, 9), "b": (1,), "c": (), "d": (2, 4)}
DEVICES = ("gpu", "dla0", "cpu")


def test_a_file_names_the_last_node_of_each_stage(tmp_path: Path) -> None:
    path = tmp_path / "mappings.json"
    path.write_text(
        '[{"a": {"9": "dla0", "4": "cuda"}, "a#2": {"9": "cpu:0-1"}}, {"b": {"1": "gpu"}}]'
    )
    first, second = read_mappings(path)
    split = (StagePlace(device="gpu", end=4), StagePlace(device="dla0"))
    assert first.networks == (
        MappedNetwork(model="a", stages=split),
        MappedNetwork(model="a", stages=(StagePlace(device="cpu:0-1"),)),
    )
    assert second.networks == (MappedNetwork(model="b", stages=(StagePlace(device="gpu"),)),)


def split(*stages: tuple[str, int | None]) -> MappedNetwork:
    places = tuple(StagePlace(device=device, end=end) for device, end in stages)
    return MappedNetwork(model="a", stages=places)


def test_stages_on_a_gpu_and_a_dla_become_one_engine() -> None:
    both = split(("dla0", 3), ("gpu", 7), ("dla0", None))
    apart = split(("gpu", 4), ("cpu", None))
    mapping = Mapping(networks=(both, apart), turns=((0, 0), (1, 0), (0, 1), (1, 1), (0, 2)))
    one = in_one_engine(mapping)
    engine = StagePlace(device="gpu+dla0", on_dla=((0, 3), (8, None)))
    assert one.networks == (MappedNetwork(model="a", stages=(engine,)), apart)
    # The network takes its turn where its first stage had it; the other one is as it was.
    assert one.turns == ((0, 0), (1, 0), (1, 1))
    check_mapping(one)
    whole = MappedNetwork(model="a", stages=(StagePlace(device="dla1"),))
    alone = Mapping(networks=(split(("dla1", 4), ("dla1", None)), whole))
    assert in_one_engine(alone).networks == (whole, whole)
    assert device_cpus("gpu+dla0", (0, 1)) == (0, 1)
    assert [dla_of(device) for device in ("gpu+dla1", "dla0", "gpu", "cpu:0")] == [
        *("dla1", "dla0", "", "")
    ]


@pytest.mark.parametrize(
    ("network", "line"),
    [
        (split(("gpu", 3), ("dla0", 5), ("cpu", None)), "a: a stage on cpu cannot be part of an"),
        (split(("dla0", 3), ("dla1", None)), "a: an engine has one DLA core.* on dla0 and dla1"),
    ],
)
def test_stages_that_no_engine_has_together_are_refused(network: MappedNetwork, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        in_one_engine(Mapping(networks=(network,)))


@pytest.mark.shared_data
def test_nn_profilers_files_are_read(shared_data: Path) -> None:
    (found,) = read_mappings(shared_data / SAMPLE)
    assert [each.model for each in found.networks] == [
        *("resnet50", "mnasnet1_0", "alexnet", "mobilenet_v2")
    ]
    assert {each.stages for each in found.networks} == {(StagePlace(device="gpu"),)}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "is not JSON"),
        ("[]", "it holds no mapping"),
        ('{"a": {}}', "a: there is no stage"),
        ('{"a": {"last": "gpu"}}', "a: 'last' is not a number of a node"),
        ('{"a": ["gpu"]}', "this is not a mapping"),
        ('{"a": {"3": 1}}', "this is not a mapping"),
        ('{"a": {"3": "cpu"}, "a": {"3": "gpu"}}', "'a' is there twice; .* #2 behind its name"),
    ],
)
def test_what_is_no_mapping_is_one_line(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "mappings.json"
    path.write_text(text)
    with pytest.raises(InputError, match=what):
        read_mappings(path)


def test_turns_have_each_stage_once_and_in_order() -> None:
    stages = (StagePlace(device="gpu", end=1), StagePlace(device="cpu"))
    network = MappedNetwork(model="a", stages=stages)
    for turns, what in (
        (((0, 0),), "not its stages, each once"),
        (((0, 1), (0, 0)), "in another order than they run"),
    ):
        with pytest.raises(UsageError, match=what):
            check_mapping(Mapping(networks=(network,), turns=turns))


def test_numbers_of_networks_and_sets() -> None:
    # 7 mappings of 2 to 3 networks: 3 of 2, the rest, 4, of 3. Sets of two mappings: 2 + 1, 2 + 2.
    drawn = draw(CUTS, DEVICES, Drawing(n_mappings=7, n_networks=(2, 3), per_set=2, seed=1))
    sizes = [len(each.networks) for each in drawn]
    assert sizes == [2, 2, 2, 3, 3, 3, 3]
    sets = [tuple(network.model for network in each.networks) for each in drawn]
    assert sets[0] == sets[1]
    assert (sets[3], sets[5]) == (sets[4], sets[6])


def test_how_many_networks_are_split() -> None:
    cuts = dict.fromkeys("abcde", (1, 2, 3))

    def n_split(**settings: Any) -> dict[int, int]:
        drawn = draw(cuts, DEVICES, Drawing(n_mappings=100, per_set=100, **settings))
        split = [sum(len(n.stages) > 1 for n in each.networks) for each in drawn]
        return dict(Counter(split))

    # 0 to 5: 16 each, and of the 4 that are left one each to 5, 4, 3 and 2.
    assert n_split() == {5: 17, 4: 17, 3: 17, 2: 17, 1: 16, 0: 16}
    # At most 2: 33 each, the one that is left to none split.
    assert n_split(most_split=2) == {2: 33, 1: 33, 0: 34}
    assert n_split(most_split=0) == {0: 100}


@given(seed=st.integers(0, 1000))
def test_stages_are_on_different_devices_and_end_at_cuts(seed: int) -> None:
    drawing = Drawing(n_mappings=5, n_networks=(1, 4), priorities=(5, 1, 1), seed=seed)
    drawn = draw(CUTS, DEVICES, drawing)
    assert drawn == draw(CUTS, DEVICES, drawing)
    for network in (network for each in drawn for network in each.networks):
        devices = [stage.device for stage in network.stages]
        assert len(set(devices)) == len(devices)
        ends = [stage.end for stage in network.stages[:-1] if stage.end is not None]
        assert ends == sorted(set(ends))
        assert set(ends) <= set(CUTS[network.model])
        assert network.stages[-1].end is None


def test_gpu_only_single_and_priorities() -> None:
    drawing = Drawing(n_mappings=40, per_set=10, has_gpu_only=True, has_single=True, most_split=0)
    drawn = draw(CUTS, DEVICES, drawing)
    single, rest = drawn[:12], drawn[12:]
    assert [(each.networks[0].model, each.networks[0].stages[0].device) for each in single] == [
        (model, device) for model in CUTS for device in DEVICES
    ]
    for first in rest[::10]:
        assert {place.device for n in first.networks for place in n.stages} == {"gpu"}
    # With 18 of 20 the CPU has more than all others, also where no mapping comes twice.
    heavy = draw(CUTS, DEVICES, Drawing(n_mappings=20, priorities=(1, 1, 18), most_split=0))
    devices = Counter(n.stages[0].device for each in heavy for n in each.networks)
    assert devices["cpu"] > devices["gpu"] + devices["dla0"]


def test_no_mapping_comes_twice() -> None:
    # Two networks, whole, on two devices: 4 mappings are different, however many are asked for.
    cuts = {"a": (), "b": ()}
    drawn = draw(cuts, ("gpu", "cpu"), Drawing(n_mappings=8, most_split=0))
    assert len(drawn) == len(set(drawn)) == 4


@pytest.mark.parametrize(
    ("changes", "devices", "what"),
    [
        ({"n_networks": (2, 9)}, DEVICES, "cannot have 2 to 9 of 4 networks"),
        ({"priorities": (1.0,)}, DEVICES, "1 priorities for 3 devices"),
        ({"priorities": (1.0, 0.0, 1.0)}, DEVICES, "a priority is not above 0"),
        ({"has_gpu_only": True}, ("cpu",), "it is no device"),
        ({"most_split": 1}, ("cpu",), "split among two devices or more"),
        ({}, ("cpu", "cpu"), "or with one twice"),
    ],
)
def test_numbers_that_cannot_be(
    changes: dict[str, Any], devices: tuple[str, ...], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        draw(CUTS, devices, Drawing(n_mappings=5, **changes))


def test_networks_without_a_cut_cannot_be_split() -> None:
    with pytest.raises(UsageError, match="c have no cut"):
        draw({"c": ()}, DEVICES, Drawing(n_mappings=1, most_split=1))
