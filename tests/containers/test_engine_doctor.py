"""What doctor says of containers: one line, and one remedy where something is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard.api.checks import Check
from mansard.api.checks.containers import check_containers
from mansard.core.records import MachineIdentity
from mansard.device.identity import identify
from mansard.simulator import create_board
from tests.containers.stand_in_engine import DOCKER_28, PODMAN, Answers, stand_in_engine
from tests.containers.throwaway import Daemon


@pytest.fixture(scope="module")
def jetson(tmp_path_factory: pytest.TempPathFactory) -> MachineIdentity:
    """An AGX Orin as it would be if it were no simulation."""
    root = create_board("agx-orin", tmp_path_factory.mktemp("board"))
    return msgspec.structs.replace(identify(root), is_simulated=False, architecture="aarch64")


@pytest.fixture
def devices(folder: Path) -> Path:
    """A root folder with a Jetson's devices."""
    (folder / "dev").mkdir()
    for name in ("nvmap", "nvhost-ctrl"):
        (folder / "dev" / name).touch()
    return folder


def checks_with(
    address: str, root: Path, machine: MachineIdentity, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Check]:
    monkeypatch.setenv("DOCKER_HOST", address)
    found = list(check_containers(root, machine))
    assert len({check.name for check in found}) == len(found)
    for check in found:
        assert (check.fix is None) == (check.status == "ok")
        assert len(check.detail.splitlines()) == 1
    return {check.name: check for check in found}


def test_a_jetson_with_cdi_that_has_no_image_yet(
    devices: Path, jetson: MachineIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_in_engine(devices, DOCKER_28) as address:
        checks = checks_with(address, devices, jetson, monkeypatch)
    assert checks["containers"].detail.startswith("Docker 28.3.2 at unix://")
    assert checks["GPU in containers"].detail.startswith("by CDI: ")
    assert "runtime nvidia not there" in checks["GPU in containers"].detail
    assert checks["GPU devices"].detail == "2 in /dev, open to all"
    assert checks["container image"].status == "missing"
    assert "mansard data image build" in (checks["container image"].fix or "")
    assert "cannot be seen from here" in checks["image disk"].detail


def without(answers: Answers, *names: str) -> Answers:
    status, info = answers["/info"]
    return {**answers, "/info": (status, {k: v for k, v in info.items() if k not in names})}


def test_a_jetson_without_any_way_to_its_gpu(
    folder: Path, jetson: MachineIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = without(DOCKER_28, "CDISpecDirs", "DiscoveredDevices")
    with stand_in_engine(folder, bare) as address:
        checks = checks_with(address, folder, jetson, monkeypatch)
    assert "neither a runtime called nvidia nor CDI" in checks["GPU in containers"].detail
    assert "nvidia-ctk runtime configure" in (checks["GPU in containers"].fix or "")
    assert "LOCAL=1" in (checks["GPU in containers"].fix or "")
    assert checks["GPU devices"].status == "missing"
    assert "its driver is not loaded" in checks["GPU devices"].detail


def test_podman_on_a_jetson_is_a_warning(
    devices: Path, jetson: MachineIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_in_engine(devices, PODMAN) as address:
        checks = checks_with(address, devices, jetson, monkeypatch)
    assert checks["containers"].status == "warning"
    assert "leaves GPUs out" in checks["containers"].detail


def test_no_engine_is_a_fault_only_where_one_is_needed(
    folder: Path, jetson: MachineIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"unix://{folder}/no.sock"
    checks = checks_with(address, folder, jetson, monkeypatch)
    assert checks["containers"].status == "missing"
    assert "docker.io" in (checks["containers"].fix or "")
    plain = msgspec.structs.replace(jetson, kind="cpu", accelerators=())
    checks = checks_with(address, folder, plain, monkeypatch)
    assert checks["containers"].status == "ok"
    assert "none needed here" in checks["containers"].detail


@pytest.mark.docker
def test_a_real_engine(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = msgspec.structs.replace(identify(), kind="cpu", accelerators=())
    checks = checks_with(daemon.address, Path("/"), machine, monkeypatch)
    assert checks["containers"].status == "ok"
    assert "GPU in containers" not in checks
    assert "the kernels run on the CPU" in checks["container image"].detail
    assert "GB free in" in checks["image disk"].detail
