"""What trtexec timed, by its version, its options, and what it printed; what it warns of.

Up to 10.x trtexec by default copies inputs and outputs, blocks and enqueues kernels one by one;
from 11.0 on it copies nothing, spins and captures a CUDA graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mansard.core.formats.tensorrt import (
    CUDA_GRAPH,
    SPIN_WAIT,
    TRANSFERS,
    Switch,
    host_bound,
    is_enabled,
    may_be_host_bound,
)

_GRAPHS_BY_DEFAULT = 11  # the major version
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "int4", "fp4")  # falling bits
_UNSTABLE_ABOVE = 0.01
_SWITCHES = {"transfers": TRANSFERS, "spin-wait": SPIN_WAIT, "CUDA graph": CUDA_GRAPH}


@dataclass(frozen=True)
class QueryTimes:
    """Medians over the queries of one run, in milliseconds; None where they are not printed.

    ``variation``: the standard deviation of the GPU's compute time over its mean.
    """

    compute_ms: float | None = None
    enqueue_ms: float | None = None
    copy_in_ms: float | None = None
    copy_out_ms: float | None = None
    variation: float | None = None

    def remark(self, *, is_graph_refused: bool = False) -> str | None:
        """What trtexec warns of, by its own thresholds where no line of it is there; else None.

        They are those of samples/common/sampleReporting.cpp in NVIDIA/TensorRT: a copy that takes
        as long as the compute time, a variation of more than 1 %.
        """
        remarks = ["CUDA graph refused by the engine"] if is_graph_refused else []
        if self.compute_ms is not None:
            remarks += self._of_host(self.compute_ms)
            remarks += [
                f"copies of {what} ({copy_ms:.3g} ms) take as long as computing"
                for what, copy_ms in (("inputs", self.copy_in_ms), ("outputs", self.copy_out_ms))
                if copy_ms is not None and copy_ms >= self.compute_ms
            ]
        if self.variation is not None and self.variation > _UNSTABLE_ABOVE:
            remarks.append(f"unstable (varies by {self.variation:.1%})")
        return ", ".join(remarks) or None

    def _of_host(self, compute_ms: float) -> list[str]:
        if self.enqueue_ms is None:
            return []
        if (why := host_bound(self.enqueue_ms / 1e3, compute_ms / 1e3)) is not None:
            return [why]
        if not may_be_host_bound(self.enqueue_ms, compute_ms):
            return []
        times = f"enqueue {self.enqueue_ms:.3g}, compute {compute_ms:.3g} ms"
        return [f"perhaps bound by the host ({times})"]


@dataclass(frozen=True)
class TrtexecSetting:
    """The version, the command line and the printed options of one run of trtexec."""

    version: str | None = None
    command: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def precision(self) -> str | None:
        """The least precise format that the builder could choose; None where it is not said."""
        allowed = re.findall(r"\b[A-Z]+\d+", self.options.get("Precision", ""))
        flags = re.findall(r"--([a-z]+\d+)(?:\s|$)", self.command)
        names = [name.lower() for name in allowed or flags if name.lower() in _PRECISIONS]
        return max(names, key=_PRECISIONS.index) if names else None

    @property
    def batch(self) -> str | None:
        """The implicit batch of TensorRT 7; an explicit one is a dimension like any other."""
        batch = self.options.get("Batch", "")
        return batch if batch.isdigit() else None

    @property
    def model(self) -> str | None:
        """The path of the model that was built."""
        match = re.search(r"--(?:onnx|model|uff|deploy)=(\S+)", self.command)
        return self.options.get("Model") or (match[1] if match else None)

    @property
    def input_shape(self) -> str | None:
        """The shape of the inputs, where it is printed."""
        shape = self.options.get("Input inference shapes") or self.options.get(
            "Input inference shape", ""
        )
        match = re.search(r"--shapes=(\S+)", self.command)
        shape = shape if "x" in shape else (match[1] if match else "")
        return shape if re.search(r"\dx\d", shape) else None

    def method(self, what: str) -> str:
        """``what`` is timed, and how it was run."""
        tool = "trtexec" if self.version is None else f"trtexec of TensorRT {self.version}"
        parts = [self._state(*switch) for switch in _SWITCHES.items()]
        streams = self.options.get("Inference Streams") or self.options.get("Streams") or "1"
        parts += [f"{streams} streams"] if streams != "1" else []
        if allowed := self.options.get("Precision"):
            parts.append(f"builder could use {allowed}")
        if cores := self.options.get("DLACore"):
            parts.append(f"DLA core {cores}")
        return f"{tool}: {what}; {', '.join(parts)}"

    def _state(self, name: str, switch: Switch) -> str:
        printed = self.options.get(switch.option)
        if printed is not None:
            is_on = is_enabled(printed)
        elif re.search(rf"{switch.flag}(?:\s|$)", self.command):
            is_on = switch.is_switched_on
        elif self.version is None or not self.command:
            return f"{name} not said"
        else:
            is_new = int(self.version.partition(".")[0]) >= _GRAPHS_BY_DEFAULT
            is_on = is_new if switch.is_switched_on else not is_new
        return f"{name} {'on' if is_on else 'off'}"
