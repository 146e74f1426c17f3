"""The pages of the commands, made from the command line itself.

    python -m tools.site.commands            write docs/reference/commands again

A page begins with what the command line says: what the command does, its usage, its arguments and
options. The part below the line ``_BY_HAND``, examples and remarks, is written by hand and stays.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from mansard.cli.app import make_app
from mansard.cli.help import help_record

FOLDER = Path(__file__).resolve().parents[2] / "docs/reference/commands"
_BY_HAND = "<!-- by hand from here -->"
_NOTE = "<!-- made by `python -m tools.site.commands`; to change it, change the command line -->"
_INDEX = "index.md"
_INDEX_HEAD = """# Commands

Each page has usage, options and examples of a command. [Rules](#rules-of-all-commands) that all
commands follow are below.
"""
# Texts of ours that are code where they stand: options, files, settings.
_CODE = re.compile(
    r"(?<![\w`])(--?[a-z][a-z-]*|[\w./-]+\.(?:toml|csv|json|npz|onnx|parquet|html)\b)"
)


def command_pages() -> dict[str, str]:
    """File name of each command's page, and the part of it that is made from the command line."""
    application: Any = typer.main.get_command(make_app())
    commands = application.commands
    pages = {f"{name}.md": _page(name, command) for name, command in commands.items()}
    return {_INDEX: _index(commands)} | pages


def with_what_is_by_hand(made: str, page: Path) -> str:
    """``made``, and below it what ``page`` holds by hand."""
    before = page.read_text("utf-8") if page.exists() else ""
    _, _, by_hand = before.partition(_BY_HAND)
    return f"{made}\n{_BY_HAND}{by_hand or chr(10)}"


def _index(commands: Mapping[str, Any]) -> str:
    """A table of the commands under each heading of ``mansard --help``."""
    rows: dict[str, list[str]] = {}
    for name, command in commands.items():
        row = (
            f"| [mansard {name}]({name}.md) | {_cell(_escaped(command.get_short_help_str(200)))} |"
        )
        rows.setdefault(command.rich_help_panel, []).append(row)
    lines = [_INDEX_HEAD, _NOTE]
    for heading, each in rows.items():
        lines += ["", f"## {heading}", "", "| command | what it does |", "|---|---|", *each]
    return "\n".join(lines) + "\n"


def _page(name: str, command: Any) -> str:
    called = f"mansard {name}"
    parts = [f"# {called}", _NOTE, *_described(called, command), *_inner(called, command)]
    return "\n\n".join(parts) + "\n"


def _inner(called: str, command: Any) -> Iterator[str]:
    """The commands of a group, and of groups in it."""
    for word, each in getattr(command, "commands", {}).items():
        yield f"## {called} {word}"
        yield from _described(f"{called} {word}", each)
        yield from _inner(f"{called} {word}", each)


def _described(called: str, command: Any) -> Iterator[str]:
    """What the command does, how it is called, and a table of what it takes."""
    with command.make_context(called, [], resilient_parsing=True) as context:
        yield _prose(command.help or "")
        usage = command.get_usage(context).removeprefix("Usage: ")
        yield f"```text\n{' '.join(usage.split())}\n```"
        hidden = {"help", "install_completion", "show_completion"}
        rows = [
            (record, each)
            for each in command.params
            if each.name not in hidden and not getattr(each, "hidden", False)
            if (record := help_record(each, context)) is not None
        ]
        for kind, title in (("argument", "argument"), ("option", "option")):
            found = [record for record, each in rows if each.param_type_name == kind]
            if found:
                yield _table(title, found)


def _table(title: str, records: list[tuple[str, str]]) -> str:
    lines = [f"| {title} | meaning |", "|---|---|"]
    for name, meaning in records:
        lines.append(f"| {_cell(_name(name))} | {_cell(_escaped(meaning))} |")
    return "\n".join(lines)


def _name(text: str) -> str:
    """``--mode MODE`` as two pieces of code, between which a narrow page may end a line."""
    option, _, value = text.rpartition(" ")
    return f"`{option}` `{value}`" if option.startswith("-") and value[:1] != "-" else f"`{text}`"


def _prose(text: str) -> str:
    """A docstring's paragraphs, one line each; lists and indented lines as they are."""
    paragraphs = inspect.cleandoc(text).replace("\b\n", "").split("\n\n")
    return "\n\n".join(
        f"```text\n{inspect.cleandoc(each)}\n```"
        if each.startswith("  ")
        else _escaped(" ".join(each.split()))
        for each in paragraphs
    )


def _escaped(text: str) -> str:
    """Text of a terminal as Markdown: nothing in it is markup but what is code."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        f"`{part}`" if number % 2 else re.sub(r"([*_\[\]])", r"\\\1", part).replace("<", "&lt;")
        for number, part in enumerate(parts)
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write(pages: Mapping[str, str]) -> None:
    """Write every page again, and remove those of commands that are gone."""
    for name, made in pages.items():
        (FOLDER / name).write_text(with_what_is_by_hand(made, FOLDER / name), "utf-8")
    for page in FOLDER.glob("*.md"):
        if page.name not in pages and page.name != "index.md":
            page.unlink()


if __name__ == "__main__":
    write(command_pages())
