"""``mansard measure --host`` of programs and servers over a real sshd: streams, rows, every kill.

Three hosts are three simulated boards behind one sshd. A stand-in for the hosts' Python can hold up
the start of each process there, so that a kill comes at a step and not at a time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from mansard.core.records import GenerationRun, Manifest, ProgramRun
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import create_board, running, snapshot
from tests.containers.ssh_board import SshBoard, descendants, ssh_board, why_no_sshd
from tests.containers.test_bench_fleet import ssh_with
from tests.inference.replayed_server import Replayed, replaying
from tests.measuring.metered_windows import windows_read
from tests.undisturbed import without_doubts
from tests.waiting import awaited

REASON = why_no_sshd()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
MEASURE = [sys.executable, "-m", "mansard.cli", "measure", "--profile", "brief"]
BOARDS = {"near": "orin-nano-super", "far": "agx-orin", "old": "xavier-nx"}
MODES = ("15W", "MAXN_SUPER")
# Starts Python with nothing but msgspec; it waits where FOLDER/hold-WHAT is there.
PYTHON = """#!/bin/sh
case "$*" in
    *controller*) what=controller ;;
    *--describe*) what=describing ;;
    *) what=measuring ;;
esac
if [ -e {folder}/hold-$what ]; then
    echo >> {folder}/held-$what
    while [ -e {folder}/hold-$what ]; do sleep 0.02; done
fi
exec {prefix} env PYTHONPATH={folder}/site {python} -S "$@"
"""
# Leaves a child in a session of its own, and runs until FOLDER/go is there.
PROGRAM = """#!/bin/sh
{trap}
setsid sh {folder}/child.sh &
echo >> {folder}/started
while [ ! -e {folder}/go ]; do sleep 0.02; done
kill -KILL $!
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    with ssh_board(tmp_path_factory.mktemp("ssh") / "board") as started:
        yield started


