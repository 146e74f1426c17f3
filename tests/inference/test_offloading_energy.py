"""The energy of blocks of samples, by a meter whose power rises steadily."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import msgspec
import pytest

from mansard.core.records import OffloadRun
from mansard.device.identity import identify
from mansard.device.meters.meter import Meters
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.device.totals import Total
from mansard.inference.engines import find_engine
from mansard.inference.offloading.plan import OffloadPlan, OffloadTrial, make_rule, plan_blocks
from mansard.inference.offloading.trial import OffloadSession, offload_kind
from mansard.inference.offloading.wire import Payload
from mansard.inference.plan import make_plan
from mansard.inference.servers.connection import parse_address
from mansard.measuring.events import Row
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer
from mansard.sweeps.accuracies import AccuracySettings
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import SILENT
from tests.device.replay_meters import TraceMeter
from tests.inference.cifar_files import Cifar
from tests.inference.test_offloading_server import SERVED, serving
from tests.measuring.metered_windows import windows_read

N, SERVER_S = 20, 0.03


def slow(payload: Payload) -> tuple[int, float]:
    """A network that takes 30 ms: a block of 20 samples sees the sensor change 60 times."""
    del payload
    start_s = time.monotonic()
    time.sleep(SERVER_S)
    return 1, time.monotonic() - start_s


def test_energy_is_that_of_the_block(tmp_path: Path) -> None:
    meter = TraceMeter({"BOARD": ((0.0, 10.0), (1000.0, 5010.0))})  # 10 W + 5 W for each second
    meters = Meters((meter,), {}, Total(("BOARD",), "BOARD alone", "the board"))
    rows = measure(Cifar(tmp_path, N), meters)
    by_way = {row.way: row for row in rows}
    energies = [row.energy for row in rows if row.way == "remote"]
    for energy in windows_read([energy for energy in energies if energy is not None]):
        middle_w = 10 + 5 * (energy.start_s + energy.window_s / 2 - meter.start_s)
        assert energy.total_j == pytest.approx(middle_w * energy.window_s, rel=0.02)
        assert energy.repetitions == N
        assert energy.window_s >= N * SERVER_S
    local = by_way["local"]
    # Twenty tiny networks take less than a millisecond: too few readings for an energy, unless a
    # busy machine lets them wait.
    assert local.energy is None or local.energy.total_j is None or local.energy.window_s > 0.15
    assert median(local.latency_s) < SERVER_S


def measure(cifar: Cifar, meters: Meters) -> list[OffloadRun]:
    machine = identify(SYSTEM_ROOT)
    (mode,) = choose_modes(None, SYSTEM_ROOT, machine)
    settings = AccuracySettings(data=cifar.data, preprocess="unit")
    served = msgspec.structs.replace(SERVED, takes_images=True)
    with (
        serving(slow) as server,
        Preparation(NetworkSettings(batches=(1,), accuracy=settings)) as preparation,
    ):
        folder = preparation.new_folder()
        preparation.prepare([str(cifar.small)], SILENT, form="operators")
        ((network, samples),) = preparation.with_samples
        trial = network.trial(engine="ort", provider="cpu", n_threads=1, with_layers=False)
        preparation.write([trial], folder, SILENT)
        preparation.write_samples(samples.file.file, folder, SILENT)
        assert samples.dataset is not None
        whole = OffloadTrial(
            network=trial,
            weights_hash="0" * 64,
            samples=samples.file,
            content="0" * 16,
            output=network.class_output()[0],
            n_classes=10,
            address=server.address,
            served=served,
            rule=make_rule(0.0, None),
            way="local",
            first=0,
            n_samples=N,
        )
        versions = find_engine("ort").probe().versions
        blocks = tuple(plan_blocks(whole, N))
        plan = make_plan(OffloadPlan, machine, mode, blocks, versions, None, profile="brief")
        session = OffloadSession(samples.dataset, samples.indexes, parse_address(server.address))
        measurer = LocalMeasurer(meters=meters, kind=offload_kind(session), files=folder)
        job = Job(plan=plan, missing=tuple(one.trial_id for one in blocks), read_back=mode)
        return [event.row for event in measurer(job) if isinstance(event, Row)]
