"""The examples in docstrings of the façade, run beside runs, a log and a simulated board."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from mansard import api
from mansard.api.result import Result
from mansard.simulator import create_board, running
from tests.analytics.factory import write_two_modes
from tests.api.test_results import tiny_model
from tests.cli.decide_runs import published_runs
from tests.device.tegrastats_lines import LINES

pytestmark = pytest.mark.usefixtures("before_others")

EXAMPLES = {
    name: doctest.DocTestFinder(recurse=False).find(function, name, globs={})[0]
    for name, function in (
        *((name, inspect.unwrap(getattr(api, name))) for name in dir(api)),
        ("plot", Result.plot),
    )
    if inspect.isfunction(function) and ">>>" in (function.__doc__ or "")
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docstrings")
    write_two_modes(folder / "runs")
    published_runs(folder / "published")
    onnx.save(tiny_model(), folder / "tiny.onnx")
    (folder / "tegrastats.log").write_text(f"{LINES['TX2 r32']}\n" * 3, encoding="utf-8")
    create_board("agx-orin", folder)
    return folder


def test_there_are_ten() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_what_it_shows(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    lines: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    with running(folder / "agx-orin"):
        failed, _ = runner.run(EXAMPLES[name], out=lines.append, clear_globs=True)
    assert not failed, "".join(lines)


def _functions() -> list[Callable[..., Any]]:
    return [
        one for name in dir(api) if inspect.isfunction(one := inspect.unwrap(getattr(api, name)))
    ]


def test_every_function_says_in_one_sentence_what_it_does() -> None:
    for function in _functions():
        first, _, rest = (inspect.getdoc(function) or "").partition("\n")
        assert first.endswith("."), function.__name__
        assert not rest or rest.startswith("\n"), function.__name__
