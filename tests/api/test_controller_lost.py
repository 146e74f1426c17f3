"""A board whose controller goes away in the middle of a sweep, and one that is set by others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from mansard.core.errors import ControllerLost, DeviceError
from mansard.core.records import Processor, Trial
from mansard.core.storage.jsonl import read_rows
from mansard.device.cards import SeenCards
from mansard.device.controller import BoardController, LocalController
from mansard.device.controller.remote import RemoteController, remote_controller
from mansard.inference.engine_files import EngineFiles
from mansard.inference.engines.engine import EngineProbe
from mansard.measuring.events import Measurer
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.sampling import Samples
from mansard.microbench.kernel import TrialSpec
from mansard.microbench.plan import KernelPlan, Probe, probe
from mansard.microbench.trial import kernel_kind
from mansard.simulator import set_load, snapshot, switched_on
from mansard.sweeps.kernels import plan_kernels
from mansard.sweeps.modes import Measured, measure_modes
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import SweepRequest
from tests.device.controller_process import ProcessChannel, controller_process
from tests.measuring.test_runner import stub_sampling
from tests.simulator.simulator_bench import CPU, EMC, has_caught_up, run, small_board
from tests.waiting import awaited

BeforeTrial = Callable[[int], object]
N_TRIALS = 10


@pytest.fixture
def agx_orin(tmp_path: Path) -> Path:
    root = small_board("agx-orin", tmp_path)
    set_load(root)  # none: with that of this machine its memory's clock would go up and down
    return root


class Target:
    """A board that is measured by samples made up on the spot; its controller is a real one."""

    image = None

    def __init__(self, controller: BoardController, root: Path, before: BeforeTrial) -> None:
        self.controller, self._root, self._before = controller, root, before

    def probe(self, processor: Processor) -> Probe:
        return probe(processor)

    def seen_cards(self) -> SeenCards:
        raise AssertionError("a simulated board has no card")

    def engine_probe(self, engine: str) -> EngineProbe:
        raise AssertionError("kernels need no engine")

    def send(self, files: Path, reporter: Reporter) -> None:
        raise AssertionError("kernels need no files")

    def builder(self, files: Path, kept: EngineFiles) -> Measurer:
        raise AssertionError("kernels need no engine files")

    def measurer(self, files: Path | None = None) -> Measurer:
        if is_on(self._root):
            # Padded: the daemon has taken it over, and the CPUs' clocks, which are set before.
            assert awaited(lambda: (self._root / EMC / "rate").stat().st_size == 16)
        return LocalMeasurer(root=self._root, kind=kernel_kind(self._sample))

    def _sample(
        self, spec: TrialSpec, plan: KernelPlan, metering: EnergyMetering | None
    ) -> Samples:
        self._before(plan.trials.index(spec))
        return stub_sampling(spec, plan, metering)


def is_on(root: Path) -> bool:
    """Whether a board's simulated kernel runs; then it answers what is written, maybe late."""
    return (root / EMC / "rate").exists() and isinstance(switched_on(root), nullcontext)


def sweep(
    controller: BoardController, root: Path, runs: Path, before: BeforeTrial, mode: str = "15W"
) -> Measured:
    assert not is_on(root) or has_caught_up(root)  # with what an earlier sweep has put back
    modes = controller.choose_modes(mode)
    request = SweepRequest(profile="brief", runs=runs)
    plans = plan_kernels(controller.identify(), modes, request, probe("cpu"))
    return measure_modes(plans, Target(controller, root, before), runs, SILENT)


def kept(runs: Path) -> list[Trial]:
    return [row for path in runs.glob("*/trials.jsonl") for row in read_rows(path, Trial).rows]


def at_trial(number: int, act: Callable[[], object]) -> BeforeTrial:
    return lambda now: act() if now == number else None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_measured_after_the_controller_has_ended_is_not_kept(
    agx_orin: Path, tmp_path: Path, how: signal.Signals
) -> None:
    before, runs = snapshot(agx_orin), tmp_path / "runs"

    def end(channel: ProcessChannel) -> None:
        os.kill(channel.process.pid, how)
        channel.process.wait()

    with (
        pytest.raises(ControllerLost, match="bench-1: its board controller has ended"),
        controller_process(agx_orin) as channel,
        remote_controller(channel, "bench-1") as far,
    ):
        sweep(far, agx_orin, runs, at_trial(2, lambda: end(channel)))
    # Trials 0 and 1 were over before it ended; of trial 2 nobody knows the mode.
    assert len(kept(runs)) == 2

    with controller_process(agx_orin) as channel, remote_controller(channel, "bench-1") as far:
        far.put_back()
        sweep(far, agx_orin, runs, lambda _: None)
    trials = kept(runs)
    assert len({trial.trial_id for trial in trials}) == len(trials) == N_TRIALS
    assert all("nvpmodel" not in " ".join(trial.disturbances) for trial in trials)
    assert snapshot(agx_orin) == before


