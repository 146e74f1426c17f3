"""Is any trial undisturbed during which the board was not in its mode?

    python benchmarks/meddled_board.py [--benches 50] [--first 0] [--trials 14] [--seed 1] [--quiet]

Simulated boards are benched in modes of theirs while another program changes mode, clocks, cores
and governors at random moments, for 0 s to 1.5 s or for good. A log of the board's files, kept by
a third process, says in which trials a clock, a core or a governor was not the mode's. A bench
whose mode was lost is started again, as a user would, up to ``--attempts`` times.

*Meddled*: a trial on disk during whose samples the log has a state that is not the mode's. *False
alarm*: one that is disturbed by a setting or clock though nothing was done to the board from a
tenth of a second before it to a tenth after. With ``--quiet`` nothing is changed. The exit code is
1 if a meddled trial is undisturbed, or a false alarm was given.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import msgspec
from meddling.board_log import BoardLog, State, states_within
from meddling.meddler import Meddler

from mansard.core.errors import DeviceError
from mansard.core.records import PowerMode, Processor, Trial
from mansard.core.storage.jsonl import read_rows
from mansard.device.cards import SeenCards
from mansard.device.controller import LocalController
from mansard.device.meters.finding import find_meters
from mansard.device.nvpmodel.modes import read_modes
from mansard.inference.engine_files import EngineFiles
from mansard.inference.engines.engine import EngineProbe
from mansard.measuring.events import Event, Measurer
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.sampling import Samples
from mansard.microbench.kernel import TrialSpec
from mansard.microbench.plan import KernelPlan, Probe, probe
from mansard.microbench.trial import kernel_kind, sample_on_cpu
from mansard.simulator import create_board, running
from mansard.sweeps.kernels import plan_kernels
from mansard.sweeps.modes import measure_modes
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import SweepRequest

BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")
NEAR_S = 0.1
# Words of disturbances that say that a setting or a clock was not the mode's.
SAID = ("clock", "switched", "another")


class Target:
    """A simulated board whose kernels are real; notes when the samples of each trial were taken."""

    image = None

    def __init__(self, root: Path, controller: LocalController, meddler: Meddler | None) -> None:
        self.controller, self._root, self._meddler = controller, root, meddler
        self.spans_s: dict[str, tuple[float, float]] = {}
        self.set_s: list[float] = []  # when each attempt had set the mode

    def probe(self, processor: Processor) -> Probe:
        """The probe of this process."""
        return probe(processor)

    def seen_cards(self) -> SeenCards:
        """None: the board is simulated."""
        return SeenCards((), ())

    def engine_probe(self, engine: str) -> EngineProbe:  # noqa: ARG002
        """None: kernels need no engine."""
        raise AssertionError("kernels need no engine")

    def send(self, files: Path, reporter: Reporter) -> None:  # noqa: ARG002
        """None: kernels need no files."""
        raise AssertionError("kernels need no files")

    def builder(self, files: Path, kept: EngineFiles) -> Measurer:  # noqa: ARG002
        """Nothing is built here."""
        raise AssertionError("kernels need no engine files")

    def measurer(self, files: Path | None = None) -> Measurer:  # noqa: ARG002
        """The local one, meddled with from its first event to its last."""
        self.set_s.append(time.monotonic())
        meters = find_meters(self._root, self.controller.identify())
        local = LocalMeasurer(meters=meters, root=self._root, kind=kernel_kind(self._sample))

        def measure(job: Job) -> Iterator[Event]:
            with self._meddler.acting() if self._meddler else nullcontext():
                yield from local(job)

        return measure

    def _sample(
        self, spec: TrialSpec, plan: KernelPlan, metering: EnergyMetering | None
    ) -> Samples:
        start_s = time.monotonic()
        samples = sample_on_cpu(spec, plan, metering)
        self.spans_s[spec.trial_id] = (start_s, time.monotonic())
        return samples


def bench(
    board: str, mode_name: str, seed: str, options: argparse.Namespace, folder: Path
) -> Counter[str]:
    """One bench, started again while its mode is lost; what came of it, counted."""
    root = create_board(board, folder)
    found: Counter[str] = Counter(benches=1)
    controller = LocalController(root)
    meddler = None if options.quiet else Meddler(root, seed, options.pause)
    target = Target(root, controller, meddler)
    with running(root), BoardLog(root, folder / "board.log") as log:
        mode = next(one.mode for one in read_modes(root).modes if one.mode.name == mode_name)
        for _ in range(options.attempts):
            request = SweepRequest(profile="brief", runs=folder)
            plans = plan_kernels(controller.identify(), (mode,), request, probe("cpu"))
            each = plans[0]
            plan = msgspec.structs.replace(each.plan, trials=each.plan.trials[: options.trials])
            try:
                measure_modes([msgspec.structs.replace(each, plan=plan)], target, folder, SILENT)
            except DeviceError as lost:
                if "has left power mode" not in str(lost):
                    raise
                found["modes lost"] += 1
            else:
                break
    states = log.states()
    wanted = states_within(states, target.set_s[0], target.set_s[0])[0]
    check_state(wanted, mode)
    for path in folder.glob("*/trials.jsonl"):
        for trial in read_rows(path, Trial).rows:
            count(trial, target.spans_s[trial.trial_id], states, wanted, meddler, found)
    return found


def check_state(state: State, mode: PowerMode) -> None:
    """Raises ValueError unless the first state is the mode's; a cap may lie between two steps."""
    others = ("clock policy", "clock memory")
    clocks = [name for name in state if name.startswith("clock") and not name.startswith(others)]
    gpu_hz = [int(state[name]) for name in clocks]
    cap_hz = mode.gpu_hz or max(gpu_hz)
    if not any(0.8 * cap_hz < hz <= 1.001 * cap_hz for hz in gpu_hz):
        raise ValueError(f"the board is not in mode {mode.name}: {state}")


