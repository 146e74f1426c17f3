"""Two sweeps on one machine: the second has its turn after the first, whoever runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path

import pytest

from mansard.core.errors import BusyError
from mansard.core.records import Trial
from mansard.device.controller import LocalController
from mansard.device.controller.remote import remote_controller
from mansard.device.identity import SIMULATED_MARK
from mansard.microbench.plan import probe
from mansard.simulator import create_board, running, snapshot
from mansard.sweeps.kernels import plan_kernels
from mansard.sweeps.modes import measure_modes
from mansard.sweeps.reporter import SILENT, ProgressDisplay, Reporter
from mansard.sweeps.sweep import SweepRequest
from tests.api.test_controller_lost import Target, kept
from tests.device.clock_trees import make_laptop
from tests.device.controller_process import controller_process
from tests.device.test_journal_lock import another_sweep
from tests.waiting import awaited


class Notes:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, title: str) -> AbstractContextManager[ProgressDisplay]:
        return SILENT.progress(title)

    def ask(self, question: str) -> bool:
        return SILENT.ask(question)


def measure(root: Path, runs: Path, notes: Reporter, mode: str | None = None) -> list[Trial]:
    controller = LocalController(root)
    modes = controller.choose_modes(mode)
    request = SweepRequest(profile="brief", runs=runs)
    plans = plan_kernels(controller.identify(), modes, request, probe("cpu"))
    measure_modes(plans, Target(controller, root, lambda _: None), runs, notes)
    return kept(runs)


def test_a_sweep_that_sets_nothing_waits_for_another_and_says_so_once(tmp_path: Path) -> None:
    root = make_laptop(tmp_path / "laptop")
    (root / SIMULATED_MARK).parent.mkdir(parents=True, exist_ok=True)
    (root / SIMULATED_MARK).touch()
    notes, runs, before = Notes(), tmp_path / "runs", snapshot(root)
    with another_sweep(root) as process:
        second = threading.Thread(target=measure, args=(root, runs, notes))
        second.start()
        assert awaited(lambda: bool(notes.lines))
        assert f"in use by another sweep, process {process.pid} since" in notes.lines[0]
        assert kept(runs) == []
    second.join(120)  # it was killed: what is left of it blocks nothing
    assert len({trial.trial_id for trial in kept(runs)}) == len(kept(runs)) > 0
    assert sum("another sweep" in line for line in notes.lines) == 1
    assert snapshot(root) == before


def test_a_caller_without_a_reporter_is_warned_who_has_the_machine(tmp_path: Path) -> None:
    root = make_laptop(tmp_path / "laptop")
    (root / SIMULATED_MARK).parent.mkdir(parents=True, exist_ok=True)
    (root / SIMULATED_MARK).touch()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with another_sweep(root) as process:
            second = threading.Thread(target=measure, args=(root, tmp_path / "runs", SILENT))
            second.start()
            assert awaited(lambda: bool(told))
        second.join(120)
    (line,) = [str(one.message) for one in told if "another sweep" in str(one.message)]
    assert f"in use by another sweep, process {process.pid} since" in line


def test_a_sweep_that_sets_nothing_has_the_machine_alone(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    with LocalController(agx_orin).hold(is_set=False):
        with pytest.raises(BusyError, match="in use by another sweep"):
            LocalController(agx_orin).hold().__enter__()
        with (
            controller_process(agx_orin) as channel,
            remote_controller(channel, "bench-1") as far,
            pytest.raises(BusyError, match="in use by another sweep"),
        ):
            far.hold(is_set=False).__enter__()
    with (
        controller_process(agx_orin) as channel,
        remote_controller(channel, "bench-1") as far,
        far.hold(is_set=False),
        pytest.raises(BusyError, match="in use by another sweep"),
    ):
        LocalController(agx_orin).hold(is_set=False).__enter__()
    assert snapshot(agx_orin) == before


# What follows runs as a user who may read the board, and write nothing of it.

NOBODY = 65534
AS_USER = """
import sys
from pathlib import Path
from mansard.core.errors import MansardError
from mansard.device.controller import LocalController

