"""``mansard zoo``: the networks that ship with Mansard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mansard.estimator.zoo import Entry

zoo_app = typer.Typer(
    help="The networks that ship with Mansard, as ONNX files without weights.",
    no_args_is_help=True,
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
_Name = Annotated[str, typer.Argument(help="A network that 'mansard zoo list' shows.")]


@zoo_app.command("list")
def list_networks(as_json: _Json = False) -> None:
    """List the networks with their inputs and what is published about them."""
    from mansard.cli.console import print_json, print_table
    from mansard.estimator import zoo

    entries = [zoo.entry(name) for name in zoo.names()]
    if as_json:
        print_json([_facts(entry) for entry in entries])
        return
    rows = [
        (
            entry.name,
            entry.title,
            f"{entry.published_macs / 1e9:.3g}" if entry.published_macs else "–",
            f"{entry.published_parameters / 1e6:.3g}" if entry.published_parameters else "–",
        )
        for entry in entries
    ]
    columns = ("network", "what it is", "published GMAC", "published parameters (M)")
    print_table("Networks in the zoo", columns, rows)


@zoo_app.command("show")
def show_network(name: _Name, as_json: _Json = False) -> None:
    """Show what one network is, where its figures come from, and its work."""
    from mansard.cli.console import print_json, print_table
    from mansard.cli.score_tables import score_rows
    from mansard.cli.scoring import score_zoo
    from mansard.estimator import zoo

    entry = zoo.entry(name)
    score = score_zoo(name, batch=1, dims={}, precision="fp32", phase="inference")
    if as_json:
        print_json({"entry": _facts(entry), "score": score})
        return
    facts = _facts(entry).items()
    rows = [(key, _show_fact(entry, key, value)) for key, value in facts if key != "unknown"]
    print_table(entry.title, ("property", "value"), rows)
    print_table(f"{name}, batch 1, fp32", *score_rows([score]))


@zoo_app.command("write")
def write_networks(
    folder: Annotated[Path, typer.Argument(help="Folder to write the ONNX files into.")],
    name: Annotated[list[str] | None, typer.Argument(help="Networks; all by default.")] = None,
    as_json: _Json = False,
) -> None:
    """Write networks as ONNX files that every tool can read."""
    from mansard.cli.console import path_text, print_json
    from mansard.core.files import make_folder
    from mansard.estimator import zoo

    entries = [zoo.entry(one) for one in (name or zoo.names())]  # all known before one is written
    make_folder(folder)
    paths = [zoo.write(entry.name, folder) for entry in entries]
    if as_json:
        print_json([path_text(path) for path in paths])
    else:
        typer.echo("\n".join(str(path) for path in paths))


def _facts(entry: Entry) -> dict[str, object]:
    """What is known about a network, without the function that draws it."""
    facts = {field: getattr(entry, field) for field in entry.__struct_fields__ if field != "draw"}
    return {**facts, "dims": dict(entry.dims)}


def _show_fact(entry: Entry, field: str, value: object) -> str:
    if value is None:
        return f"unknown: {entry.unknown[field]}"
    if isinstance(value, dict):
        return ", ".join(f"{name}={size}" for name, size in value.items())
    return str(value)
