"""Programs that are measured: real processes, and traces of power in place of a board's rails."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mansard.core.errors import MeasurementError, ProgramFailed, UsageError
from mansard.core.records import PowerSample, ProgramRepetition, ProgramRun
from mansard.device.conditions import find_sources
from mansard.device.identity import identify
from mansard.device.meters.meter import NO_METERS, Meters, power_sample, silent
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.device.totals import Total
from mansard.inference.programs import supervisor
from mansard.inference.programs.execution import Execution, execute
from mansard.inference.programs.metric import MetricReader, compile_metric
from mansard.inference.programs.plan import (
    ProgramPlan,
    ProgramTrial,
    make_program_trial,
    program_protocol,
)
from mansard.inference.programs.supervisor import is_busy
from mansard.inference.programs.trial import Passing, measure_program
from mansard.inference.programs.windows import encode_window, read_windows
from mansard.measuring.instruments import Instruments
from tests.device.replay_meters import ReplayMeter, TraceMeter
from tests.measuring.metered_windows import windows_read

PYTHON = sys.executable


def run_once(command: Sequence[str], folder: Path, **options: object) -> Execution:
    windows = folder / "windows"
    windows.touch()
    return execute(command, str(folder), windows, **options)  # type: ignore[arg-type]


def measure(
    command: Sequence[str],
    folder: Path,
    *,
    meters: Meters = NO_METERS,
    n_runs: int = 1,
    metric: str | None = None,
    notes: list[str] | None = None,
) -> tuple[ProgramRun, list[PowerSample]]:
    """A program measured on this machine as it is, with the meters given."""
    machine = identify(SYSTEM_ROOT)
    (mode,) = choose_modes(None, SYSTEM_ROOT, machine)
    trial = ProgramTrial(
        workload="test",
        command=tuple(command),
        folder=str(folder),
        program_hash="0",
        metric_pattern=metric,
        environment={},
        unknown={} if metric else {"metric_pattern": "none was asked for"},
    )
    plan = ProgramPlan(
        profile="brief",
        machine=machine,
        processor="cpu",
        gpu=None,
        mode=mode,
        cpus=machine.cpus,
        trials=(trial,),
        protocol=program_protocol("brief", n_runs),
        seed=0,
        versions={},
        unknown={"gpu": "not looked for"},
    )
    kept: list[PowerSample] = []
    instruments = Instruments(
        root=SYSTEM_ROOT,
        mode=mode,
        sources=find_sources(SYSTEM_ROOT, plan.cpus),
        meters=meters,
        keep=kept.append,
        gpu=None,
    )
    say = Passing() if notes is None else Passing(notes.append)
    return measure_program(trial, plan, instruments, say), kept


def trace(*points: tuple[float, float]) -> tuple[Meters, TraceMeter]:
    """Meters of one rail that plays a trace from now on."""
    meter = TraceMeter({"VDD_IN": points})
    total = Total(("VDD_IN",), "VDD_IN alone", "the module")
    return Meters((meter,), {}, total), meter


class AlternatingMeter(ReplayMeter):
    """Two rails: 1 W and 5 W in one reading, 4 W and 1 W in the next; ``faulty`` may change one.

    When it was read often enough after the file ``started`` has appeared, it writes ``read``.
    """

    def __init__(self, folder: Path, faulty: Callable[[int, float], float | None]) -> None:
        super().__init__((), 0.01)
        self.rails = ("VDD_GPU", "VDD_CPU")
        self._folder, self._faulty = folder, faulty
        self._n_read = self._n_during = 0

    def read(self) -> tuple[PowerSample, ...]:
        self._n_read += 1
        self._n_during += (self._folder / "started").exists()
        if self._n_during == 40:
            (self._folder / "read").touch()
        now_s = time.monotonic()
        gpu_w, cpu_w = (4.0, 1.0) if self._n_read % 2 else (1.0, 5.0)
        faulty_w = self._faulty(self._n_during, gpu_w)
        if faulty_w is None:
            return silent("VDD_GPU", now_s, "overloaded"), power_sample("VDD_CPU", now_s, cpu_w)
        return power_sample("VDD_GPU", now_s, faulty_w), power_sample("VDD_CPU", now_s, cpu_w)


def measure_metered(
    command: Sequence[str],
    folder: Path,
    *points: tuple[float, float],
    metric: str | None = None,
) -> tuple[ProgramRepetition, float]:
    """One run beside a trace, and when that began: again where the machine was too busy for it.

    Other tests may take the CPUs for so long that readings are missing, and energies unknown.
    """
    for _ in range(5):
        meters, meter = trace(*points)
        row, kept = measure(command, folder, meters=meters, metric=metric)
        (once,) = row.repetitions
        assert kept
        energies = [once.energy, *(window.energy for window in once.windows)]
        if all(energy is not None and energy.total_j is not None for energy in energies):
            break
    return once, meter.start_s


def test_time_and_cpu_time_are_the_programs(tmp_path: Path) -> None:
    # It is busy for 0.2 s of CPU time, its child for as much, and both sleep for 0.2 s.
    busy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
    program = tmp_path / "busy.py"
    program.write_text(f"{busy}time.sleep(0.2)\n")
    both = f"{PYTHON} -S {program}; {PYTHON} -S {program}"
    found = run_once(["sh", "-c", both], tmp_path)
    assert found.exit_code == 0
    assert found.end_s - found.start_s >= 0.8
    assert 0.4 <= found.user_s + found.system_s < 0.4 + 0.5 * (found.end_s - found.start_s)


@pytest.mark.parametrize("size_bytes", [20 << 20, 200 << 20])
def test_the_largest_process_is_the_peak_memory(size_bytes: int, tmp_path: Path) -> None:
    # The process that measures has more memory than the smaller of the two.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > 20 << 20
    program = f"held = bytearray([1]) * {size_bytes}"
    found = run_once(["sh", "-c", f"{PYTHON} -S -c '{program}'; exit 0"], tmp_path)
    assert found.peak_memory_bytes is not None
    assert size_bytes <= found.peak_memory_bytes < size_bytes + (50 << 20)


def test_the_memory_of_a_program_smaller_than_its_supervisor_is_unknown(tmp_path: Path) -> None:
    assert run_once(["true"], tmp_path).peak_memory_bytes is None


@pytest.mark.parametrize(
    ("command", "code"),
    [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["true"], 0)],
)
def test_exit_codes_are_as_a_shell_has_them(command: list[str], code: int, tmp_path: Path) -> None:
    assert run_once(command, tmp_path).exit_code == code


@pytest.mark.parametrize(("name", "code"), [("no-such-program", 127), ("/", 126)])
def test_what_cannot_be_started_says_so(name: str, code: int, tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match="cannot be run") as caught:
        run_once([name], tmp_path)
    assert caught.value.exit_code == code


def test_a_program_that_forks_and_leaves_is_waited_for(tmp_path: Path) -> None:
    done = tmp_path / "done"
    work = f"setsid sh -c 'sleep 0.5; touch {done}' >/dev/null 2>&1 &"
    found = run_once(["sh", "-c", work], tmp_path)
    assert done.exists()
    assert found.n_ended == 0
    assert found.end_s - found.start_s >= 0.5


def test_what_stays_is_ended_and_told(tmp_path: Path) -> None:
    mark = f"9{os.getpid()}.25"  # no other program sleeps so long
    daemons = f"for i in 1 2 3; do setsid sh -c 'sleep {mark} & exec sleep {mark}' & done"
    notes: list[str] = []
    row, _ = measure(["sh", "-c", f"({daemons}) >/dev/null 2>&1"], tmp_path, notes=notes)
    (note,) = notes
    assert note.startswith("6 processes that the program left behind were ended: ")
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert mark.encode() not in entry.read_bytes()
    # The wait for them is not the program's time: they sleep through the grace twice.
    assert row.duration_s >= row.repetitions[0].wall_s + 2 * supervisor.GRACE_S


def test_what_is_left_is_busy_where_any_of_it_is() -> None:
    # The one that had used the most has ended; that sums fall says nothing of the other.
    assert is_busy({1: 1000, 2: 50}, {2: 51})
    assert not is_busy({1: 1000, 2: 50}, {2: 50})
    # A new one that sleeps; a new one that has worked.
    assert not is_busy({2: 50}, {2: 50, 3: 0})
    assert is_busy({2: 50}, {2: 50, 3: 1})


def test_a_caller_that_ignores_the_end_of_children_is_no_matter(tmp_path: Path) -> None:
    script = (
        "import signal\n"
        "from pathlib import Path\n"
        "from mansard.inference.programs.execution import execute\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "print(execute(['sh', '-c', 'exit 3'], '.', Path('w')).exit_code)\n"
    )
    done = subprocess.run(
        [PYTHON, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "3\n"


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_wait_for_a_program_whoever_handles_it(name: str, tmp_path: Path) -> None:
    # As a library leaves the signal: the kernel begins a wait again after it.
    script = (
        "import signal\nfrom pathlib import Path\n"
        "from mansard.core.processes.programs import turn_signals_into_interrupts\n"
        "from mansard.inference.programs.execution import execute\n"
        "turn_signals_into_interrupts()\n"
        f"signal.siginterrupt(signal.{name}, False)\nPath('w').touch()\n"
        "try: execute(['sh', '-c', 'echo runs; exec sleep 100'], '.', Path('w'))\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
    )
    command = [PYTHON, "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "runs\n"
            process.send_signal(signal.Signals[name])
            assert process.communicate(timeout=300)[0] == "interrupted\n"
        finally:
            process.kill()


def test_a_signal_before_the_program_starts_is_handed_on_to_it() -> None:
    reading, writing = os.pipe()
    # Not SIGINT: a shell starts what runs in its background with that ignored.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        command = [PYTHON, "-I", "-S", supervisor.__file__, str(writing), "", "sleep", "100"]
        process = subprocess.Popen(command, pass_fds=(writing,), stderr=subprocess.PIPE)
        process.send_signal(signal.SIGTERM)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writing)
    _, said = process.communicate(timeout=300)
    with open(reading, "rb") as report:  # noqa: PTH123
        words = report.read().split()
    assert (process.returncode, said) == (0, b"")
    assert (words[0], int(words[7])) == (b"ran", signal.SIGTERM)


def test_a_program_that_kills_its_supervisor_does_not_block_the_measurement(tmp_path: Path) -> None:
    # Its output goes on: no process waits for its end.
    program = (
        "kill -9 $PPID; for i in $(seq 600); do test -e end && exit; echo 1; sleep 0.05; done; "
        "touch late"
    )
    with pytest.raises(MeasurementError, match="the supervisor of the program was killed"):
        run_once(["sh", "-c", program], tmp_path, pattern=compile_metric("(1)"))
    (tmp_path / "end").touch()
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize(
    "program",
    ['rm -r "$(dirname "$MANSARD_WINDOWS")"', 'rm "$MANSARD_WINDOWS"; mkfifo "$MANSARD_WINDOWS"'],
)
def test_a_program_may_spoil_the_file_of_its_windows(program: str, tmp_path: Path) -> None:
    notes: list[str] = []
    row, _ = measure(["sh", "-c", program], tmp_path, n_runs=2, notes=notes)
    assert len(row.repetitions) == 2
    assert notes == ["the program removed the file of its windows: no window is known"] * 2


def test_a_script_that_names_no_interpreter_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    with pytest.raises(ProgramFailed, match="exec format error; start it with its interpreter"):
        run_once([str(script)], tmp_path)


def test_a_program_is_known_by_its_file_and_those_among_its_arguments(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("one")
    # A word that is longer than a file name may be is none.
    command = ["cat", str(data), "x" * 5000]
    before = make_program_trial(command)
    assert before.workload.startswith("cat ")
    assert len(before.workload) == 60
    assert make_program_trial(command) == before
    data.write_text("two")
    assert make_program_trial(command).program_hash != before.program_hash


def without_glibc(line: str) -> str:
    """Without glibc's own signals, 32 and 33, which its posix_spawn may leave ignored."""
    name, _, mask = line.partition(":\t")
    return f"{name}:{int(mask, 16) & ~(0b11 << 31):x}" if name == "SigIgn" else line


