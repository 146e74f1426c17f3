"""What PyTorch gives for a network: exported files and counts, kept for the next time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mansard.core.errors import MansardError
from mansard.core.records import Phase
from mansard.estimator.export.network import Network
from mansard.estimator.export.request import ExportRequest
from mansard.estimator.export.run import Exported, export_network
from mansard.estimator.export.sources import load_network
from torch_networks.counting import Counts, torch_counts
from torch_networks.subjects import Subject

Exporter = Literal["dynamo", "torchscript"]
EXPORTERS: tuple[Exporter, ...] = ("dynamo", "torchscript")


class Evidence(msgspec.Struct, frozen=True):
    """What PyTorch gave: a file of each exporter, or why there is none, and its counts."""

    files: Mapping[Exporter, Exported | str]
    shapes: Mapping[str, tuple[int, ...]]  # of the inputs, when it counted
    counts: Mapping[Phase, Counts]


def evidence_of(
    subject: Subject, exporters: Sequence[Exporter], folder: Path, *, check: bool
) -> Evidence:
    """Export the network into ``folder`` and let PyTorch count it; or take both from there."""
    kept = folder / f"{subject.name}.json"
    known = None
    if kept.exists():
        known = msgspec.json.decode(kept.read_bytes(), type=Evidence, dec_hook=to_path)
    files = dict(known.files) if known is not None else {}
    missing = [exporter for exporter in exporters if exporter not in files]
    if known is not None and not missing:
        return known
    request = ExportRequest(
        source=subject.source,
        output=folder / f"{subject.name}.onnx",
        inputs=subject.inputs,
        settings=subject.settings,
        with_weights=False,
        check=check,
    )
    network = load_network(request)
    files.update({exporter: export_file(network, request, exporter) for exporter in missing})
    shapes = {one.name: one.shape for one in network.inputs}
    counts = known.counts if known is not None else torch_counts(network)
    evidence = Evidence(files, shapes, counts)
    kept.write_bytes(msgspec.json.encode(evidence, enc_hook=str))
    return evidence


def to_path(kind: type, text: str) -> object:
    """JSON has no paths."""
    return kind(text)


def export_file(network: Network, request: ExportRequest, exporter: Exporter) -> Exported | str:
    """What was written, or why nothing was."""
    output = request.output.with_suffix(f".{exporter}.onnx")
    start_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as work:
            asked = msgspec.structs.replace(request, exporter=exporter, output=output)
            exported = export_network(network, asked, Path(work))
    except MansardError as error:
        return str(error)
    show_exported(output.stem, exported, time.monotonic() - start_s)
    return exported


def show_exported(name: str, exported: Exported, duration_s: float) -> None:
    """One line on the file: how it came about, and how far its outputs are from PyTorch's."""
    greatest = max((one.greatest_relative for one in exported.checks), default=None)
    checked = "unchecked" if greatest is None else f"relative difference {greatest:.1e}"
    size = f"{exported.n_nodes} nodes, {exported.size_bytes / 1e3:.0f} kB"
    print(f"  {name}: {size}, {checked}, {duration_s:.0f} s", flush=True)
    for line in exported.notes:
        print(f"    {line}")
