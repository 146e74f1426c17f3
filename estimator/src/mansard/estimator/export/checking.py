"""Checks an exported file against PyTorch: the same inputs, outputs compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mansard.core.errors import ModelError
from mansard.core.onnx_runtime import FATAL_ONLY, make_session
from mansard.estimator.export.network import Network, flat_tensors, foreign_code, need

TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Greatest relative difference that counts as equal, by the type of the output.

Chosen: some hundred times the rounding of one operation (2⁻⁵³, 2⁻²⁴, 2⁻¹¹, 2⁻⁸), for sums
in another order over many layers; ONNX Runtime computes parts of float64 graphs in float32.
"""

RUNTIME = "ONNX Runtime"


class OutputDifference(msgspec.Struct, frozen=True):
    """The difference of two outputs; relative to the greatest magnitude of PyTorch's."""

    absolute: float
    relative: float


class ExportCheck(msgspec.Struct, frozen=True):
    """One comparison that passed; ``sizes`` are those of the symbols."""

    sizes: Mapping[str, int]
    n_outputs: int
    greatest_absolute: float
    greatest_relative: float
    tolerance: float


def difference(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> OutputDifference | None:
    """How far ``ours`` is from ``theirs``; None where shape, type or non-finite numbers differ."""
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return None
    if np.array_equal(ours, theirs):
        return OutputDifference(0.0, 0.0)
    mine, other = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(mine[~finite], other[~finite], equal_nan=True):
        return None
    absolute = float(np.max(np.abs(mine[finite] - other[finite]), initial=0.0))
    if not np.isfinite(absolute):
        return None
    magnitude = float(np.max(np.abs(other[finite]), initial=0.0))
    if absolute == 0.0:
        return OutputDifference(0.0, 0.0)
    return OutputDifference(absolute, absolute / magnitude if magnitude else float("inf"))


def compare(
    outputs: Sequence[npt.NDArray[Any]],
    expected: Sequence[Any],
    sizes: Mapping[str, int],
    tolerance: float | None,
) -> ExportCheck:
    """Compare the file's ``outputs`` with ``expected``, PyTorch's output tensors.

    ``tolerance`` None: the one for each output's type. A NaN or an infinity must be in
    both, at the same places. Raises ModelError where they differ by more.
    """
    at = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items()) or "fixed sizes"
    if len(outputs) != len(expected):
        raise ModelError(f"the file gives {len(outputs)} outputs, PyTorch {len(expected)} ({at})")
    results = [
        _compare(index, ours, theirs, tolerance, at)
        for index, (ours, theirs) in enumerate(zip(outputs, expected, strict=True))
    ]
    return ExportCheck(
        dict(sizes),
        len(results),
        max(deviation.absolute for deviation, _ in results),
        max(deviation.relative for deviation, _ in results),
        max(limit for _, limit in results),
    )


def _compare(
    index: int, ours: npt.NDArray[Any], theirs: Any, tolerance: float | None, at: str
) -> tuple[OutputDifference, float]:
    dtype = str(theirs.dtype).removeprefix("torch.")
    limit = tolerance if tolerance is not None else TOLERANCES.get(dtype, 0.0)
    reference = theirs.float().numpy() if dtype == "bfloat16" else theirs.numpy()
    deviation = difference(ours, reference)
    if deviation is None:
        raise ModelError(
            f"output {index} is {ours.dtype} {list(ours.shape)} in the file, "
            f"{dtype} {list(theirs.shape)} in PyTorch, or they are not finite at the same places "
            f"({at})"
        )
    if deviation.relative > limit:
        raise ModelError(
            f"output {index} differs from PyTorch's by {deviation.absolute:.3g}, "
            f"{deviation.relative:.3g} of its greatest value; at most {limit:g} is right ({at})",
            fix="try the other --exporter, or --tolerance where this is rounding",
        )
    return deviation, limit


def run_pytorch(network: Network, examples: Mapping[str, Any]) -> list[Any]:
    """The output tensors of the network itself; raises ModelError for whatever it raises."""
    torch = need("torch")
    with foreign_code("the network's forward"), torch.no_grad():
        outputs = flat_tensors(network.module(**examples))
    if not outputs:
        raise ModelError("the network's forward returns no tensor")
    return outputs


def run_onnxruntime(path: Path, examples: Mapping[str, Any]) -> list[npt.NDArray[Any]]:
    """The outputs of the file; raises ModelError for whatever ONNX Runtime raises."""
    runtime = need("onnxruntime")
    with foreign_code(RUNTIME):
        options = runtime.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        session = make_session(str(path), options, ["CPUExecutionProvider"])
        names: Sequence[str] = [source.name for source in session.get_inputs()]
        feed = {name: examples[name].numpy() for name in names if name in examples}
        return [np.asarray(output) for output in session.run(None, feed)]
