"""Files of problems: what is written is read again, and hostile ones are one clear line each."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.api.deciding.problem_files import read_problem, write_problem
from mansard.core.errors import InputError
from mansard.core.records import (
    Accelerator,
    ContentionSurface,
    LayerGroup,
    NetworkChain,
    PccsFit,
    Problem,
)

HEAD = '[[accelerator]]\nname = "gpu"\nkind = "gpu"\n[[network]]\nmodel = "net"\n'
GROUP = HEAD + "[[network.group]]\n"
UNSAID = "the file does not say it"


def read(folder: Path, text: str, name: str = "problem.toml") -> Problem:
    (folder / name).write_text(text, encoding="utf-8")
    return read_problem(folder / name)


def test_quantities_and_keys(tmp_path: Path) -> None:
    text = (
        'goal = "energy"\nsteady = true\nmax_latency = "20ms"\nidle = "8W"\nsource = "published"\n'
        '[[accelerator]]\nname = "gpu"\nkind = "gpu"\n'
        '[[accelerator]]\nname = "dla"\nkind = "dla"\nmax_segments = 16\n'
        '[[network]]\nmodel = "a/net.onnx"\nrate = "30/s"\nbatch = 4\nprecision = "fp16"\n'
        'max_latency = "33ms"\nweight = 2\n'
        'group = [{ name = "one", time = { gpu = "0.36ms", dla = "750us" },'
        ' leave = { gpu = "0s" }, enter = { gpu = "5us" }, demand = { gpu = "50GB/s" },'
        ' energy = { gpu = "12mJ" }, time_error = { gpu = 0.02 }, nodes = [3, 4] }]\n'
    )
    found = read(tmp_path, text)
    assert (found.goal, found.is_steady, found.max_makespan_s) == ("energy", True, 20e-3)
    assert found.idle_w == 8.0
    assert found.accelerators[1] == Accelerator(name="dla", kind="dla", max_segments=16)
    (network,) = found.networks
    assert (network.name, network.model) == ("net", "a/net.onnx")
    assert (network.rate_per_s, network.batch, network.precision) == (30.0, 4, "fp16")
    assert (network.max_latency_s, network.weight) == (33e-3, 2.0)
    assert network.groups == (
        LayerGroup(
            name="one",
            time_s={"gpu": 0.36e-3, "dla": 750e-6},
            energy_j={"gpu": 12e-3},
            demand_byte_per_s={"gpu": 50e9},
            leave_s={"gpu": 0.0},
            enter_s={"gpu": 5e-6},
            time_error={"gpu": 0.02},
            nodes=(3, 4),
            source="published",
        ),
    )


def test_groups_follow_after(tmp_path: Path) -> None:
    groups = 'group = [{name="c", after="b"}, {name="a"}, {name="b", after="a"}]\n'
    found = read(tmp_path, HEAD + groups)
    assert [group.name for group in found.networks[0].groups] == ["a", "b", "c"]


def test_leave_alone_is_all_that_a_change_costs(tmp_path: Path) -> None:
    found = read(tmp_path, GROUP + 'time = {gpu = "1ms"}\nleave = {gpu = "20us"}\n')
    assert found.networks[0].groups[0].enter_s == {"gpu": 0.0}


BAD = {
    "": "missing required field `network`",
    "network = []": "network: Expected `array` of length >= 1",
    "[[network]]": "network 1: a network needs a model",
    'goal = "fast"\n' + HEAD: "goal: Invalid enum value 'fast'",
    HEAD.replace('"gpu"\n[[n', '"tpu"\n[[n'): "accelerator 1, kind: Invalid enum value 'tpu'",
    HEAD + "rate = 30": 'network 1: rate = 30 has no unit; write rate = "30/s"',
    HEAD + "batch = 99999999999": "batch 99999999999 is not a size",
    HEAD + "weight = nan": "network 1, weight: nan is not a number from 0",
    HEAD + "colour = 1": "network 1: Object contains unknown field `colour`",
    HEAD + '[[network]]\nmodel = "net"': "two are called 'net'",
    HEAD + "group = [{name='a'}, {name='a'}]": "two are called 'a'",
    HEAD + "group = [{name='a', after='b'}, {name='b', after='a'}]": "in a cycle: 'a', 'b'",
    HEAD + "group = [{name='a'}, {name='b', after='a'}, {name='c', after='a'}]": "both after 'a'",
    HEAD + "group = [{name='a', after='z'}]": "'z', which is none of its groups",
    GROUP + "time = {gpu = 3}": "network 1, group 1, time: 3 has no unit",
    GROUP + 'time = {gpu = "nan"}': "group 1, time: 'nan' is not a valid time; write 20ms",
    GROUP + 'time = {gpu = "-1ms"}': "group 1, time: '-1ms' is not a valid time",
    GROUP + 'time = {gpu = "0ms"}': "group 1, time: '0ms' bounds nothing",
    GROUP + 'time = {gpu = "1GB"}': "has the unit 'GB'",
    GROUP + 'time = {dla = "1ms"}': "group 1 of net: 'dla' is not an accelerator; there are gpu",
    GROUP + 'time = "1ms"': "group 1, time: Expected `object`, got `str`",
    HEAD + f"group = [{'{},' * 600}]": "group: Expected `array` of length <= 500",
    HEAD + '[surface.gpu]\nown=["1GB/s"]\nexternal=["2GB/s","1GB/s"]\nachieved=[]': "is none",
    HEAD + '[surface.gpu]\nown=["0GB/s"]\nexternal=["1GB/s"]\nachieved=[["0B/s"]]': "is none",
    HEAD.replace("[[n", "max_segments = 99999999999999999999\n[[n"): "max_segments: Expected `int`",
    HEAD.replace("[[n", "cpus = [-1]\n[[n"): "accelerator 1, cpus 1: Expected `int` >= 0",
    "[" * 5000: "is not TOML",
    f"machine = '{'x' * (1 << 20)}'": "is too long for a problem",
}


@pytest.mark.parametrize(("text", "line"), BAD.items(), ids=range(len(BAD)))
def test_a_hostile_file_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(InputError) as found:
        read(tmp_path, text)
    assert line in str(found.value)
    assert "problem.toml" in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "[" * 100_000, '{"network": [{"model": 3}]}', "nul", "\xff"),
        '{"network": [{"model": "a", "weight": NaN}]}',
    ],
)
def test_json_is_as_hostile(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as found:
        read(tmp_path, text, "problem.json")
    assert "\n" not in str(found.value)


def test_a_key_that_is_there_twice_is_no_json(tmp_path: Path) -> None:
    text = '{"network": [{"model": "a", "group": [{"time": {"gpu": "1ms", "gpu": "2ms"}}]}]}'
    with pytest.raises(InputError, match="is not JSON: 'gpu' is there twice"):
        read(tmp_path, text, "problem.json")


def test_a_model_of_any_length_is_a_name(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD.replace('"net"', repr("x" * 9000))).networks[0].model == "x" * 9000


NAMES = st.text(min_size=1, max_size=8)
AMOUNTS = st.floats(1e-9, 1e9)
COSTS = st.just(0.0) | AMOUNTS


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))

    def table(values: st.SearchStrategy[float]) -> st.SearchStrategy[dict[str, float]]:
        return st.dictionaries(st.sampled_from(names), values)

    groups = st.builds(
        LayerGroup,
        name=NAMES,
        time_s=table(AMOUNTS),
        energy_j=table(COSTS),
        demand_byte_per_s=table(COSTS),
        enter_s=st.dictionaries(st.sampled_from(names), COSTS, min_size=1),
        leave_s=table(COSTS),
        time_error=table(COSTS),
        leave_error_s=table(COSTS),
        source=st.sampled_from(["measured", "simulated", "modelled", "published"]),
        nodes=st.lists(st.integers(0, 99)).map(tuple),
    )
    networks = st.builds(
        NetworkChain,
        name=NAMES.filter(lambda name: not name.endswith(".onnx")),
        groups=st.lists(groups, max_size=3, unique_by=lambda each: each.name).map(tuple),
        model=st.just("resnet18"),
        batch=st.integers(1, 99),
        precision=st.sampled_from(["", "fp16"]),
        rate_per_s=COSTS,
        max_latency_s=COSTS,
        weight=COSTS,
    )
    fits = st.builds(
        PccsFit,
        points_per_byte_per_s=st.integers(0, 999).map(lambda n: n / 1e12),
        error_points=COSTS,
        left_out_points=st.none(),
        unknown=st.just({"left_out_points": UNSAID}),
        **{
            name: COSTS
            for name in PccsFit.__struct_fields__
            if name.endswith("_byte_per_s") and not name.startswith("points")
        },
        minor_points=COSTS,
    )
    surface = ContentionSurface(
        own_byte_per_s=(5e8, 1e9),
        external_byte_per_s=(3e9,),
        achieved_byte_per_s=((0.0,), (0.9e9,)),
    )
    idle_w = draw(st.none() | AMOUNTS)
    return Problem(
        accelerators=tuple(
            Accelerator(name=name, kind="cpu", cpus=(0, 3), max_segments=at)
            for at, name in enumerate(names)
        ),
        networks=tuple(
            draw(st.lists(networks, min_size=1, max_size=2, unique_by=lambda each: each.name))
        ),
        goal=draw(st.sampled_from(["makespan", "misses"])),
        is_steady=draw(st.booleans()),
        max_transitions=draw(st.integers(0, 9)),
        pccs=draw(st.dictionaries(st.sampled_from(names), fits, max_size=1)),
        surfaces=dict.fromkeys(names[1:], surface),
        idle_w=idle_w,
        max_power_w=draw(COSTS),
        machine=draw(st.text(max_size=9)),
        notes=tuple(draw(st.lists(st.text(max_size=9), max_size=2))),
        unknown={} if idle_w is not None else {"idle_w": UNSAID},
    )


@pytest.mark.parametrize("ending", [".toml", ".json"])
@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_what_is_written_is_read_again(
    ending: str, problem: Problem, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"problem{ending}"
    write_problem(path, problem)
    assert read_problem(path) == problem
    if ending == ".json":
        assert json.loads(path.read_text("utf-8"))["network"][0]["model"] == "resnet18"


def test_a_written_problem_is_read_by_people(tmp_path: Path) -> None:
    group = LayerGroup(name="conv1", time_s={"gpu": 0.36e-3}, demand_byte_per_s={"gpu": 50e9})
    problem = Problem(
        accelerators=(Accelerator(name="gpu", kind="gpu"),),
        networks=(NetworkChain(name="net", groups=(group,)),),
        unknown={"idle_w": UNSAID},
        idle_w=None,
    )
    write_problem(tmp_path / "problem.toml", problem)
    lines = (tmp_path / "problem.toml").read_text("utf-8").splitlines()
    assert lines[-3:] == [
        "group = [",
        '  {name = "conv1", source = "measured", time = {gpu = "360us"}, '
        'demand = {gpu = "50GB/s"}},',
        "]",
    ]
    changed = msgspec.structs.replace(problem.networks[0], model="net")
    assert read_problem(tmp_path / "problem.toml").networks == (changed,)
