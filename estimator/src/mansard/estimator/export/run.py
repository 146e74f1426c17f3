"""One export from beginning to end: load, trace, check, write."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.export.attempts import (
    Attempt,
    Traced,
    UnfitError,
    plan_attempts,
    trace_checked,
)
from mansard.estimator.export.checking import RUNTIME, ExportCheck
from mansard.estimator.export.extras import need
from mansard.estimator.export.graph import input_shapes, opset_of
from mansard.estimator.export.loading import load_network
from mansard.estimator.export.network import Network
from mansard.estimator.export.request import ExportRequest
from mansard.estimator.export.writing import publish, workspace


class Exported(msgspec.Struct, frozen=True):
    """What was written. ``checks`` is empty where none was wanted."""

    paths: tuple[Path, ...]  # the model, and its weights where they did not fit
    network: str
    exporter: Literal["dynamo", "torchscript"]
    opset: int
    inputs: dict[str, tuple[int | str, ...]]
    n_nodes: int
    n_parameters: int  # of the PyTorch module
    size_bytes: int  # of all paths
    checks: tuple[ExportCheck, ...]
    notes: tuple[str, ...]  # what was assumed, and which attempts failed


def export(request: ExportRequest) -> Exported:
    """Write the ONNX file that ``request`` asks for, checked against PyTorch.

    Raises UsageError (the request is wrong), ModelError (the network cannot be built or
    traced, or its file gives other results), StorageError, or MansardError where a
    library of the extra ``export`` is missing. On failure nothing is written.
    """
    if request.check:
        need("onnxruntime")
    if request.exporter == "dynamo":
        need("onnxscript")
    with workspace(request.output) as folder:  # before the network: a wrong path shows at once
        return export_network(load_network(request), request, folder)


def export_network(network: Network, request: ExportRequest, folder: Path) -> Exported:
    """Trace ``network`` in the empty ``folder``, check it, and put the file at its place.

    Raises what ``export`` raises.
    """
    failures: list[tuple[Attempt, str]] = []
    for number, attempt in enumerate(plan_attempts(network.inputs, request)):
        path = folder / str(number) / request.output.name
        path.parent.mkdir()
        try:
            traced = trace_checked(network, attempt, request, path)
        except UnfitError as error:
            failures.append((attempt, str(error)))
            shutil.rmtree(path.parent)
            continue
        paths = publish(
            traced.model, path.parent, request.output, with_weights=request.with_weights
        )
        notes = (*network.notes, *_told(failures), *traced.notes)
        return _exported(network, attempt, traced, paths, notes)
    is_runtime = any(RUNTIME in why for _, why in failures)
    fix = "--no-check writes it all the same" if is_runtime else None
    raise ModelError("; ".join(_told(failures)), where=request.source, fix=fix)


def _told(failures: list[tuple[Attempt, str]]) -> list[str]:
    """Each reason once, with the first attempt that it ended; alone where all had the same."""
    first: dict[str, str] = {}
    for attempt, why in failures:
        first.setdefault(why, attempt.name)
    if len(first) == 1 and len(failures) > 1:
        return list(first)
    return [f"{name}: {why}" for why, name in first.items()]


def _exported(
    network: Network,
    attempt: Attempt,
    traced: Traced,
    paths: tuple[Path, ...],
    notes: tuple[str, ...],
) -> Exported:
    return Exported(
        paths=paths,
        network=network.name,
        exporter=attempt.exporter,
        opset=opset_of(traced.model),
        inputs=input_shapes(traced.model),
        n_nodes=len(traced.model.graph.node),
        n_parameters=sum(parameter.numel() for parameter in network.module.parameters()),
        size_bytes=sum(path.stat().st_size for path in paths),
        checks=traced.checks,
        notes=notes,
    )
