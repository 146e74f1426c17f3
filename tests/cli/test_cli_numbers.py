"""Every numeric option of every command has bounds, and none ends in an internal error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mansard.cli.app import make_app
from tests.cli.in_process import mansard

VALUES = ("0", "-1", "1e30", "99999999999999999999", "nan", "inf", "")
# What ends a command at once that would measure or look with the machine alone: nothing is there.
GONE = {
    **dict.fromkeys(("measure", "bench", "multi", "score"), ("gone.onnx",)),
    **dict.fromkeys(("contention", "watch"), ("--board", "gone")),
    "schedule": ("gone.toml",),
}


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield (*before, name), command


NUMERIC = [
    (words, parameter)
    for words, command in commands(typer.main.get_command(make_app()))
    for parameter in command.params
    if parameter.param_type_name == "option"
    and not parameter.is_flag
    and parameter.type.name
    in {"integer", "float", "integer range", "float range", "int range", "int"}
]


def test_the_numeric_options_were_seen() -> None:
    assert len(NUMERIC) > 35


@pytest.mark.parametrize(
    ("words", "parameter"), NUMERIC, ids=lambda value: "-".join(getattr(value, "opts", value))
)
def test_a_number_has_bounds_and_whatever_is_given_is_answered(
    words: tuple[str, ...], parameter: Any, tmp_path: Path
) -> None:
    assert parameter.type.min is not None
    assert parameter.type.max is not None
    option = max(parameter.opts, key=len)
    for value in VALUES:
        done = mansard(*words, *GONE.get(words[0], ()), option, value, cwd=tmp_path)
        assert done.returncode in {0, 1, 2}, (value, done.stderr)
        assert "internal error" not in done.stderr, (value, done.stderr)
        if value not in {"0", "-1"} and words != (
            "offload",
            "tune",
        ):
            assert done.returncode == 2, (value, done.stderr)