def test_its_environment_and_signals_are_those_of_mansard(tmp_path: Path) -> None:
    show = "grep -E 'Sig(Blk|Ign)' /proc/self/status; env | sort"
    direct = subprocess.run(
        ["sh", "-c", show], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    run_once(["sh", "-c", f"({show}) > out"], tmp_path)

    def told(text: str) -> list[str]:
        return [without_glibc(line) for line in text.splitlines()]

    differing = set(told((tmp_path / "out").read_text())) ^ set(told(direct.stdout))
    assert {line.partition("=")[0] for line in differing} <= {"MANSARD_WINDOWS", "PWD", "OLDPWD"}


def test_output_passes_byte_by_byte_and_the_metric_is_the_last(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = "import os\nos.write(1, bytes(range(256)) + b'\\nrate: 1.5\\nrate: 2.25')"
    with out.open("wb") as file:
        found = run_once(
            [PYTHON, "-S", "-c", program],
            tmp_path,
            pattern=compile_metric("rate: ([0-9.]+)"),
            stdout=file.fileno(),
        )
    assert out.read_bytes() == bytes(range(256)) + b"\nrate: 1.5\nrate: 2.25"
    assert found.metric == 2.25


def test_a_program_that_prints_without_end_fills_no_memory() -> None:
    reader = MetricReader(compile_metric("n=([0-9]+)"))
    for number in range(200):
        reader.feed(1, b"x" * 100_000 + b" n=%d " % number)
        assert len(reader._rest[1]) <= 1 << 16
    assert reader.value() == 199


def test_a_metric_is_looked_for_line_by_line() -> None:
    reader = MetricReader(compile_metric("^rate: (.*)$"))
    for data in (b"my rate: 1\nra", b"te: 1,234.5\r", b"rate: 7 \nra", b"te:\n"):
        reader.feed(1, data)
    reader.feed(2, b"rate: 8")
    # The last is on the other stream, which has not ended its line.
    assert reader.value() == 8


@pytest.mark.parametrize("pattern", ["(", "no group", "(a)(b)", "(?P<"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="--metric"):
        compile_metric(pattern)


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (b"nothing\n", "matches nothing"),
        (b"rate: fast\n", "is not a number"),
        (b"rate: nan\n", "is not a number"),
        (b"rate: 1e999\n", "is not a number"),
    ],
)
def test_a_metric_that_is_not_there_is_one_line(printed: bytes, words: str) -> None:
    reader = MetricReader(compile_metric("rate: (.*)"))
    reader.feed(1, printed)
    with pytest.raises(MeasurementError, match=words):
        reader.value()


@pytest.mark.parametrize(
    ("printed", "number"),
    [
        ("12.5", 12.5),
        ("12,5", 12.5),
        ("-0,125", -0.125),  # nothing groups a leading 0
        ("1234,567", 1234.567),  # nor four digits
        ("1,5e3", 1500),
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("1,234,567", 1_234_567),
        ("1.234.567,25", 1_234_567.25),
        ("1.234", 1.234),  # a point alone is a decimal point
        ("12.5,", 12.5),
    ],
)
def test_a_comma_separates_decimals_or_thousands(printed: str, number: float) -> None:
    reader = MetricReader(compile_metric("rate: (.*)"))
    reader.feed(1, f"rate: {printed}\n".encode())
    assert reader.value() == number


@pytest.mark.parametrize(
    ("pattern", "printed", "words"),
    [
        ("rate: (.*)", "12,345", "'12,345', which is 12345 or 12.345"),
        ("rate: (.*)", "12,345,", "which is 12345 or 12.345"),
        ("rate: (.*)", "-1,234e3", "which is -1234e3 or -1.234e3"),
        ("rate: (.*)", "1,23.5", "is not a number"),
        ("rate: (.*)", "1,2,3", "is not a number"),
        ("rate: (.*)", "12,34,567", "is not a number"),
        ("rate: ([0-9.]+)", "12,5", "found '12', a part of 'rate: 12,5'"),
        (".*([0-9.]+)", "12.5", "found '5', a part of 'ate: 12.5'"),
        ("rate: ([0-9]+)", "12.5", "found '12', a part of"),
        ("rate: ([0-9.]+)", "1.5e-3", "found '1.5', a part of"),
        ("rate: .*?([0-9.]+)", "-5", "found '5', a part of"),
    ],
)
def test_a_number_that_may_be_another_is_refused(pattern: str, printed: str, words: str) -> None:
    reader = MetricReader(compile_metric(pattern))
    reader.feed(1, f"rate: {printed}\n".encode())
    with pytest.raises(MeasurementError, match=re.escape(words)):
        reader.value()


def test_a_column_of_a_table_with_commas_is_read() -> None:
    for pattern, number in (("^[0-9.]+,([0-9.]+),", 12.5), ("^([0-9.]+),", 7)):
        reader = MetricReader(compile_metric(pattern))
        reader.feed(1, b"7,12.5,30\n")
        assert reader.value() == number


@pytest.mark.parametrize("pattern", ["(a+)+b$", "(?:a|aa)+(x)$", "(?:(?:a*)*)*(c)d", "(a|a)*b"])
def test_an_expression_that_backtracks_is_ended(pattern: str) -> None:
    # Each takes 2 to the power of 40 steps or more.
    reader = MetricReader(compile_metric(pattern))
    reader.feed(1, b"a" * 60 + b"c\n")
    reader.feed(1, b"a" * 60 + b"c\n")
    with pytest.raises(MeasurementError, match="without a repetition inside a repetition"):
        reader.value()


def test_input_that_is_a_file_is_read_by_every_run(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("hello\n")
    out = tmp_path / "out"
    script = (
        "from pathlib import Path\n"
        "from mansard.inference.programs.execution import execute, find_input\n"
        "at = find_input()\n"
        f"for _ in range(2): execute(['sh', '-c', 'cat >> {out}'], '.', Path('w'), input_at=at)\n"
    )
    with (tmp_path / "in").open() as given:
        subprocess.run([PYTHON, "-c", script], cwd=tmp_path, stdin=given, check=True)
    assert out.read_text() == "hello\nhello\n"


def test_input_that_is_no_file_is_read_once(tmp_path: Path) -> None:
    command = [
        *(PYTHON, "-c"),
        "from mansard.inference.programs.execution import find_input, is_read_once\n"
        "print(find_input(), is_read_once())",
    ]
    piped = subprocess.run(command, input=b"x", capture_output=True, check=True)
    assert piped.stdout == b"None True\n"
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, check=True
    )
    assert closed.stdout == b"None False\n"
    (tmp_path / "in").write_text("hello\n")
    with (tmp_path / "in").open("rb") as given:
        given.seek(3)
        opened = subprocess.run(command, stdin=given, capture_output=True, check=True)
    assert opened.stdout == b"3 False\n"


def test_windows_of_any_name_cross_as_one_line(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    names = ["decode", "two words", "line\nbreak", "", "é" * 300]
    lines = [encode_window(name, 10 * i, 10 * i + 5) for i, name in enumerate(names)]
    path.write_bytes(b"".join(lines) + b"junk\n1 2\n9 3 backwards\n-1 2 x\n7 8 half")
    found = read_windows(path)
    assert [one.name for one in found] == ["decode", "two words", "line break", "", "é" * 200]
    assert all(one.end_ns - one.start_ns == 5 for one in found)


PHASES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long long now(void) {
  struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void until(long long at) {
  struct timespec t = {at / 1000000000LL, at % 1000000000LL};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}
int main(void) {
  long long start = now(), ms = 1000000LL;
  FILE *file = fopen(getenv("MANSARD_WINDOWS"), "a");
  until(start + 1000 * ms);
  /* Nested: phase 1 lies in phase 0, and so on; phases 5 to 9 each overlap with the next one. */
  for (int i = 0; i < 10; i++) {
    long long a = i < 5 ? start + i * 50 * ms : start + (i - 5) * 120 * ms;
    long long b = i < 5 ? start + (1000 - i * 50) * ms : a + 400 * ms;
    fprintf(file, "%lld %lld phase %d\n", a, b, i);
  }
  return fclose(file);
}
"""


@pytest.mark.usefixtures("before_all")
def test_energy_of_a_program_and_of_ten_windows_in_it(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "phases.c").write_text(PHASES)
    subprocess.run([compiler, "-o", "phases", "phases.c"], cwd=tmp_path, check=True)
    # A ramp: 2 W at the start of the trace, and 1 W more in every second.
    command = [str(tmp_path / "phases")]
    once, begun_s = measure_metered(command, tmp_path, (0.0, 2.0), (60.0, 62.0))
    assert once.energy is not None

    def expected_j(start_s: float, length_s: float) -> float:
        # Of 2 + t over [a, a + d]: d · (2 + a + d / 2).
        return length_s * (2 + start_s - begun_s + length_s / 2)

    for _ in windows_read([once.energy]):
        assert once.peak_w == pytest.approx(2 + once.start_s + once.wall_s - begun_s, rel=0.05)
    # Nested: 1000, 900, … 600 ms; overlapping: 400 ms each.
    lengths_s = {window.name: window.window_s for window in once.windows}
    nested = {f"phase {i}": 1 - i / 10 for i in range(5)}
    assert lengths_s == pytest.approx(nested | {f"phase {i}": 0.4 for i in range(5, 10)})
    found = (once.energy, *(window.energy for window in once.windows))
    energies = [energy for energy in found if energy is not None]
    assert [one.window_s for one in energies] == pytest.approx([once.wall_s, *lengths_s.values()])
    for energy in windows_read(energies):
        assert energy.total_j == pytest.approx(
            expected_j(energy.start_s, energy.window_s), rel=0.005
        )


def alternating(folder: Path, faulty: Callable[[int, float], float | None]) -> ProgramRepetition:
    """A program that runs until ``AlternatingMeter`` was read forty times."""
    total = Total(("VDD_GPU", "VDD_CPU"), "both", "the module")
    meters = Meters((AlternatingMeter(folder, faulty),), {}, total)
    program = "touch started; until test -e read; do sleep 0.01; done"
    row, _ = measure(["sh", "-c", program], folder, meters=meters)
    return row.repetitions[0]


def test_the_peak_adds_no_rails_of_two_readings(tmp_path: Path) -> None:
    once = alternating(tmp_path, lambda _, power_w: power_w)
    # 1 + 5 W; 4 W of one reading and 5 W of the next would be 9 W.
    assert once.peak_w == 6.0 or once.unknown["peak_w"].startswith("VDD_GPU: not measurable")


@pytest.mark.parametrize(
    ("faulty", "why"),
    [
        (lambda n, power_w: 60.0 if n == 20 else power_w, "the sensor jumped to 60.000 W"),
        (lambda n, power_w: None if n == 20 else power_w, "the meter stopped answering"),
        (lambda n, power_w: -5.0 if n == 20 else power_w, "the sensor read -5.000 W"),
    ],
    ids=["a jump", "a silent reading", "below zero"],
)
def test_readings_that_give_no_energy_give_no_peak(
    faulty: Callable[[int, float], float | None], why: str, tmp_path: Path
) -> None:
    once = alternating(tmp_path, faulty)
    assert once.energy is not None
    assert (once.energy.total_j, once.peak_w) == (None, None)
    assert once.unknown["peak_w"] == once.energy.unknown["total_j"]
    assert once.unknown["peak_w"].startswith(f"VDD_GPU: {why}")


def test_too_few_readings_for_an_energy_give_no_peak(tmp_path: Path) -> None:
    meters, _ = trace((0.0, 5.0), (60.0, 5.0))
    row, _ = measure(["sleep", "0.05"], tmp_path, meters=meters)
    (once,) = row.repetitions
    assert once.peak_w is None
    assert "not measurable" in once.unknown["peak_w"]


@pytest.mark.usefixtures("before_all")
def test_a_sleep_of_two_seconds_takes_two_seconds(tmp_path: Path) -> None:
    # A busy machine wakes it late: what the sleep itself took is what it is compared with.
    program = (
        "import time\nt = time.monotonic()\ntime.sleep(2)\nprint('slept', time.monotonic() - t)"
    )
    # 5 + 10 t until 1 s, 14 + t after it; a busy machine may start the program after that.
    points = ((0.0, 5.0), (1.0, 15.0), (60.0, 74.0))
    command = [PYTHON, "-S", "-c", program]
    once, begun_s = measure_metered(command, tmp_path, *points, metric="slept ([0-9.]+)")
    assert once.metric is not None
    assert once.energy is not None
    assert once.wall_s >= once.metric >= 2
    start_s = once.start_s - begun_s
    ramp_s = max(0.0, 1 - start_s)
    later_s = once.wall_s - ramp_s
    expected_j = ramp_s * (5 + 10 * (start_s + ramp_s / 2))
    expected_j += later_s * (14 + start_s + once.wall_s - later_s / 2)
    for energy in windows_read([once.energy]):
        assert energy.total_j == pytest.approx(expected_j, rel=0.005)


def test_a_failure_keeps_nothing(tmp_path: Path) -> None:
    # It fails in its second run.
    program = f"test -e {tmp_path}/again && exit 5; touch {tmp_path}/again"
    with pytest.raises(ProgramFailed, match="exit code 5 in its run 2") as caught:
        measure(["sh", "-c", program], tmp_path, n_runs=3)
    assert caught.value.exit_code == 5


def test_it_runs_as_often_as_asked(tmp_path: Path) -> None:
    row, _ = measure(["true"], tmp_path, n_runs=7)
    assert len(row.repetitions) == 7
    assert all(one.metric is None for one in row.repetitions)


@pytest.mark.parametrize(
    "words",
    [
        ("{file}",),
        ("--config={file}",),
        ("-c{file}",),
        ("key={file}",),
        ("@{file}",),
        ("data=@{file}",),
        ("--inputs=other,{file}",),
        ("-c", "cat {file}; true"),
        ("-c", "cat < {file}"),
    ],
)
def test_a_file_that_an_argument_names_is_part_of_the_program(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "settings.txt"
    command = ["sh", *(word.format(file=file) for word in words)]
    hashes = set()
    for text in ("one", "two"):
        file.write_text(text)
        hashes.add(make_program_trial(command).program_hash)
    assert len(hashes) == 2


def test_a_module_of_the_folder_is_part_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hashes = set()
    for text in ("1", "2"):
        (tmp_path / "work.py").write_text(text)
        hashes.add(make_program_trial(["python3", "-m", "work"]).program_hash)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        *(("OMP_NUM_THREADS", ()), ("CUDA_VISIBLE_DEVICES", ()), ("OPENBLAS_NUM_THREADS", ())),
        *(("NVIDIA_TF32_OVERRIDE", ()), ("PYTORCH_CUDA_ALLOC_CONF", ()), ("LD_PRELOAD", ())),
        ("NAP", ("NAP",)),
    ],
)
def test_a_variable_that_changes_speed_is_part_of_the_program(
    monkeypatch: pytest.MonkeyPatch, variable: str, named: tuple[str, ...]
) -> None:
    trials = []
    for value in ("", "1", "2"):
        monkeypatch.setenv(variable, value)
        trials.append(make_program_trial(["true"], variables=named))
    assert [each.environment[variable] for each in trials] == ["", "1", "2"]
    assert len({each.trial_id for each in trials}) == len({each.program_hash for each in trials})
    assert len({each.trial_id for each in trials}) == 3


def test_another_variable_is_not_part_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_program_trial(["true"])
    monkeypatch.setenv("NAP", "3")
    assert make_program_trial(["true"]) == before


def test_a_secret_is_kept_nowhere_and_part_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = []
    for secret in ("hunter2", "hunter3"):
        monkeypatch.setenv("TORCH_TOKEN", secret)
        trials.append(make_program_trial(["sh", "-c", "true", "--password", secret]))
        assert "hunter" not in repr(trials[-1])
    assert trials[0].program_hash != trials[1].program_hash
    assert trials[0].environment != trials[1].environment
