"""``--help`` of every command: it fits 80 columns, names values by what they are, has examples."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from mansard.cli.app import make_app
from mansard.cli.help import EXAMPLES
from tests.cli.in_process import mansard


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


EVERY = dict(commands(typer.main.get_command(make_app())))


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_fits_and_leaks_no_type(path: tuple[str, ...]) -> None:
    done = mansard(*path, "--help")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert not re.search(r"<\w|STRING|INTEGER|x>=|\bTEXT\b(?!.*published)", done.stdout)
    assert "..." not in re.sub(r"[A-Z]\.\.\.|\[ARGS\]\.\.\.", "", done.stdout)


def test_summaries_take_one_line_under_headings() -> None:
    shown = mansard("--help").stdout
    listed = [line.split()[0] for line in shown.splitlines() if re.match(r"  [a-z]+ {2,}\w", line)]
    assert sorted(listed) == sorted(name for (name, *more) in list(EVERY)[1:] if not more)
    assert shown.index("Begin here:") < shown.index("Decide:")
    for group in ("demo", "multi", "offload", "models", "board", "data"):
        inner = mansard(group, "--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0]
        names = dict.fromkeys(path[1] for path in EVERY if path[:1] == (group,) and path[1:])
        assert [line.split()[0] for line in inner.splitlines()] == [*names]


def test_every_command_has_examples_and_they_parse() -> None:
    leaves = {path for path, command in EVERY.items() if not hasattr(command, "commands")}
    assert {tuple(name.split()) for name in EXAMPLES} == leaves | {("demo",)}
    for name, lines in EXAMPLES.items():
        path = tuple(name.split())
        for line in lines:
            assert len(line) <= 78, line
            words = shlex.split(line.partition(" > ")[0])
            assert tuple(words[: len(path) + 1]) == ("mansard", *path), line
            rest = words[len(path) + 1 :]
            if path != ("demo",):
                EVERY[path].make_context(name, rest)  # raises for an option that is not there
    assert mansard("score", "--help").stdout.endswith(
        "Examples:\n"
        "  mansard score resnet50 --batch 1,8\n"
        "  mansard score bert_base --phase training --optimizer adam --json\n"
    )


def test_minimize_is_minimise() -> None:
    for spelling in ("--minimise", "--minimize"):
        done = mansard("plan", "--runs", "nowhere", spelling, "latency")
        assert (done.returncode, "nowhere" in done.stderr) == (1, True)
