"""``mansard models`` and ``export``: networks that ship, and PyTorch networks, as ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.api import command_line, results
from mansard.cli.console import note, print_json, print_whole
from mansard.cli.counting.score import score_rows
from mansard.cli.options import ForceOption, JsonOption, check_outputs
from mansard.cli.tables import print_facts, print_table, without_silent
from mansard.core.table import Table


def export(
    source: Annotated[
        str,
        typer.Argument(
            help="package.module:factory, file.py:factory, transformers:config.json, "
            "transformers:BertConfig or torchvision:resnet50."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The ONNX file to write.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Shape of an input: name=1x3x224x224[:type]. Repeatable."),
    ] = None,
    dynamic: Annotated[
        list[str] | None,
        typer.Option(
            help="Symbolic axis: name:axis=symbol, or 'none'. Repeatable. The first axis is "
            "the batch by default."
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Argument of the configuration or factory: key=value. Repeatable."
        ),
    ] = None,
    exporter: Annotated[
        Literal["auto", "dynamo", "torchscript"],
        typer.Option(help="PyTorch's exporter; auto tries dynamo, then torchscript."),
    ] = "auto",
    opset: Annotated[
        int | None, typer.Option(min=1, max=99, help="Operator set; the exporter's by default.")
    ] = None,
    weights: Annotated[
        bool,
        typer.Option("--weights/--no-weights", help="Keep weights, or only their shapes."),
    ] = True,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare with PyTorch's outputs.")
    ] = True,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Largest relative difference; by the type by default."),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the network SOURCE as an ONNX file. Runs the code that SOURCE names."""
    check_outputs((output, output.with_name(f"{output.name}.data")), force=force)
    axes, is_static = command_line.parse_dynamic(dynamic or [])
    request = api.ExportRequest(
        source=source,
        output=output,
        inputs=tuple(command_line.parse_input(text) for text in inputs or []),
        dynamic=axes,
        is_static=is_static,
        settings=command_line.parse_settings(setting or []),
        exporter=exporter,
        opset=opset,
        with_weights=weights,
        check=check,
        tolerance=tolerance,
    )
    exported = api.export(request)
    for line in exported.notes:
        note(line)
    if as_json:
        print_json("export", exported)
    else:
        print_exported(exported)


def print_exported(exported: results.Exported) -> None:
    """Print the file, its size and its checks."""
    print_facts(exported.network, _rows(exported))


def _rows(exported: results.Exported) -> list[tuple[str, str]]:
    shapes = (f"{name} {' x '.join(map(str, shape))}" for name, shape in exported.inputs.items())
    return [
        *(
            ("weights" if number else "file", str(path))
            for number, path in enumerate(exported.paths)
        ),
        ("size", f"{exported.size_bytes / 1e6:.3f} MB"),
        ("exporter", f"{exported.exporter}, operator set {exported.opset}"),
        ("inputs", ", ".join(shapes)),
        ("nodes", str(exported.n_nodes)),
        ("parameters", f"{exported.n_parameters:,}"),
        *(_check_row(check) for check in exported.checks),
    ] + ([] if exported.checks else [("check", "none was made")])


def _check_row(check: results.ExportCheck) -> tuple[str, str]:
    sizes = ", ".join(f"{symbol}={size}" for symbol, size in check.sizes.items())
    return (
        f"check at {sizes or 'fixed sizes'}",
        f"greatest difference {check.greatest_absolute:.3g}, relative "
        f"{check.greatest_relative:.3g} (at most {check.tolerance:g} is right), "
        f"{check.n_outputs} outputs",
    )


# The tasks of entries that are no networks with files, and how all of them are called.
_OTHERS = {
    "generating text": "Language models; a tag such as :Q4_K_M changes how weights are stored",
    "a single convolution with ReLU": "Single convolutions, together called convolutions",
    "timing operators by their shapes": "Operators to time, together called operators",
}
_Name = Annotated[str, typer.Argument(help="Network, as in 'mansard models list'.")]


def list_networks(as_json: JsonOption = False) -> None:
    """List shipped networks, language models and single operators, with published figures."""
    entries = api.list_networks()
    if as_json:
        print_json("models-list", {"networks": [*map(_facts, entries)]})
        return
    columns = ("network", "what it is", "published GMAC", "published parameters (M)")
    by_title: dict[str, list[tuple[str, ...]]] = {}
    for entry in entries:
        macs, n = entry.published_macs, entry.published_parameters
        gmac = f"{macs / 1e9:.3g}" if macs else "–"
        parameters = f"{n / 1e6:,.0f}" if n and n >= 1e9 else f"{n / 1e6:.3g}" if n else "–"
        row = (entry.name, entry.title, gmac, parameters)
        by_title.setdefault(_OTHERS.get(entry.task, "Networks in the zoo"), []).append(row)
    for title, rows in by_title.items():
        table = without_silent(Table(title, columns, rows), columns)
        print_table(title, table.columns, table.rows)


def show_network(name: _Name, as_json: JsonOption = False) -> None:
    """Show a network, its source and its work."""
    network = api.show_network(name)
    entry = network.entry
    if as_json:
        print_json("models-show", {"network": _facts(entry), "score": network.score})
        return
    facts = _facts(entry).items()
    rows = [
        (key.replace("_", " "), _show_fact(entry, key, value))
        for key, value in facts
        if key != "unknown"
    ]
    print_facts(entry.title, rows)
    print_table(f"Score of {name}", *score_rows([network.score]))


def write_networks(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")],
    name: Annotated[list[str] | None, typer.Argument(help="Networks; all by default.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write networks as ONNX files."""
    paths = api.write_networks(folder, name or (), replaces=force)
    if as_json:
        print_json("models-write", {"files": paths})
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
