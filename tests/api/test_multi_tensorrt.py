"""Stages on a GPU and a DLA core through the API, on a simulated board with TensorRT's stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard import api
from mansard.core.errors import MeasurementError, UsageError
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
        multi=api.MultiSettings(seconds_s=0.3),
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
