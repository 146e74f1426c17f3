"""The steps of the GitHub Action, run as GitHub runs them: bash, and files for what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ACTION = Path(__file__).parents[2] / ".github" / "actions" / "mansard" / "action.yml"
_EXPRESSION = re.compile(r"\$\{\{\s*([a-z.]+)\s*\}\}")


class Job(NamedTuple):
    """What became of an action: the code of the step that failed, else 0."""

    code: int
    outputs: dict[str, str]  # of all steps
    summary: str
    log: str


def run_action(folder: Path, inputs: Mapping[str, str], path: str | None = None) -> Job:
    """Run the steps of the action that are scripts, one by one, until one fails."""
    action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    values = {f"runner.{name}": str(folder / name) for name in ("temp",)}
    for name, about in action["inputs"].items():
        values[f"inputs.{name}"] = inputs.get(name, about.get("default", ""))
    (folder / "temp").mkdir(exist_ok=True)
    files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
    files["GITHUB_STEP_SUMMARY"] = folder / "summary.md"
    for file in files.values():
        file.write_text("")
    log, outputs = [], dict[str, str]()
    for step in action["runs"]["steps"]:
        if "run" not in step:
            continue

        paths = files["GITHUB_PATH"].read_text().split("\n")[-2::-1]
        paths += [path or f"{Path(sys.executable).parent}:{os.environ['PATH']}"]
        environment = {
            **os.environ,
            **{name: filled(text, values) for name, text in step["env"].items()},
            **{name: str(file) for name, file in files.items()},
            "PATH": ":".join(paths),
        }
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            shell,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        log.append(done.stdout + done.stderr)
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        outputs = dict(line.split("=", 1) for line in lines)
        values |= {f"steps.compare.outputs.{name}": value for name, value in outputs.items()}
        if done.returncode:
            break
    summary = files["GITHUB_STEP_SUMMARY"].read_text()
    return Job(done.returncode, outputs, summary, "\n".join(log))


def filled(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its expressions evaluated."""
    return _EXPRESSION.sub(lambda match: values.get(match[1], ""), text)


def words(*command: str, name: str = "nap") -> str:
    options = ("--name", name, "--repeat", "4", "--metric", "score: ([0-9.]+)", "--")
    return "\n".join((*options, *command)) + "\n"


SCORED = words("bash", "score.sh")


def scored(folder: Path, score: float) -> Path:
    (folder / "score.sh").write_text(f"echo 'score: {score}'\n")
    return folder


def test_a_build_is_measured_compared_and_gated(tmp_path: Path) -> None:
    inputs = {"measure": SCORED, "checks": "metric -10%\n", "repeat": "2"}
    # The first build is the baseline.
    job = run_action(scored(tmp_path, 10), inputs)
    assert (job.code, job.outputs["verdict"]) == (0, "none"), job.log
    assert "There is no baseline yet" in job.summary
    assert "::notice::" in job.log
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


def test_too_little_is_a_warning_or_an_error(tmp_path: Path) -> None:
    inputs = {"measure": SCORED, "checks": "metric 10%\nenergy +3%", "repeat": "1"}
    job = run_action(scored(tmp_path, 10), inputs)
    (tmp_path / "mansard-baseline.json").write_bytes(Path(job.outputs["baseline"]).read_bytes())
    job = run_action(tmp_path, inputs)
    assert (job.code, job.outputs["verdict"]) == (0, "unknown"), job.log
    assert "::warning::" in job.log
    assert run_action(tmp_path, {**inputs, "unknown": "fail"}).code == 4


_HOSTILE = words("bash", "score.sh", name='"; touch pwned; "')


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
    job = run_action(scored(tmp_path, 1), {"measure": SCORED} | inputs)
    assert job.code == code, job.log
    assert not list(tmp_path.rglob("pwned"))


def test_no_input_is_text_of_a_script() -> None:
    action = yaml.safe_load(ACTION.read_text())
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
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
    )
    (tools / "python3").chmod(0o755)
    inputs = {"install": "mansard[onnx]; '$(touch pwned)'", "measure": SCORED, "repeat": "1"}
    job = run_action(scored(tmp_path, 1), inputs, path=f"{tools}:/usr/bin:/bin")
    assert job.code == 0, job.log
    assert (
        tmp_path / "asked"
    ).read_text() == "-m pip install --quiet -- mansard[onnx]; '$(touch pwned)'\n"
    assert not list(tmp_path.rglob("pwned"))
