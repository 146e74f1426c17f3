"""The commands of the documentation, from groups that are measured to a schedule.

It takes its time, for it measures: no other test goes this whole way.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.decide_runs import answer
from tests.inference.test_cutting import residual

pytestmark = pytest.mark.usefixtures("before_others")

DOCUMENT = Path(__file__).parents[2] / "docs/use/scheduling.md"
QUICK = ("--local", "--profile", "brief", "--processor", "cpu")


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1")
def test_groups_are_measured_and_scheduled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    name = residual(tmp_path).name
    section = DOCUMENT.read_text("utf-8").partition("## Problems from measurements")[2]
    (block,) = re.findall(r"^```(?:sh)?\n(.*?)^```$", section.partition("\n## ")[0], re.M | re.S)
    measure, again, contention, schedule = map(shlex.split, block.splitlines())
    assert (again[1:3], contention[1:]) == (["measure", "alexnet"], ["multi", "contention"])
    ours = {"resnet18": [name], "alexnet": [], "8": ["2"]}

    def words(line: list[str]) -> list[str]:
        return [word for each in line[1:] for word in ours.get(each, [each])]

    code, _, err = answer(capsys, *words(measure), *QUICK)
    assert code == 0, err
    code, out, err = answer(capsys, *words(schedule))
    assert code == 0, err
    assert "1 network on cpu:0 and cpu:1: makespan " in out
    assert "groups by what their times are" not in out  # measured, all of them
    assert "note: contention of cpu:0 is unknown, and not counted: mansard multi contention" in out
    assert (tmp_path / "schedule.html").exists()
