"""Steps with their shares of the time: one that fails or hangs does not end the others."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tools.card_check.lines.others import gpu_test_lines, step_lines
from tools.card_check.processes import LEAST_S, Step, run_steps
from tools.card_check.steps.gpu_tests import read_results, run_tests

GRACE = 1.0
STEP_S = GRACE + LEAST_S + 1


def step(name: str, code: str, seconds: float = STEP_S) -> Step:
    """A step that runs ``code`` and may take ``seconds`` of 3 · ``STEP_S``."""
    return Step(name, seconds / (3 * STEP_S), lambda _: [sys.executable, "-c", code])


def test_one_that_fails_and_one_that_hangs_are_lines_and_the_rest_runs(tmp_path: Path) -> None:
    child = tmp_path / "child"
    hangs = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(child)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    steps = [
        step("hangs", hangs),
        Step("absent", 0.0, lambda _: [], why_not="pytest is not installed"),
        step("fails", "print('before'); raise SystemExit('the card fell off')"),
        step("runs", "print('done')"),
    ]
    outcomes = run_steps(steps, 3 * STEP_S, tmp_path, lambda _text: None, grace_s=GRACE)
    assert [one.status for one in outcomes] == ["out of time", "not possible", "failed", "done"]
    assert outcomes[2].why == "the card fell off"
    pid = int(child.read_text())
    for _ in range(100):
        if not _is_alive(pid):
            break
        time.sleep(0.05)
    assert not _is_alive(pid)
    steps_json = {"steps": [one.as_json() for one in outcomes]}
    lines = {line.name: line for line in step_lines(steps_json)}
    assert lines["step fails"].failure == "failed: the card fell off"
    assert lines["step hangs"].verdict == "FAIL"
    assert "step runs" not in lines


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def test_a_step_without_time_is_not_begun(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    outcomes = run_steps(
        [step("late", f"open({str(begun)!r}, 'w')", seconds=STEP_S / 2)],
        3 * STEP_S,
        tmp_path,
        lambda _text: None,
        grace_s=GRACE,
    )
    assert [one.status for one in outcomes] == ["no time left"]
    assert not begun.exists()


def test_what_runs_beside_a_step_ends_with_it(tmp_path: Path) -> None:
    ready, looks = tmp_path / "ready", tmp_path / "looks"
    beside = (
        "import time\n"
        "try:\n"
        f"    open({str(ready)!r}, 'w').close()\n"
        "    time.sleep(600)\n"
        f"except KeyboardInterrupt:\n    open({str(looks)!r}, 'w')\n"
    )
    # The step waits until the other can be interrupted.
    waits = f"import os, time\nwhile not os.path.exists({str(ready)!r}): time.sleep(0.01)"
    one = Step(
        "kernels",
        1.0,
        lambda _: [sys.executable, "-c", waits],
        lambda _: [sys.executable, "-c", beside],
    )
    (outcome,) = run_steps([one], 600.0, tmp_path, lambda _text: None, grace_s=300.0)
    assert outcome.status == "done"
    assert looks.exists()


def test_the_tests_behind_a_lost_gpu_run_in_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests/gpu").mkdir(parents=True)
    (tmp_path / "tests/gpu/test_lost.py").write_text(
        "import os\n"
        "def test_before(): pass\n"
        "def test_takes_the_gpu_along(request):\n"
        "    request.session.shouldstop = 'the GPU is lost'\n"
        "    raise RuntimeError('an illegal access')\n"
        f"def test_behind(): assert os.getppid() == {os.getpid()}\n"
        "def test_last(): pass\n"
    )
    assert run_tests(tmp_path, is_software=False) == 2
    results = read_results(tmp_path / "tests.xml")
    assert results is not None
    assert results.n_passed == 3
    assert [one.name for one in results.failed] == ["test_takes_the_gpu_along"]
    assert "an illegal access" in results.failed[0].why


def test_tests_that_cannot_be_collected_are_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests/gpu").mkdir(parents=True)
    (tmp_path / "tests/gpu/test_broken.py").write_text("import absent_module\n")
    assert run_tests(tmp_path, is_software=False) == 2
    results = read_results(tmp_path / "tests.xml")
    assert results is not None
    assert (results.n_passed, len(results.failed)) == (0, 1)


JUNIT = """<testsuites><testsuite>
<testcase name="test_a"/>
<testcase name="test_b"><skipped message="cublas is not installed"/></testcase>
<testcase name="test_c"><failure message="assert 1 == 2&#10;where 1 = f()">long</failure></testcase>
<testcase name="test_d"><error message="no module">long</error></testcase>
</testsuite></testsuites>"""


def test_each_test_that_fails_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "tests.xml").write_text(JUNIT)
    results = read_results(tmp_path / "tests.xml")
    steps = {"steps": [{"name": "tests", "status": "failed", "why": "1 failed"}]}
    lines = list(gpu_test_lines(results, steps))
    assert [line.verdict for line in lines] == ["FAIL", "FAIL", "FAIL"]
    assert lines[0].value == "1 of 3"
    assert lines[0].note == "1 skipped: cublas is not installed"
    assert lines[1].name == "test_c"
    assert lines[1].failure == "assert 1 == 2 where 1 = f()"


@pytest.mark.parametrize(
    ("status", "verdict"), [("not possible", "info"), ("out of time", "FAIL"), ("failed", "FAIL")]
)
def test_tests_without_results_say_why(status: str, verdict: str) -> None:
    steps = {"steps": [{"name": "tests", "status": status, "why": "a reason"}]}
    (line,) = gpu_test_lines(None, steps)
    assert line.verdict == verdict
    assert "a reason" in line.note + line.failure
