"""Runs the steps of a composite GitHub Action as GitHub's runner does, here or in a container."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

ACTION = Path(__file__).parents[2] / ".github" / "actions" / "mansard" / "action.yml"
ENVIRONMENT_PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
_EXPRESSION = re.compile(r"\$\{\{\s*([a-z.]+)\s*\}\}")


class Job(NamedTuple):
    """What became of an action: the code of the step that failed, else 0."""

    code: int
    outputs: dict[str, str]  # of the action
    summary: str
    log: str


class Place(Protocol):
    """Where the scripts of a job run."""

    @property
    def folder(self) -> str:
        """The path of the job's folder as its scripts see it."""
        ...

    @property
    def path(self) -> str:
        """The variable PATH before any step."""
        ...

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """The exit code of ``command``, run in ``folder``, and what it printed."""
        ...


class Here(NamedTuple):
    """This machine, with all variables of the tests."""

    folder: str
    path: str = ENVIRONMENT_PATH

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout


def run_action(folder: Path, inputs: Mapping[str, str], place: Place | None = None) -> Job:
    """Run the steps of the action that are scripts, one by one, until one fails.

    ``folder`` is the job's on this machine: the checkout, with the runner's folders below.
    """
    place = place or Here(str(folder))
    action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    # An expression of the runner has the host's path in a container too; RUNNER_TEMP has not.
    values = {"runner.temp": str(folder / "temp")}
    for name, about in action["inputs"].items():
        values[f"inputs.{name}"] = inputs.get(name, about.get("default", ""))
    commands = folder / "temp" / "commands"
    commands.mkdir(parents=True, exist_ok=True)
    code, log, summary = 0, "", ""
    for step in action["runs"]["steps"]:
        if "run" not in step:
            continue

        files = {name: commands / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        script = commands / "script.sh"
        script.write_text(step["run"])
        there = f"{place.folder}/temp/commands"
        environment = {
            "PATH": place.path,
            "GITHUB_WORKSPACE": place.folder,
            "RUNNER_TEMP": f"{place.folder}/temp",
            **{name: f"{there}/{name}" for name in files},
            **{name: filled(text, values) for name, text in step["env"].items()},
        }
        assert step["shell"] == "bash"
        shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", f"{there}/script.sh"]
        code, printed = place.run(shell, environment)
        log += printed
        summary += files["GITHUB_STEP_SUMMARY"].read_text()
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, value = line.split("=", 1)
            values[f"steps.{step['id']}.outputs.{name}"] = value
        if code:
            break
    outputs = {name: filled(about["value"], values) for name, about in action["outputs"].items()}
    return Job(code, outputs, summary, log)


def filled(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its expressions evaluated; one without a value is empty, as on GitHub."""
    return _EXPRESSION.sub(lambda match: values.get(match[1], ""), text)


def measure_input(*command: str, name: str = "nap", repeat: int = 8) -> str:
    """The input ``measure`` for a program."""
    options = ("--name", name, "--repeat", str(repeat), "--metric", "score: ([0-9.]+)", "--")
    return "\n".join((*options, *command)) + "\n"
