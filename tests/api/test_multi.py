"""Several networks at once through the API, on the CPU: kept, resumed, accounted for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.analytics.data.opening import open_runs
from mansard.core.errors import InputError, MansardError, ModelError, UsageError
from mansard.device.identity import identify
from mansard.sweeps.mappings import whole_mapping
from reproductions.nn_profiler.__main__ import main
from tests.inference.small_networks import perceptron
from tests.inference.test_cutting import residual
from tests.undisturbed import without_doubts

pytestmark = pytest.mark.usefixtures("beside_each_other")

SECONDS_S = 3.0


@pytest.fixture
def request_of(tmp_path: Path) -> api.MultiRequest:
    return api.MultiRequest(
        multi=api.MultiSettings(seconds_s=SECONDS_S),
        profile="brief",
        is_local=True,
        runs=tmp_path / "runs",
    )


def four(folder: Path) -> api.Mapping:
    """Four networks: one in three stages, of which two are on one device, one there twice."""
    perceptron(folder / "mlp.onnx")
    ends = ((1, "cpu:0"), (6, "cpu:0"), (None, "cpu"))
    stages = tuple(api.StagePlace(device=device, end=end) for end, device in ends)
    whole = [api.MappedNetwork(model=str(folder / name)) for name in ("mlp.onnx", "residual.onnx")]
    split = api.MappedNetwork(model=str(residual(folder)), stages=stages)
    return api.Mapping(networks=(split, *whole, whole[0]))


def test_four_networks_are_accounted_for_and_kept(
    request_of: api.MultiRequest, tmp_path: Path
) -> None:
    mapping = four(tmp_path)
    result = api.run_mappings(request_of, [mapping])
    result.check()
    (found,) = result.rows
    row = found.row
    assert row.mapping == ("residual: 1 cpu:0, 6 cpu:0, cpu; mlp: cpu; residual: cpu; mlp: cpu")
    for number, network in enumerate(row.networks):
        own = [each for each in row.stages if each.network_number == number]
        spent_s = [each.inference_s + each.transfer_s + each.wait_s for each in own]
        assert sum(spent_s) >= 0.98 * SECONDS_S
        assert sum(spent_s) == pytest.approx(SECONDS_S, rel=1e-6)
        assert network.n_runs == own[-1].n_runs > 0
    assert [each.nodes for each in row.stages[:3]] == [(0, 1), (2, 3, 4, 5, 6), (7, 13)]
    assert {each.name for each in row.telemetry} >= {"cpu0_share", "memory_bytes"}

    assert open_runs([request_of.runs]).multi == (row,)
    without_doubts(request_of.runs)
    (again,) = api.run_mappings(request_of, [mapping]).rows
    assert (again.row.trial_id, again.row.stages) == (row.trial_id, row.stages)
    assert not list(request_of.runs.glob("**/*.onnx"))  # nor are its files kept
    assert main(["write", str(request_of.runs), str(tmp_path / "nn")]) == 0
    (path,) = (tmp_path / "nn/Multinet/Processed/Mode0").iterdir()
    content = msgspec.json.decode(path.read_bytes())
    assert list(content["stageSummary"]) == ["residual", "mlp", "residual#2", "mlp#2"]
    assert list(content["stageSummary"]["residual"]) == ["cpu:0", "cpu:0#2", "cpu"]
    # A perceptron of the width 64: two Gemm of 64 · 64 multiply-adds, each with its weights.
    assert content["ModelInfo"]["mlp"]["cpu"]["macs"] == "8.19 k"
    assert content["mapping"]["residual"] == {"1": "cpu:0", "6": "cpu:0", "13": "cpu"}


def places(*stages: tuple[int | None, str]) -> tuple[api.StagePlace, ...]:
    return tuple(api.StagePlace(device=device, end=end) for end, device in stages)


@pytest.mark.parametrize(
    ("stages", "error", "what"),
    [
        (places((3, "cpu"), (None, "cpu")), UsageError, "no cut behind node 3; .*behind 1 and 6"),
        (places((None, "cpu"), (None, "cpu")), UsageError, "has no last node"),
        (places((1, "cpu"), (1, "cpu"), (None, "cpu")), UsageError, "end at one cut"),
        (places((None, "gpu")), UsageError, "there is no device 'gpu'"),
        (places((None, "npu")), MansardError, "unknown device 'npu'"),
        (places((None, "cpu:4000")), MansardError, "there is no CPU 4000 in this mode"),
        ((), UsageError, "no network or no stage"),
    ],
)
def test_what_nothing_could_run_is_one_line(
    request_of: api.MultiRequest,
    tmp_path: Path,
    stages: tuple[api.StagePlace, ...],
    error: type[MansardError],
    what: str,
) -> None:
    network = api.MappedNetwork(model=str(residual(tmp_path)), stages=stages)
    with pytest.raises(error, match=what):
        api.run_mappings(request_of, [api.Mapping(networks=(network,))])
    assert not list(request_of.runs.glob("*/multi.jsonl"))


def test_a_network_without_a_cut_cannot_be_split(
    request_of: api.MultiRequest, tmp_path: Path
) -> None:
    from onnx import helper

    from tests.inference.small_networks import write

    # Of a single node nothing lies between two.
    node = helper.make_node("Relu", ["x"], ["y"])
    write(tmp_path / "relu.onnx", [node], {}, inputs={"x": (1, 4)})
    stages = places((0, "cpu"), (None, "cpu"))
    network = api.MappedNetwork(model=str(tmp_path / "relu.onnx"), stages=stages)
    with pytest.raises(ModelError, match="relu has no cut"):
        api.run_mappings(request_of, [api.Mapping(networks=(network,))])


def test_settings_that_cannot_be(request_of: api.MultiRequest, tmp_path: Path) -> None:
    mapping = four(tmp_path)
    zero = api.MultiSettings(seconds_s=0.0)
    with pytest.raises(UsageError, match="--duration is above 0"):
        api.run_mappings(msgspec.structs.replace(request_of, multi=zero), [mapping])
    batches = api.NetworkSettings(batches=(1, 2))
    with pytest.raises(UsageError, match="one batch size"):
        api.run_mappings(msgspec.structs.replace(request_of, settings=batches), [mapping])
    with pytest.raises((UsageError, InputError), match="no_such_network"):
        api.run_mappings(request_of, [whole_mapping(["no_such_network"])])


def test_drawn_mappings_run(request_of: api.MultiRequest, tmp_path: Path) -> None:
    four(tmp_path)
    names = [str(tmp_path / name) for name in ("mlp.onnx", "residual.onnx")]
    chosen = ("--devices", "cpu:0,cpu", "-n", "2", "--per-set", "2", "--seed", "3")
    assert main(["draw", *names, *chosen, "-o", str(tmp_path / "mappings.json")]) == 0
    brief = msgspec.structs.replace(request_of, multi=api.MultiSettings(seconds_s=0.1))
    result = api.run_mappings(brief, api.read_mappings(tmp_path / "mappings.json"))
    result.check()
    assert len(result.rows) == 2
    assert any(each.n_stages == 2 for found in result.rows for each in found.row.networks)


def test_a_mapping_that_comes_twice_is_run_once(
    request_of: api.MultiRequest, tmp_path: Path
) -> None:
    perceptron(tmp_path / "mlp.onnx")
    brief = msgspec.structs.replace(request_of, multi=api.MultiSettings(seconds_s=0.1))
    mapping = whole_mapping([str(tmp_path / "mlp.onnx")], ["cpu:0"])
    result = api.run_mappings(brief, [mapping, mapping])
    result.check()
    assert len(result.rows) == 1


def test_mappings_that_differ_are_drawn_and_too_few_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # One network, whole, on two devices: two mappings.
    chosen = ("--devices", "cpu:0,cpu", "-n", "5", "--most-split", "0")
    path = tmp_path / "mappings.json"
    assert main(["draw", str(tmp_path / "mlp.onnx"), *chosen, "-o", str(path)]) == 0
    assert len(set(api.read_mappings(path))) == 2
    assert capsys.readouterr().err.startswith("2 mappings, not 5")


def test_a_mode_without_the_cpus_is_left_out(request_of: api.MultiRequest, tmp_path: Path) -> None:
    cpus = identify().cpus
    if len(cpus) < 2:
        pytest.skip("it takes two CPUs")
    perceptron(tmp_path / "mlp.onnx")
    mapping = whole_mapping([str(tmp_path / "mlp.onnx")], [f"cpu:{cpus[1]}"])
    brief = msgspec.structs.replace(request_of, multi=api.MultiSettings(seconds_s=0.1))
    both = msgspec.structs.replace(brief, mode="1c,2c")
    assert [found.mode for found in api.run_mappings(both, [mapping]).rows] == ["2c"]
    with pytest.raises(UsageError, match="in this mode"):
        api.run_mappings(msgspec.structs.replace(brief, mode="1c"), [mapping])
