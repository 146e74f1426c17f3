"""Accepted forms of arguments: one value for a list, text for a path, an ONNX model in memory.

    score("resnet50")           score(Path("net.onnx"))         score(onnx.load("net.onnx"))
    report("runs")              report(["runs", Path("more")])

``Runs`` and ``Networks`` are the types of such parameters. The façade brings all arguments, and the
fields of requests, into the form that a function states, see ``arguments``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from mansard.core.errors import UsageError
from mansard.core.storage.files import write_atomic
from mansard.core.storage.leftovers import temporary_folder

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


class OnnxModel(Protocol):
    """An ``onnx.ModelProto``."""

    graph: Any

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's
        """The content of its file."""
        ...


Runs: TypeAlias = str | Path | Sequence[str | Path]
"""Folders of runs, or merged datasets (folders or URLs)."""

Networks: TypeAlias = str | Path | OnnxModel | Sequence[str | Path | OnnxModel]
"""ONNX or GGUF files, folders of them, names, or ONNX models in memory."""


def as_list(values: Runs | Networks) -> list[str | Path]:
    """The paths and names of an argument, one or several."""
    several = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    return cast("list[str | Path]", list(several))  # models in memory are files by now


def is_onnx_model(value: object) -> bool:
    """Whether ``value`` is an ``onnx.ModelProto``; onnx need not be imported to say so."""
    return type(value).__name__ == "ModelProto" and hasattr(value, "SerializeToString")


@dataclass(frozen=True)
class ModelFiles:
    """Models in memory as files, which are removed when ``stack`` is closed."""

    stack: ExitStack

    def write(self, model: OnnxModel) -> Path:
        """A new file that is called like the graph. Raises UsageError, StorageError."""
        try:
            content = model.SerializeToString()
        except Exception as error:  # protobuf's own, and ValueError above 2 GB
            raise UsageError(
                f"the model cannot be written: {error}",
                fix="save it with external data, and give the path of the file",
            ) from error
        folder = self.stack.enter_context(temporary_folder())
        name = _NO_NAME.sub("_", model.graph.name)[:_LONGEST_NAME].strip("._") or "model"
        path = folder / f"{name}.onnx"
        write_atomic(path, content, within=folder)
        return path
