"""Help is the same with the parameters of Typer 0.26 to 0.28, which are Click's, and of 0.29."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from mansard.cli.help import HelpfulCommand, help_record, usage_piece


class IntParamType:
    """Of Click, as the following ones are: told apart by their names."""


class FloatRange:
    pass


class TyperPath:
    pass


class StringParamType:
    pass


def click_parameter(kind: object, **more: object) -> Any:
    """A parameter as Typer has it before 0.29."""
    return parameter(type=kind, **more)


def typed_parameter(annotation: Any, **more: object) -> Any:
    """A parameter as Typer 0.29 has it: without ``type``, with a descriptor of its annotation."""
    literal = getattr(annotation, "__args__", ()) if "Literal" in str(annotation) else None
    descriptor = SimpleNamespace(
        annotation=annotation,
        is_list=str(annotation).startswith("list"),
        is_path=annotation is Path,
        is_ranged=bool(more.pop("is_ranged", False)),
        choices=literal,
    )
    return parameter(type_descriptor=descriptor, **more)


def parameter(**more: Any) -> Any:
    values = {"metavar": None, "param_type_name": "option", "opts": ["--x"], "nargs": 1}
    made = SimpleNamespace(**(values | {"name": "x"} | more))
    made.get_help_record = lambda _context: (f"{made.name} <list[str]>", "Words.  [x>=1]")
    return made


def value_name(made: Any) -> str | None:
    """What a command of ours calls the value of its one parameter."""
    HelpfulCommand("name", params=[made])
    name: str | None = made.metavar
    return name


@pytest.mark.parametrize(
    ("old", "annotation", "is_ranged", "name"),
    [
        (IntParamType(), int, False, "N"),
        (FloatRange(), float, True, "NUMBER"),
        (StringParamType(), float, False, "TEXT"),
        (StringParamType(), str, False, "TEXT"),
        (TyperPath(), Path, False, "FILE"),
        (TyperPath(), list[Path], False, "FILE"),
        (IntParamType(), list[int], False, "N"),
        (SimpleNamespace(choices=("brief", "full")), Literal["brief", "full"], False, "brief|full"),
    ],
)
def test_values_have_one_name(old: object, annotation: Any, is_ranged: bool, name: str) -> None:
    assert value_name(click_parameter(old)) == name
    assert value_name(typed_parameter(annotation, is_ranged=is_ranged)) == name


def test_a_name_of_ours_goes_before_the_type() -> None:
    for made in (click_parameter(StringParamType()), typed_parameter(str)):
        made.opts = ["--mode"]
        assert value_name(made) == "MODE"


def test_an_argument_is_called_by_its_name_alone() -> None:
    made = typed_parameter(
        list[str], param_type_name="argument", name="models", opts=["models"], nargs=-1
    )
    assert value_name(made) == "MODEL..."
    assert help_record(made, None) == ("MODEL...", "Words.")


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("[MODEL...]", "[MODEL...]"),
        ("[MODEL...]...", "[MODEL...]"),
        ("{MODEL...}...", "MODEL..."),
        ("{MODEL...}", "MODEL..."),
        ("{SOURCE}", "SOURCE"),
        ("[OPTIONS]", "[OPTIONS]"),
    ],
)
def test_dots_stand_once_in_the_usage(piece: str, shown: str) -> None:
    assert usage_piece(piece) == shown
