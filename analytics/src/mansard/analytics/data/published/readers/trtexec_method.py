"""What trtexec timed, by its version, its options, and what it printed.

Up to 10.x trtexec by default copies inputs and outputs, blocks and enqueues kernels one by one;
from 11.0 on it copies nothing, spins and captures a CUDA graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mansard.core.formats.tensorrt import CUDA_GRAPH, SPIN_WAIT, TRANSFERS, Switch, is_enabled

_GRAPHS_BY_DEFAULT = 11  # the major version
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "int4", "fp4")  # falling bits
_SWITCHES = {"transfers": TRANSFERS, "spin-wait": SPIN_WAIT, "CUDA graph": CUDA_GRAPH}


def host_bound(enqueue_s: float, time_s: float) -> str:
    """The remark on a GPU time with gaps, in which the GPU waited for the host."""
    return f"bound by the host (enqueue {enqueue_s * 1e3:.3g} > compute {time_s * 1e3:.3g} ms)"


def host_remark(
    enqueue_ms: float | None, compute_ms: float | None, variation: float | None = None
) -> str | None:
    """A remark where the host took longer to enqueue the kernels than the GPU to run them.

    ``variation``: of the GPU's time, as a share, where trtexec calls it unstable.
    """
    if enqueue_ms is None or compute_ms is None or enqueue_ms < compute_ms:
        return None
    text = host_bound(enqueue_ms / 1e3, compute_ms / 1e3)
    return f"{text}, unstable (varies by {variation:.1%})" if variation else text


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
