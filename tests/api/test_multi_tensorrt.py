"""Stages on a GPU and a DLA core through the API, on a simulated board with TensorRT's stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.api.deciding.executions import run_schedules
from mansard.core.errors import MeasurementError, UsageError
from mansard.core.records import Accelerator, EngineBuild, LayerGroup, NetworkChain, Problem
from mansard.core.storage.documents import read_document
from mansard.scheduler import evaluate
from mansard.simulator import create_board
from tests.inference import stand_in
from tests.inference.test_cutting import residual

pytestmark = pytest.mark.usefixtures("beside_each_other")


@pytest.fixture(scope="module", autouse=True)
def tensorrt() -> Iterator[None]:
    with stand_in.played("10.3.0", device="orin"):
        yield


def mapping(model: Path, *devices: str) -> api.Mapping:
    """``model`` in two stages, of which the first ends behind node 6; and whole on the CPU."""
    first, second = devices
    stages = (api.StagePlace(device=first, end=6), api.StagePlace(device=second))
    return api.Mapping(
        networks=(
            api.MappedNetwork(model=str(model), stages=stages),
            api.MappedNetwork(model=str(model), stages=(api.StagePlace(device="cpu"),)),
        )
    )


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> api.MultiRequest:
    folder = tmp_path_factory.mktemp("multi")
    return api.MultiRequest(
        settings=api.NetworkSettings(engine="tensorrt", precisions=("fp16",), waiting="block"),
        multi=api.MultiSettings(seconds_s=3.0),
        profile="brief",
        is_local=True,
        board=create_board("agx-orin", folder / "boards"),
        runs=folder / "runs",
    )


def test_stages_on_gpu_dla_and_cpu(request_of: api.MultiRequest, tmp_path: Path) -> None:
    result = api.run_mappings(request_of, [mapping(residual(tmp_path), "gpu", "dla0")])
    result.check()
    (found,) = result.rows
    row = found.row
    assert row.source == "simulated"
    assert row.engine == "tensorrt, ort"
    assert [each.device for each in row.stages] == ["gpu", "dla0", "cpu"]
    assert all(each.n_runs > 0 for each in row.stages)
    # Whoever feeds a GPU or a DLA copies; the CPU reads its input where it lies.
    assert [each.transfer_s > 0 for each in row.stages] == [True, True, False]
    assert row.options["dla_core"] == "0"
    (network, *_) = row.networks
    assert (network.model, network.n_stages, network.precision) == ("residual", 2, "fp16")


def one_engine(request: api.MultiRequest) -> api.MultiRequest:
    multi = msgspec.structs.replace(request.multi, is_one_engine=True)
    return msgspec.structs.replace(request, multi=multi)


def test_stages_on_gpu_and_dla_are_one_engine(request_of: api.MultiRequest, tmp_path: Path) -> None:
    mapped = mapping(residual(tmp_path), "gpu", "dla0")
    result = api.run_mappings(one_engine(request_of), [mapped])
    result.check()
    ((row),) = (one.row for one in result.rows)
    assert [stage.device for stage in row.stages] == ["gpu+dla0", "cpu"]
    assert [network.n_stages for network in row.networks] == [1, 1]
    assert row.mapping == "residual: 7- on the DLA of gpu+dla0; residual: cpu"
    # Behind node 6 a DLA has the pooling (7), the Concat (11) and the Gemm (13).
    words = "3 of 7 nodes are on the DLA, the GPU runs 8-10,12"
    assert row.options["dla_placement of residual"] == words
    builds = [
        read_document(path, EngineBuild)
        for path in (request_of.runs / "engines").glob("*.engine.json")
    ]
    (both,) = (build for build in builds if "dla_nodes" in build.options)
    assert both.failure is None
    # Another placement is another engine file.
    other = mapping(residual(tmp_path), "dla0", "gpu")
    api.run_mappings(one_engine(request_of), [other]).check()
    files = list((request_of.runs / "engines").glob("*.engine"))
    assert len(files) == len({file.name for file in files}) == len(builds) + 1


def test_a_schedule_is_executed_as_one_engine(request_of: api.MultiRequest, tmp_path: Path) -> None:
    gpu, dla = Accelerator(name="gpu", kind="gpu"), Accelerator(name="dla0", kind="dla")
    times = ({"gpu": 1e-3, "dla0": 5e-3}, {"gpu": 5e-3, "dla0": 1e-3})
    groups = tuple(
        LayerGroup(
            name=f"group {number}",
            time_s=of_group,
            leave_s=dict.fromkeys(of_group, 0.0),
            enter_s=dict.fromkeys(of_group, 0.0),
            nodes=nodes,
        )
        for number, (of_group, nodes) in enumerate(
            zip(times, (tuple(range(7)), tuple(range(7, 14))), strict=True)
        )
    )
    chain = NetworkChain(
        name="net", model=str(residual(tmp_path)), groups=groups, precision="fp16", batch=1
    )
    problem = Problem(
        accelerators=(gpu, dla), networks=(chain,), idle_w=None, unknown={"idle_w": "no meter"}
    )
    for is_one in (False, True):
        request = one_engine(request_of) if is_one else request_of
        best = evaluate(problem, (("gpu", "dla0"),), "by hand")
        (ran,) = run_schedules(request, problem, [best])
        assert ran.measured_s is not None
        assert ("residual: 3 of 7 nodes are on the DLA" in ran.remark) is is_one


def test_a_dla_core_that_is_absent_is_one_line(
    request_of: api.MultiRequest, tmp_path: Path
) -> None:
    result = api.run_mappings(request_of, [mapping(residual(tmp_path), "gpu", "dla7")])
    with pytest.raises(MeasurementError, match="there is no DLA core 7: this device has 2"):
        result.check()


def test_a_dla_core_that_is_full_is_one_line(request_of: api.MultiRequest, tmp_path: Path) -> None:
    one = mapping(residual(tmp_path), "gpu", "dla0")
    full = api.Mapping(networks=17 * one.networks[:1])
    with pytest.raises(UsageError, match="17 stages on dla0: a DLA core holds 16 loadables"):
        api.run_mappings(request_of, [full])
