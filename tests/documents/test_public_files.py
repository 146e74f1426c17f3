"""The public CI calls the README's commands; issue forms ask for commands that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import mansard

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra docs")
ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github/workflows/ci.yml"
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
TYPES = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def test_the_workflow_runs_the_two_commands_and_may_only_read() -> None:
    workflow = read(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"].values()
    assert not any("permissions" in job for job in jobs)
    steps = [step for job in jobs for step in job["steps"]]
    assert {step["run"] for step in steps if "run" in step} == {"make test", "make bench"}
    # A tag can be moved to other code; a commit cannot.
    used = re.findall(r"uses: (\S+) # v[0-9.]+$", WORKFLOW.read_text("utf-8"), re.MULTILINE)
    assert len(used) == sum("uses" in step for step in steps)
    assert all(re.fullmatch(r"[a-z/-]+@[0-9a-f]{40}", each) for each in used)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_shows(path: Path) -> None:
    form = read(path)
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert form.keys() == {"name", "description", "labels", "body"}
    ids = [part["id"] for part in form["body"]]
    assert len(ids) == len(set(ids))
    for part in form["body"]:
        assert part["type"] in TYPES
        assert part["attributes"]["label"]
    (doctor,) = (part for part in form["body"] if part["id"] == "doctor")
    assert "`mansard doctor --json`" in doctor["attributes"]["description"]
    assert doctor["validations"] == {"required": True}


def test_commands_that_forms_and_workflow_name_exist() -> None:
    texts = [path.read_text("utf-8") for path in (*FORMS, WORKFLOW)]
    commands = {each for text in texts for each in re.findall(r"`mansard ([^`]+)`", text)}
    assert len(commands) == 3
    for command in commands:
        *words, last = command.split()
        helped = mansard(*words, "--help").stdout
        assert last in helped
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    made = {each for text in texts for each in re.findall(r"(?:`|run: )make ([a-z-]+)", text)}
    assert made == {"bench", "test"} <= targets
