"""The steps of the GitHub Action, run as GitHub runs them: bash, and files for what they say."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from tests.analytics.factory import program, write_programs
from tests.analytics.test_compare_everything import nine
from tests.cli.action_runner import ACTION, Here, measure_input, run_action
from tests.waiting import awaited

SCORED = measure_input("bash", "score.sh")


def scored(folder: Path, score: float) -> Path:
    (folder / "score.sh").write_text(f"echo 'score: {score}'\n")
    return folder


def test_a_build_is_measured_compared_and_gated(tmp_path: Path) -> None:
    inputs = {"measure": SCORED, "checks": "metric -10%\n", "repeat": "2"}
    # The first build is the baseline.
    job = run_action(scored(tmp_path, 10), {**inputs, "unknown": "warn"})
    assert (job.code, job.outputs["verdict"]) == (0, "none"), job.log
    assert "There is no baseline yet" in job.summary
    assert "::warning::nothing is compared" in job.log
    (tmp_path / "mansard-baseline.json").write_bytes(Path(job.outputs["baseline"]).read_bytes())
    # An equal build is within, a worse one is stopped, both with a table as summary and comment.
    for score, code, verdict in ((10, 0, "within"), (5, 3, "worse")):
        folder = f"runs of {score}"
        job = run_action(scored(tmp_path, score), {**inputs, "runs": folder})
        assert (job.code, job.outputs["verdict"]) == (code, verdict), job.log
        assert "| nap: metric |" in job.summary
        assert Path(job.outputs["comment"]).read_text() == job.summary
        assert ("::error::" in job.log) == (code == 3)
    assert "0.500" in job.summary


def test_an_undetermined_comparison_stops_the_merge_unless_it_may_pass(tmp_path: Path) -> None:
    inputs = {"measure": SCORED, "checks": "metric 10%\nenergy +3%", "repeat": "1"}
    # So does a baseline that does not exist; the file for the next time is there.
    job = run_action(scored(tmp_path, 10), inputs)
    assert (job.code, job.outputs["verdict"]) == (4, "none"), job.log
    assert (
        "::error::nothing is compared: the baseline mansard-baseline.json does not exist; commit "
        'baseline.json of the artifact under this name. "unknown: warn" lets' in job.log
    )
    (tmp_path / "mansard-baseline.json").write_bytes(Path(job.outputs["baseline"]).read_bytes())
    job = run_action(tmp_path, inputs)
    assert (job.code, job.outputs["verdict"]) == (4, "unknown"), job.log
    # The program has no metered energy, which no number of runs changes.
    (error,) = [line for line in job.log.splitlines() if line.startswith("::error::")]
    assert error == (
        '::error::undetermined: 1 of 2 checks (exit code 4). Raise the input "repeat", or free the '
        'machine of other work. "unknown: warn" lets such changes pass.'
    )
    job = run_action(tmp_path, {**inputs, "unknown": "warn"})
    assert (job.code, job.outputs["verdict"]) == (0, "unknown"), job.log
    assert "::warning::undetermined: 1 of 2 checks" in job.log


_HOSTILE = measure_input("bash", "score.sh", name='"; touch pwned; "')


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"repeat": "$(touch pwned)"}, 2),
        ({"repeat": "1", "measure": "$(touch pwned)\n--\ntrue"}, 2),
        ({"repeat": "1", "measure": _HOSTILE, "runs": "runs`touch pwned`"}, 0),
        ({"repeat": "1", "compare": "--mode\n$(touch pwned)"}, 2),
    ],
)
def test_inputs_are_never_run_as_commands(
    tmp_path: Path, inputs: dict[str, str], code: int
) -> None:
    job = run_action(scored(tmp_path, 1), {"measure": SCORED, "unknown": "warn"} | inputs)
    assert job.code == code, job.log
    assert not list(tmp_path.rglob("pwned"))


def test_no_input_is_text_of_a_script() -> None:
    action = yaml.safe_load(ACTION.read_text())
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        # Programs that a runner may lack.
        assert not re.search(r"\b(awk|curl|gh|git|jq|sed)\b", step.get("run", ""))
        assert "@" not in step.get("uses", "") or re.search(r"@[0-9a-f]{40}$", step["uses"])
    for name, about in action["inputs"].items():
        assert about["description"], name


def test_mansard_is_installed_into_an_environment_of_the_job(tmp_path: Path) -> None:
    # A stand-in for python3 whose environment has a pip that notes what it is asked for.
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").write_text(
        "#!/bin/bash\n"
        'mkdir -p "$3/bin"\n'
        'printf \'#!/bin/bash\\necho "$@" > asked\\n\' > "$3/bin/python"\n'
        f'ln -s "{Path(sys.executable).parent / "mansard"}" "$3/bin/mansard"\n'
        'chmod +x "$3/bin/python"\n'
        'cp "$3/bin/python" "$3/bin/python3"\n'
    )
    (tools / "python3").chmod(0o755)
    (tmp_path / "score.sh").write_text("command -v python3 > python; echo 'score: 1'\n")
    install = "mansard[onnx]; '$(touch pwned)'\n\n./my wheels/a.whl\n"
    inputs = {"install": install, "measure": SCORED, "repeat": "1", "unknown": "warn"}
    job = run_action(tmp_path, inputs, Here(str(tmp_path), f"{tools}:/usr/bin:/bin"))
    assert job.code == 0, job.log
    asked = (tmp_path / "asked").read_text()
    assert asked == (
        "-m pip install --quiet -- mansard[onnx]; '$(touch pwned)' ./my wheels/a.whl\n"
    )
    # What is measured has the runner's Python, and the packages of that one.
    assert (tmp_path / "python").read_text() == f"{tools}/python3\n"
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"measure": " \n\n"}, "measure is empty"),
        ({"repeat": "0"}, "repeat is not"),
        ({"unknown": "Fail"}, "unknown is neither"),
        ({"artifact": "speed: before/after"}, "artifact has a character"),
        ({"checks": "\n"}, "checks is empty"),
        ({"runs": "earlier"}, "runs has earlier builds"),
        ({"checks": "p50 + 5 percent", "baseline": "a baseline.json"}, "is not a check"),
        ({"baseline": "score.sh"}, "cannot read"),
    ],
)
def test_bad_inputs_end_the_job_before_anything_is_measured(
    tmp_path: Path, inputs: dict[str, str], says: str
) -> None:
    (tmp_path / "earlier" / "run").mkdir(parents=True)
    (tmp_path / "a baseline.json").write_text("{}")
    job = run_action(scored(tmp_path, 1), {"measure": SCORED} | inputs)
    assert job.code in (1, 2), job.log
    assert says in job.log
    assert "to measure" not in job.log
    assert not list(tmp_path.glob("temp/mansard-*/runs"))


def test_a_blank_line_begins_another_measurement(tmp_path: Path) -> None:
    (tmp_path / "a 'quoted' folder").mkdir()
    script = scored(tmp_path / "a 'quoted' folder", 10) / "score.sh"
    first = measure_input("bash", str(script), name="first one")
    second = measure_input("bash", str(script), name="second one")
    inputs = {"measure": f"\n{first}\n{second}\n\n", "repeat": "1", "checks": "\nmetric -10%\n\n"}
    job = run_action(tmp_path, {**inputs, "artifact": "", "unknown": "warn"})
    assert job.code == 0, job.log
    baseline = tmp_path / "base line.json"
    baseline.write_bytes(Path(job.outputs["baseline"]).read_bytes())
    job = run_action(tmp_path, {**inputs, "baseline": str(baseline)})
    assert job.code == 0, job.log
    for name in ("first one: metric", "second one: metric"):
        assert f"| {name} |" in job.summary


class Cancelled(Here):
    """As GitHub cancels a job: it interrupts the shell of the step, and nothing below it."""

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        if "MANSARD" not in environment:  # the step that sets up
            return super().run(command, environment)

        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as shell:
            assert awaited((Path(self.folder) / "started").exists)
            shell.send_signal(signal.SIGINT)
            printed, _ = shell.communicate(timeout=120)
        return shell.returncode, printed


def test_a_cancelled_job_ends_the_program_that_it_measures(tmp_path: Path) -> None:
    (tmp_path / "nap.sh").write_text("echo $$ > pid; mv pid started; exec sleep 600\n")
    inputs = {"measure": measure_input("bash", "nap.sh")}
    job = run_action(tmp_path, inputs, Cancelled(str(tmp_path)))
    assert job.code == 130, job.log
    process = Path("/proc") / (tmp_path / "started").read_text().strip()
    assert awaited(lambda: not process.exists())


def test_a_long_comparison_is_cut_to_the_length_of_a_comment(tmp_path: Path) -> None:
    # Each program has two rows, of its check and of its time, which take some 300 bytes together.
    rows = [
        program("many", nine(1.0), trial_id=f"{number:016}", workload=f"program {number}")
        for number in range(400)
    ]
    write_programs(tmp_path / "runs", rows, label="build")
    inputs = {"measure": SCORED, "repeat": "1", "runs": "runs", "label": "build", "unknown": "warn"}
    job = run_action(scored(tmp_path, 1), {**inputs, "baseline": "runs"})
    assert job.code == 0, job.log
    comment = Path(job.outputs["comment"])
    assert len(comment.read_bytes()) < 65_536
    assert comment.read_text().endswith("**The rest is in comparison.md of the artifact.**\n")
    assert job.summary == (comment.parent / "comparison.md").read_text()
    assert "| program 399: time |" in job.summary
    assert "| program 399: time |" not in comment.read_text().split("#### ")[-1]
