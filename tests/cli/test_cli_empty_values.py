"""An empty value of an option is an error: it neither drops a limit nor means this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import mansard
from tests.cli.test_cli_help import EVERY

OPTIONS = [
    (words, parameter)
    for words, command in EVERY.items()
    for parameter in command.params
    if not getattr(parameter, "is_flag", False) and not getattr(parameter, "count", False)
]


def test_the_options_were_seen() -> None:
    # Of every command; each takes at least one.
    assert len(OPTIONS) > 250
    assert {words for words, _ in OPTIONS} >= {
        ("offload", "tune"),
        ("measure",),
        ("demo",),
        ("models", "write"),
    }


@pytest.mark.parametrize(
    ("words", "parameter"), OPTIONS, ids=lambda value: "-".join(getattr(value, "opts", value))
)
def test_an_empty_value_is_a_usage_error(
    words: tuple[str, ...], parameter: Any, tmp_path: Path
) -> None:
    for value in ("", " ", ","):
        given: list[str] = []
        for other in EVERY[words].params:
            if other is parameter or other.required:
                is_argument = other.param_type_name == "argument"
                given += [] if is_argument else [max(other.opts, key=len)]
                fitting = getattr(other.type, "choices", None) or ["x"]
                given.append(value if other is parameter else fitting[0])
        done = mansard(*words, *given, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        name = parameter.opts[0].lstrip("-").split("-")[0]
        assert name in done.stderr.lower() or str(parameter.metavar).lower() in done.stderr.lower()
    assert list(tmp_path.iterdir()) == []


def test_words_of_a_program_may_be_empty(tmp_path: Path) -> None:
    board = tmp_path / "gone"
    done = mansard("measure", "--board", board, "--", "true", "", "--mode", "", cwd=tmp_path)
    assert "has no value" not in done.stderr