steps = []
controller = LocalController(Path(sys.argv[1]), on_step=lambda step: steps.append(step.kind))
try:
    if sys.argv[2] == "restore":
        controller.put_back()
    elif sys.argv[2] == "look":
        controller.identify()
    elif sys.argv[2] == "wait":
        controller.hold(is_set=False).__enter__()
        print("held")
    else:
        with controller.hold() as held:
            held.set(controller.choose_modes(sys.argv[2])[0])
except MansardError as error:
    print(f"{type(error).__name__}: {error}")
print(len([kind for kind in steps if kind != "journal"]), "steps")
"""


@pytest.fixture
def foreign_board() -> Iterator[Path]:
    """A board that belongs to root, where another user can look at it."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can be another user, by setpriv of util-linux")
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        folder.chmod(0o755)
        root = create_board("agx-orin", folder)
        if as_user(root, "look", folder / "home").returncode:
            pytest.skip("another user cannot read these files")
        yield root


def as_user(root: Path, what: str, home: Path) -> subprocess.CompletedProcess[str]:
    return run_as_user(["-c", AS_USER, str(root), what], home)


def run_as_user(arguments: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    os.chown(home, NOBODY, NOBODY)
    ids = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    return subprocess.run(
        ["setpriv", *ids, sys.executable, *arguments],
        env={**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def said_by_user(root: Path, what: str) -> list[str]:
    done = as_user(root, what, root.parent / "home")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_another_user_can_have_the_machine_alone_too(foreign_board: Path) -> None:
    assert said_by_user(foreign_board, "wait") == ["held", "0 steps"]
    with LocalController(foreign_board).hold(is_set=False):
        (line, _) = said_by_user(foreign_board, "wait")
    assert line.startswith("BusyError: ")
    assert "in use by another sweep, process" in line


def test_a_user_without_rights_is_told_once_and_nothing_is_done(foreign_board: Path) -> None:
    before = snapshot(foreign_board)
    with running(foreign_board):
        line, steps = said_by_user(foreign_board, "15W")
    assert line.startswith("DeniedError: /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq: ")
    assert line.endswith("run as root (sudo), on the board itself rather than in a container")
    assert steps == "0 steps"
    assert snapshot(foreign_board) == before


def test_what_root_left_is_not_put_back_by_another_user(foreign_board: Path) -> None:
    with running(foreign_board):
        leave_behind(foreign_board)
        for what in ("restore", "30W"):
            line, steps = said_by_user(foreign_board, what)
            assert line.startswith(f"DeniedError: {foreign_board}: what the run of 20")
            assert line.endswith("nothing was touched; run 'sudo mansard board restore'")
            assert steps == "0 steps"
        lines = LocalController(foreign_board).put_back()
    assert "power mode 15W → 30W" in lines


def test_a_bench_of_modes_that_are_all_denied_says_so_once(foreign_board: Path) -> None:
    home = foreign_board.parent / "home"
    network = resources.files("mansard.estimator") / "zoo/models/squeezenet1_1.onnx"
    command = ["-m", "mansard.cli", "bench", str(network), "--local", "--profile", "brief"]
    modes = "gpu=306MHz;gpu=408MHz;gpu=510MHz"
    place = ["--mode", modes, "--board", str(foreign_board), "--runs", str(home / "runs")]
    with running(foreign_board):
        done = run_as_user([*command, *place], home)
    assert done.returncode == 1
    assert done.stderr.count("permission denied") == 1
    assert "left out" not in done.stderr
    assert "could not be measured" not in done.stderr


def leave_behind(root: Path) -> None:
    """A run that was killed in the mode 15W."""
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from mansard.device.controller import LocalController\n"
        "controller = LocalController(Path(sys.argv[1]), settle_s=0)\n"
        "controller.hold().__enter__().set(controller.choose_modes('15W')[0])\n"
        "os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(root)], check=False).returncode == 9