def count(
    trial: Trial,
    span_s: tuple[float, float],
    states: list[tuple[float, State]],
    wanted: State,
    meddler: Meddler | None,
    found: Counter[str],
) -> None:
    """Count one trial that is on disk."""
    start_s, end_s = span_s
    is_meddled = any(state != wanted for state in states_within(states, start_s, end_s))
    is_near = any(
        act_s < end_s + NEAR_S and (back_s is None or back_s > start_s - NEAR_S)
        for _, act_s, back_s in (meddler.acts if meddler is not None else ())
    )
    said = [reason for reason in trial.disturbances if any(word in reason for word in SAID)]
    found["trials"] += 1
    found["meddled"] += is_meddled
    found["touched"] += is_near
    found["disturbed"] += bool(trial.disturbances)
    found["by the mode"] += bool(said)
    found["undisturbed though meddled"] += is_meddled and not trial.disturbances
    found["false alarms"] += bool(said) and not is_near
    if is_meddled and not trial.disturbances:
        print(f"UNDISTURBED {trial.kernel}, {start_s:.3f} to {end_s:.3f}", file=sys.stderr)
    if said and not is_near:
        print(f"FALSE ALARM {trial.kernel}, {start_s:.3f} to {end_s:.3f}: {said}", file=sys.stderr)


COLUMNS = (
    *("benches", "trials", "meddled", "touched", "disturbed", "by the mode"),
    *("undisturbed though meddled", "false alarms", "modes lost"),
)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--benches", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first bench")
    parser.add_argument("--trials", type=int, default=14, help="of each bench, at most")
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=2.5, help="mean of two acts, s")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    by_board: dict[str, Counter[str]] = {board: Counter() for board in BOARDS}
    print(f"| board | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    for number in range(options.first, options.first + options.benches):
        board = BOARDS[number % len(BOARDS)]
        with tempfile.TemporaryDirectory() as folder:
            modes = settable_modes(board, Path(folder))
            seed = f"{options.seed}-{number}"
            mode = random.Random(seed).choice(modes)
            found = bench(board, mode, seed, options, Path(folder) / "bench")
        by_board[board] += found
        row(f"{number} {board} {mode}", found, sys.stderr)
    for board, found in by_board.items():
        if found:
            row(board, found)
    total = sum(by_board.values(), Counter())
    row("all", total)
    return int(bool(total["undisturbed though meddled"] or total["false alarms"]))


def settable_modes(board: str, folder: Path) -> list[str]:
    """Names of the modes that the board can be set to without a reboot."""
    root = create_board(board, folder)
    controller = LocalController(root, settle_s=0)
    modes = controller.choose_modes("all")
    with controller.hold() as held:
        reboots = held.needing_reboot(modes)
    return [mode.name for mode in modes if mode.name not in reboots]


def row(name: str, found: Counter[str], file: object = None) -> None:
    """One row of the table."""
    print(f"| {name} | {' | '.join(str(found[column]) for column in COLUMNS)} |", file=file)  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main())
