"""``mansard zoo``: the networks that ship with Mansard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mansard import api
from mansard.api import results
from mansard.cli.console import print_json, print_whole
from mansard.cli.counting.score import score_rows
from mansard.cli.options import ForceOption, JsonOption
from mansard.cli.tables import print_facts, print_table

zoo_app = typer.Typer(
    help="The networks that ship with Mansard, as ONNX files without weights.",
    no_args_is_help=True,
)

_SINGLE = "a single convolution with ReLU"  # the task of entries that are no networks
_Name = Annotated[str, typer.Argument(help="A network that 'mansard zoo list' shows.")]


@zoo_app.command("list")
def list_networks(as_json: JsonOption = False) -> None:
    """List the networks with their inputs and what is published; then single convolutions."""
    entries = api.list_networks()
    if as_json:
        print_json("zoo-list", {"networks": [*map(_facts, entries)]})
        return
    rows = [
        (
            entry.name,
            entry.title,
            f"{entry.published_macs / 1e9:.3g}" if entry.published_macs else "–",
            f"{entry.published_parameters / 1e6:.3g}" if entry.published_parameters else "–",
        )
        for entry in entries
        if entry.task != _SINGLE
    ]
    columns = ("network", "what it is", "published GMAC", "published parameters (M)")
    print_table("Networks in the zoo", columns, rows)
    single = [(entry.name, entry.title) for entry in entries if entry.task == _SINGLE]
    print_table(
        "Single convolutions, together called convolutions", ("network", "what it is"), single
    )


@zoo_app.command("show")
def show_network(name: _Name, as_json: JsonOption = False) -> None:
    """Show what one network is, where its figures come from, and its work."""
    network = api.show_network(name)
    entry = network.entry
    if as_json:
        print_json("zoo-show", {"network": _facts(entry), "score": network.score})
        return
    facts = _facts(entry).items()
    rows = [
        (key.replace("_", " "), _show_fact(entry, key, value))
        for key, value in facts
        if key != "unknown"
    ]
    print_facts(entry.title, rows)
    print_table(f"Score of {name}", *score_rows([network.score]))


@zoo_app.command("write")
def write_networks(
    folder: Annotated[Path, typer.Argument(help="Folder to write the ONNX files into.")],
    name: Annotated[list[str] | None, typer.Argument(help="Networks; all by default.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write networks as ONNX files that every tool can read."""
    paths = api.write_networks(folder, name or (), replaces=force)
    if as_json:
        print_json("zoo-write", {"files": paths})
    else:
        print_whole(*map(str, paths))


def _facts(entry: results.Entry) -> dict[str, object]:
    """What is known about a network, without the function that draws it."""
    facts = {field: getattr(entry, field) for field in entry.__struct_fields__ if field != "draw"}
    return {**facts, "dims": dict(entry.dims)}


def _show_fact(entry: results.Entry, field: str, value: object) -> str:
    if value is None:
        return f"unknown: {entry.unknown[field]}"
    if isinstance(value, dict):
        return ", ".join(f"{name}={size}" for name, size in value.items())
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)