def test_the_modes_that_follow_are_not_tried(agx_orin: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with (
        pytest.raises(ControllerLost),
        controller_process(agx_orin) as channel,
        remote_controller(channel, "bench-1") as far,
    ):
        sweep(far, agx_orin, runs, at_trial(1, channel.process.kill), "all")
    assert len(list(runs.iterdir())) == 1


def test_a_heartbeat_that_nobody_hears_is_noticed_without_a_question(agx_orin: Path) -> None:
    def is_lost(controller: RemoteController) -> bool:
        try:
            controller.check()
        except ControllerLost:
            return True
        return False

    with (
        controller_process(agx_orin) as channel,
        remote_controller(channel, "bench-1", beat_s=0.01) as controller,
    ):
        assert not is_lost(controller)
        channel.process.kill()
        assert awaited(lambda: is_lost(controller))
        with pytest.raises(ControllerLost):
            controller.identify()


Reach = Callable[[Path], AbstractContextManager[BoardController]]


def set_mode(root: Path) -> None:
    assert run(root, "nvpmodel", "-m", "0").returncode == 0


def raise_clock(root: Path) -> None:
    (root / CPU / "cpufreq/policy0/scaling_max_freq").write_text("2201600\n")


def switch_core_on(root: Path) -> None:
    (root / CPU / "cpu5/online").write_text("1\n")


def set_governor(root: Path) -> None:
    (root / CPU / "cpufreq/policy0/scaling_governor").write_text("powersave\n")


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (set_mode, "another power mode: /var/lib/nvpmodel/status is pmode:0000, it was pmode:0001"),
        (raise_clock, "scaling_max_freq is 2201600, it was 1113600"),
        (switch_core_on, "core 5 was switched on"),
        (set_governor, "another governor: "),
    ],
)
def test_a_run_whose_mode_is_lost_ends_and_resumes(
    running_agx_orin: Path, tmp_path: Path, act: Callable[[Path], None], reason: str
) -> None:
    """What it has measured since is not kept: the same command measures it again."""
    before, runs = snapshot(running_agx_orin), tmp_path / "runs"
    controller = LocalController(running_agx_orin, settle_s=0)
    with pytest.raises(DeviceError, match="has left power mode 15W") as lost:
        sweep(controller, running_agx_orin, runs, at_trial(3, lambda: act(running_agx_orin)))
    assert reason in lost.value.what
    assert [trial.disturbances for trial in kept(runs)] == [()] * 3
    assert snapshot(running_agx_orin) == before
    sweep(controller, running_agx_orin, runs, lambda _: None)
    assert [trial.disturbances for trial in kept(runs)] == [()] * N_TRIALS


def test_so_it_is_where_the_controller_is_elsewhere(running_agx_orin: Path, tmp_path: Path) -> None:
    root, runs = running_agx_orin, tmp_path / "runs"
    with controller_process(root) as channel, remote_controller(channel, "bench-1") as far:
        with pytest.raises(DeviceError, match=r"has left power mode 15W: .*another power mode"):
            sweep(far, root, runs, at_trial(N_TRIALS - 1, lambda: set_mode(root)))
        assert len(kept(runs)) == N_TRIALS - 1
        sweep(far, root, runs, lambda _: None)
    assert [trial.disturbances for trial in kept(runs)] == [()] * N_TRIALS


def test_what_is_put_back_within_a_trial_disturbs_that_trial_alone(
    running_agx_orin: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    cap = running_agx_orin / CPU / "cpufreq/policy4/scaling_max_freq"  # a cluster that runs nothing

    def raise_and_lower() -> None:
        found = cap.read_text()
        cap.write_text("2201600\n")
        cap.write_text(found)

    controller = LocalController(running_agx_orin, settle_s=0)
    sweep(controller, running_agx_orin, runs, at_trial(5, raise_and_lower), "30W")
    path = "/sys/devices/system/cpu/cpu4/cpufreq/scaling_max_freq"
    disturbed = [trial.disturbances for trial in kept(runs)]
    assert [len(reasons) for reasons in disturbed] == [0] * 5 + [1] + [0] * 4
    assert path in disturbed[5][0]  # as written, or as seen in between


def test_a_journal_that_is_gone_ends_the_sweep(agx_orin: Path, tmp_path: Path) -> None:
    journal, runs = agx_orin / "var/lib/mansard/journal.json", tmp_path / "runs"
    controller = LocalController(agx_orin, settle_s=0)
    with pytest.raises(DeviceError, match="with it the settings to restore"):
        sweep(controller, agx_orin, runs, at_trial(2, journal.unlink))
    assert len(kept(runs)) == 2
