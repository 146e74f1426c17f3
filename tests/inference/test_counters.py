"""Networks under a stand-in of Nsight Compute, on one of TensorRT and of NVIDIA's driver."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from onnx import helper

from mansard.core.power_mode import core_count_mode
from mansard.core.records import CounterRun
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.inference.counters.ncu import find_ncu
from mansard.inference.counters.trial import Counting, counter_kind
from mansard.inference.engines import find_engine
from mansard.inference.plan import (
    BuildSettings,
    BuildTrial,
    CounterPlan,
    CounterTrial,
    NetworkTrial,
)
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.plan import cpus_of
from mansard.measuring.protocol import find_protocol
from mansard.measuring.runner import run_plan
from tests.inference import small_networks, stand_in
from tests.inference.engine_rows import write_row
from tests.inference.ncu_stand_in import NAMES, write_ncu

SOURCE = Path(__file__).with_name("driver_stand_in.c")
pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler"),
]


# Where NVTX is: of CUDA up to 12 and of 13, on the loader's path and as NVIDIA's wheels have it.
NVTX_PLACES = (
    "libraries/libnvToolsExt.so.1",
    "libraries/libnvtx3interop.so.1",
    "wheels/nvidia/nvtx/lib/libnvtx3interop.so.1",
    "wheels/nvidia/cu13/lib/libnvtx3interop.so.1",
)


@pytest.fixture
def driver_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """What the driver and NVTX are called with, in processes that are started now."""
    libraries, nvtx = tmp_path / "libraries", getattr(request, "param", NVTX_PLACES[0])
    for name in ("libraries/libcuda.so.1", nvtx):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-shared", "-fPIC", "-o", str(tmp_path / name), str(SOURCE)]
        subprocess.run(command, check=True)
    if not nvtx.startswith("wheels"):  # no wheel of this environment is to be found either
        (tmp_path / "wheels/nvidia").mkdir(parents=True)
        (tmp_path / "wheels/nvidia/__init__.py").touch()
    log = tmp_path / "driver-log"
    monkeypatch.setenv("DRIVER_LOG", str(log))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.syspath_prepend(tmp_path / "wheels")  # handed on to the program
    with stand_in.played():
        yield log


def network_of(folder: Path) -> NetworkTrial:
    """A small network, and its engine file in ``folder``."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    small_networks.write(folder / "net.onnx", nodes, {}, inputs={"x": (2, 8)})
    trial = small_networks.trial("net.onnx", small_networks.uniform("x", (2, 8)), engine="tensorrt")
    trial = msgspec.structs.replace(
        trial, provider="tensorrt", engine_file="net_random.engine", with_layers=False
    )
    shared = {
        name: getattr(trial, name)
        for name in BuildTrial.__struct_fields__
        if name in NetworkTrial.__struct_fields__ and name != "schema"
    }
    asked = BuildTrial(**shared, settings=BuildSettings())
    made = find_engine("tensorrt").build(asked, folder, folder, lambda *_: None)  # type: ignore[attr-defined]
    write_row(folder, made.options)
    return trial


def counted(tmp_path: Path, network: NetworkTrial, n_calls: int) -> CounterRun:
    """The row of the run of one network."""
    machine = identify()
    mode = core_count_mode(1)
    trial = CounterTrial(
        **msgspec.structs.asdict(network),
        chip="ga10b",
        metrics=tuple(f"{name}.sum" for name in NAMES),
        lacking=(),
        n_calls=n_calls,
    )
    versions = {"mansard": "0", "ncu": "0", find_engine("tensorrt").package: "10.3.0"}
    plan = CounterPlan(
        profile="brief",
        machine=machine,
        processor="cpu",
        gpu=None,
        mode=mode,
        cpus=cpus_of(machine, mode),
        trials=(trial,),
        protocol=find_protocol("brief"),
        seed=1,
        versions=versions,
        unknown={"gpu": "none is here"},
    )
    runs = tmp_path / "runs"
    kind = counter_kind(Counting(find_ncu(write_ncu(tmp_path)), runs))
    files = tmp_path / "files"
    outcome = run_plan(plan, runs, measurer=LocalMeasurer(kind=kind, files=files))
    (row,) = read_rows(outcome.folder / kind.rows_name, CounterRun, runs).rows
    return row


@pytest.mark.parametrize("driver_log", NVTX_PLACES, indirect=True)
def test_the_calls_alone_are_counted_each_in_a_range(tmp_path: Path, driver_log: Path) -> None:
    (tmp_path / "files").mkdir()
    row = counted(tmp_path, network_of(tmp_path / "files"), n_calls=2)
    assert row.failure is None
    assert (row.engine, row.engine_version) == ("tensorrt", "10.3.0")
    calls = ["push mansard call 0", "pop", "push mansard call 1", "pop"]
    assert driver_log.read_text().splitlines() == ["start", *calls, "stop"]


def test_a_network_that_cannot_be_loaded_is_a_row_and_tried_again(
    tmp_path: Path, driver_log: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    network = network_of(files)
    whole = (files / network.engine_file).read_bytes()
    (files / network.engine_file).write_bytes(whole[:100])
    first = counted(tmp_path, network, n_calls=1)
    assert first.failure
    assert first.export is None
    assert not list((tmp_path / "runs").rglob("*.csv"))
    (files / network.engine_file).write_bytes(whole)
    assert counted(tmp_path, network, n_calls=1).failure is None


def test_the_driver_says_the_compute_capability(driver_log: Path) -> None:
    code = "from mansard.inference.counters.ncu import compute_capability as c; print(c())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "87\n"
