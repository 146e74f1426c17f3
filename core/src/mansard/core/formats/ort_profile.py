"""Profiles of ONNX Runtime: runs of nodes, and the kernels that they start on a GPU.

https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

_SUFFIX = "_kernel_time"
_CPU = "CPUExecutionProvider"


class ProfileEvent(msgspec.Struct, frozen=True):
    """One event of the file; times in microseconds from the start of profiling."""

    cat: str
    name: str
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = {}


class NodeRun(NamedTuple):
    """One run of a node. On a GPU the event's time is that of the CPU, which queues the kernels."""

    event: ProfileEvent
    kernels_us: list[float]

    @property
    def name(self) -> str:
        """The node's name; an unnamed node is called by its operator and number, or not at all."""
        return self.event.name.removesuffix(_SUFFIX)

    @property
    def number(self) -> str:
        """The number of the node in the graph that the engine runs."""
        return str(self.event.args.get("node_index", ""))

    @property
    def op_type(self) -> str:
        """The node's operator."""
        return str(self.event.args.get("op_name", ""))

    @property
    def provider(self) -> str:
        """The execution provider that runs it; empty where the profile does not say."""
        return str(self.event.args.get("provider") or "")

    @property
    def is_on_gpu(self) -> bool:
        """Whether another provider than the CPU's runs it."""
        return self.provider not in {_CPU, ""}


def node_runs(events: Iterable[ProfileEvent]) -> list[NodeRun]:
    """The runs of nodes, each with the kernels that follow it in the file.

    https://github.com/microsoft/onnxruntime/pull/9567 puts them there.
    """
    runs: list[NodeRun] = []
    for event in events:
        if event.cat == "Node" and event.name.endswith(_SUFFIX):
            runs.append(NodeRun(event, []))
        elif event.cat == "Kernel" and runs:
            runs[-1].kernels_us.append(event.dur)
    return runs