class Hosts:
    """Boards by their names in a hosts.toml, and commands that are given them."""

    def __init__(self, folder: Path, sshd: SshBoard, *names: str, prefix: str = "") -> None:
        self.folder, self.sshd, self.runs = folder, sshd, folder / "runs"
        self.roots = {name: create_board(BOARDS[name], folder / name) for name in names}
        python = folder / "python"
        python.write_text(PYTHON.format(folder=folder, python=sys.executable, prefix=prefix))
        python.chmod(0o755)
        (folder / "site").mkdir()
        (folder / "site/msgspec").symlink_to(Path(msgspec.__file__).parent)
        (folder / "hosts.toml").write_text(
            "".join(
                f'[boards.{name}]\ndocker = "orin"\nroot = "{root}"\npython = "{python}"\n'
                for name, root in self.roots.items()
            )
        )
        path = f"{ssh_with(folder / 'bin', sshd.options)}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache")}

    def begin(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """The command in a session of its own, as a terminal starts it."""
        given = ("--hosts-file", str(self.folder / "hosts.toml"), "--runs", str(self.runs))
        return subprocess.Popen(
            [*MEASURE, *given, *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            start_new_session=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code and streams of the command."""
        process = self.begin(*words)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def rows(self) -> list[tuple[str, ProgramRun]]:
        """The mode of each program that was measured, and its row, by their start."""
        found = [
            (read_document(path.parent / "manifest.json", Manifest).mode_read_back.name, row)
            for path in self.runs.glob("*/programs.jsonl")
            for row in read_rows(path, ProgramRun).rows
        ]
        return sorted(found, key=lambda one: one[1].started_utc)

    def left(self, words: str = "") -> dict[int, str]:
        """What runs on the hosts: processes whose words name this test's folder, and ``words``."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                # Not the ssh on our side, which has the hosts' words among its own.
                if str(self.folder) in line and words in line and "BatchMode" not in line:
                    found[int(path.parent.name)] = line
        return found


def test_a_program_on_several_hosts_has_its_streams_rows_and_windows_here(
    tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near", "far", "old")
    program = tmp_path / "program.py"
    program.write_text(
        "import pathlib, sys, time\n"
        "from mansard import api\n"
        "print('in', pathlib.Path.cwd().name, 'read', repr(sys.stdin.read()))\n"
        "print('tokens/s: 12.5', file=sys.stderr)\n"
        "with api.window('decode'):\n"
        # An energy needs 20 readings that differ, on a busy machine as well.
        "    time.sleep(2.0)\n"
        "print('no end', end='')\n"
    )
    words = [*("--mode", "15W", "--repeat", "1", "--metric", "tokens/s: ([0-9.]+)", "--host")]
    words += ["near,far,old", "--remote-folder", str(tmp_path), "--"]
    with running(hosts.roots["near"]), running(hosts.roots["far"]):
        code, out, err = hosts.run(*words, sys.executable, str(program))
    # Xavier NX has no mode of that name: it fails alone.
    assert code == 1, err
    assert "1 of 3 boards failed: old: unknown power mode '15W'" in err.splitlines()[-1]
    for name in ("near", "far"):
        assert f"{name}: in {tmp_path.name} read ''\n" in out
        assert f"{name}: no end\n" in out
        assert f"{name}: tokens/s: 12.5\n" in err
        assert f"{name}: Measuring 15W, " in err
    assert "old: in" not in out
    rows = hosts.rows()
    assert [mode for mode, _ in rows] == ["15W", "15W"]
    for _, row in rows:
        (repetition,) = row.repetitions
        (window,) = repetition.windows
        assert row.folder == str(tmp_path)
        assert (row.source, repetition.metric, window.name) == ("simulated", 12.5, "decode")
        assert window.window_s >= 2.0
        assert repetition.wall_s > window.window_s
        # The board's own meters, read there by the clock that times the program.
        assert repetition.energy is not None
        assert window.energy is not None
        read_j = [one.total_j or 0.0 for one in windows_read([window.energy, repetition.energy])]
        assert [0.0, *read_j] == sorted({0.0, *read_j})  # the window's is less than the whole
    assert awaited(lambda: not hosts.left())
    # It was measured: nothing runs again.
    without_doubts(hosts.runs)
    rows = hosts.rows()
    code, out, err = hosts.run(*words, sys.executable, str(program))
    assert (code, out) == (1, "")
    assert "near: 15W, " in err
    assert err.count("already measured, nothing to do") == 2
    assert hosts.rows() == rows


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sh", "-c", "echo said; exit 7"), 7, "ended with exit code 7; nothing is kept of it"),
        (("nonesuch",), 127, "near: nonesuch: cannot be run: no such file or directory"),
    ],
)
def test_a_program_that_fails_hands_its_exit_code_through(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    done = hosts.run("--host", "near", "--", *words)
    assert (done[0], done[1]) == (code, "said\n" if code == 7 else "")
    assert said in done[2]
    assert hosts.rows() == []
    assert not hosts.left()


def test_a_file_of_the_host_that_the_program_writes_is_noted(
    tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    (tmp_path / "log").write_text("")
    words = ("--host", "near", "--repeat", "1", "--remote-folder", str(tmp_path), "--")
    code, _, said = hosts.run(*words, "sh", "-c", "echo more >> log")
    assert code == 0, said
    assert (
        "near: a file among the arguments or of --depends changed during the measurement: " in said
    )
    assert (tmp_path / "log").read_text() == "more\n"


def test_labels_variables_and_files_of_the_host_are_part_of_a_program(
    tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    inputs = tmp_path / "home/inputs"  # of the host: no such file is here
    inputs.parent.mkdir()
    inputs.write_text("one")
    folder = ("--remote-folder", str(inputs.parent), "--repeat", "1")
    words = ("--host", "near", *folder, "--depends", "inputs", "--env", "NONESUCH")

    def measure(*more: str) -> str:
        code, _, said = hosts.run(*words, *more, "--", "true")
        assert code == 0, said
        return said

    assert "near: --env: NONESUCH is not set" in measure()
    without_doubts(hosts.runs)
    assert "already measured" in measure()
    inputs.write_text("two")
    assert "already measured" not in measure()
    assert "already measured" not in measure("--label", "v2")
    assert len(hosts.rows()) == 3
    inputs.unlink()
    code, _, said = hosts.run(*words, "--", "true")
    assert code == 2
    assert "near: --depends inputs: there is no such file or folder" in said


def test_an_interrupt_ends_the_programs_of_all_hosts(tmp_path: Path, sshd: SshBoard) -> None:
    hosts = Hosts(tmp_path, sshd, "near", "far")
    before = {name: snapshot(root) for name, root in hosts.roots.items()}
    program = f"echo >> {tmp_path}/started-$PPID; while :; do sleep 0.02; done"
    words = ("--host", "near,far", "--mode", "15W", "--", "sh", "-c", program)
    with hosts.begin(*words) as process:
        assert awaited(
            lambda: len(list(tmp_path.glob("started-*"))) == 2 or process.poll() is not None
        )
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert not hosts.left()
    assert {name: snapshot(root) for name, root in hosts.roots.items()} == before


STEPS = ("controller", "describing", "measuring", "running", "between", "written")


class Killed:
    """A program on a host that is measured in two modes up to a step, and what is to be left."""

    def __init__(self, hosts: Hosts, *, is_stubborn: bool = False) -> None:
        self.hosts, self.folder = hosts, hosts.folder
        trap = "trap '' INT TERM HUP" if is_stubborn else ""
        (self.folder / "program.sh").write_text(PROGRAM.format(folder=self.folder, trap=trap))
        (self.folder / "child.sh").write_text(f"{trap}\nwhile :; do sleep 0.02; done\n")
        self.words = ["--host", "near", "--mode", ",".join(MODES), "--repeat", "1", "--"]
        self.words += ["sh", str(self.folder / "program.sh")]
        self.before = snapshot(hosts.roots["near"])
        self.process: subprocess.Popen[str] | None = None

    def bring_to(self, step: str) -> subprocess.Popen[str]:
        """Begin, and wait until the step is reached."""
        hold = {"running": "", "between": "measuring", "written": ""}.get(step, step)
        if hold and step != "between":
            (self.folder / f"hold-{hold}").touch()
        process = self.process = self.hosts.begin(*self.words)
        if step in {"controller", "describing", "measuring"}:
            self.wait((self.folder / f"held-{step}").exists)
            return process
        self.wait((self.folder / "started").exists)
        if step == "between":
            (self.folder / "hold-measuring").touch()
        if step in {"between", "written"}:
            (self.folder / "go").touch()
            self.wait(lambda: len(self.hosts.rows()) == 1)
        if step == "between":
            self.wait((self.folder / "held-measuring").exists)
        return process

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait; fails where the command ends before."""
        assert self.process is not None
        assert awaited(lambda: condition() or self.process.poll() is not None)  # type: ignore[union-attr]
        assert condition(), self.process.communicate()

    def end(self) -> None:
        """Kill the command with its ssh, where it still runs."""
        if self.process is not None:
            with suppress(ProcessLookupError), self.process:
                os.killpg(self.process.pid, signal.SIGKILL)

    def check_end(self) -> None:
        """Nothing runs on the host, and the board is as it was; then the rest is measured."""
        for path in self.folder.glob("hold-*"):
            path.unlink()
        assert awaited(lambda: not self.hosts.left()), self.hosts.left()
        kept = self.hosts.rows()
        (self.folder / "go").touch()
        code, _, err = self.hosts.run(*self.words)
        assert code == 0, err
        assert snapshot(self.hosts.roots["near"]) == self.before
        rows = self.hosts.rows()
        assert rows[: len(kept)] == kept
        assert [mode for mode, _ in rows] == list(MODES)
        assert not self.hosts.left()


@pytest.fixture
def killed(tmp_path: Path, sshd: SshBoard) -> Iterator[Killed]:
    one = Killed(Hosts(tmp_path, sshd, "near"))
    yield one
    one.end()


@pytest.mark.parametrize("step", STEPS)
def test_a_caller_that_is_killed_leaves_nothing_and_loses_nothing(
    step: str, killed: Killed
) -> None:
    killed.bring_to(step)
    killed.end()
    root = killed.hosts.roots["near"]
    for path in killed.folder.glob("hold-*"):
        path.unlink()
    assert awaited(lambda: not killed.hosts.left()), killed.hosts.left()
    # The controller over there put the board back by itself.
    assert snapshot(root) == killed.before
    killed.check_end()


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_there_first(number: signal.Signals, killed: Killed) -> None:
    process = killed.bring_to("running")
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    # It has waited for the program's end, and for the board.
    assert not killed.hosts.left()
    assert snapshot(killed.hosts.roots["near"]) == killed.before
    killed.check_end()


@pytest.mark.parametrize("what", ["connections", "controller"])
def test_a_host_whose_controller_is_gone_is_left_with_one_line(what: str, killed: Killed) -> None:
    process = killed.bring_to("running")
    if what == "connections":
        cut_connections(killed.hosts.sshd)
    else:
        end(killed.hosts.left("mansard.device.controller"))
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert "near: " in last
    assert "the same command" in last
    assert awaited(lambda: not killed.hosts.left()), killed.hosts.left()
    # Where the controller lives, it has put the board back; else its journal is there.
    is_back = snapshot(killed.hosts.roots["near"]) == killed.before
    assert is_back is (what == "connections")
    killed.check_end()


def test_a_measuring_process_that_is_killed_costs_its_mode_alone(killed: Killed) -> None:
    process = killed.bring_to("running")
    (killed.folder / "started").unlink()
    end(killed.hosts.left("mansard.inference.hosted"))
    killed.wait((killed.folder / "started").exists)
    (killed.folder / "go").touch()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "near: 15W: left out: near: the measuring process there has ended: " in said
    assert "1 of 2 power modes could not be measured: 15W" in said.splitlines()[-1]
    assert [mode for mode, _ in killed.hosts.rows()] == [MODES[1]]
    code, _, err = killed.hosts.run(*killed.words)
    assert code == 0, err
    assert [mode for mode, _ in killed.hosts.rows()] == [MODES[1], MODES[0]]
    assert snapshot(killed.hosts.roots["near"]) == killed.before
    assert not killed.hosts.left()


def cut_connections(sshd: SshBoard) -> None:
    """Kill the connections of an sshd, and not what runs through them: the network goes."""
    for pid in descendants(sshd.pid):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                os.kill(pid, signal.SIGKILL)


def end(processes: dict[int, str]) -> None:
    """Kill processes, of which there are some."""
    assert processes
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_program_that_ignores_signals_ends_with_its_caller(
    tmp_path: Path, sshd: SshBoard
) -> None:
    killed = Killed(Hosts(tmp_path, sshd, "near"), is_stubborn=True)
    killed.bring_to("running")
    killed.end()
    killed.check_end()


SERVE = """import sys
sys.path.insert(0, {repository!r})
from tests.inference.replayed_server import Replayed, serve
serve(Replayed(delay_s=0.02), int(sys.argv[1]))
"""
LENGTHS = ("--prompt", "8,16,24", "--generate", "16", "--repeat", "1", "--mode", "15W")


def generations(hosts: Hosts) -> list[GenerationRun]:
    paths = sorted(hosts.runs.glob("*/generations.jsonl"))
    return [row for path in paths for row in read_rows(path, GenerationRun).rows]


def test_a_server_that_hosts_reach_is_asked_by_each_of_them(tmp_path: Path, sshd: SshBoard) -> None:
    hosts = Hosts(tmp_path, sshd, "near", "far")
    hosts.environment["MANSARD_SERVER_KEY"] = "of this machine"
    replayed = Replayed()
    with replaying(replayed) as address:
        words = ("--server", address, "--prompt", "8", "--generate", "4", "--repeat", "1")
        code, out, err = hosts.run("--host", "near,far", "--mode", "15W", *words)
    assert code == 0, err
    assert out.count("Language model servers on ") == 2
    rows = generations(hosts)
    assert [(row.model, row.server, row.address) for row in rows] == [
        ("org/tiny", "vllm", address)
    ] * 2
    assert len({row.run_id for row in rows}) == 2
    assert not hosts.left()


@pytest.mark.parametrize("what", ["caller", "connections"])
def test_a_server_that_is_started_there_ends_with_what_measures_it(
    what: str, tmp_path: Path, sshd: SshBoard
) -> None:
    hosts = Hosts(tmp_path, sshd, "near")
    before = snapshot(hosts.roots["near"])
    repository = Path(__file__).parents[2]
    (tmp_path / "serve.py").write_text(SERVE.format(repository=str(repository)))
    start = f"{sys.executable} {tmp_path}/serve.py {{port}}"
    words = ("--host", "near", *LENGTHS, "--start", start, "--remote-folder", str(tmp_path))
    with hosts.begin(*words) as process:
        assert awaited(lambda: bool(generations(hosts)) or process.poll() is not None)
        if what == "caller":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            cut_connections(sshd)
        process.communicate(timeout=300)
    assert awaited(lambda: not hosts.left()), hosts.left()
    assert snapshot(hosts.roots["near"]) == before
    kept = generations(hosts)
    code, _, err = hosts.run(*words)
    assert code == 0, err
    rows = generations(hosts)
    assert kept
    assert rows[: len(kept)] == kept
    assert [row.prompt_tokens for row in rows] == [8, 16, 24]
    assert snapshot(hosts.roots["near"]) == before
    assert not hosts.left()
