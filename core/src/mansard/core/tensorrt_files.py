"""The JSON files that trtexec exports, and what TensorRT's engine inspector says.

https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html; fields of the
files of others are skipped. Times are in milliseconds, as in the files.
"""

from __future__ import annotations

import re

import msgspec


class ExportedQuery(msgspec.Struct, rename="camel"):
    """One query of ``--exportTimes``, a list of them."""

    compute_ms: float
    latency_ms: float
    h2d_ms: float | None = None
    d2h_ms: float | None = None
    in_ms: float | None = None  # what h2d_ms is called up to TensorRT 7.1
    out_ms: float | None = None
    end_to_end_ms: float | None = None  # up to TensorRT 8.2


class ExportedLayerTime(msgspec.Struct, rename="camel"):
    """One entry of ``--exportProfile``, a list of them: the first has ``count`` alone."""

    count: int | None = None
    name: str | None = None
    time_ms: float | None = None  # over all calls
    average_ms: float | None = None
    median_ms: float | None = None  # from TensorRT 8.4
    percentage: float | None = None


class ExportedTensor(msgspec.Struct):
    """A tensor of a layer."""

    format: str = msgspec.field(default="", name="Format/Datatype")


class ExportedLayer(msgspec.Struct, rename="pascal"):
    """A layer as the engine inspector describes it."""

    name: str
    layer_type: str | None = None
    outputs: list[ExportedTensor] = []
    origin: str = ""
    metadata: str = ""
    tactic_name: str | None = None
    tactic_value: str | None = None

    @property
    def is_copy(self) -> bool:
        """A quantiser is a reformat by its type and a node of the network by its origin."""
        return self.layer_type == "Reformat" and self.origin != "QDQ"

    @property
    def is_on_dla(self) -> bool:
        """Whether a DLA runs it."""
        return self.layer_type == "DLA"


class ExportedEngine(msgspec.Struct, rename="pascal"):
    """``--exportLayerInfo``, and the engine inspector's ``get_engine_information``."""

    layers: list[str | ExportedLayer]  # names alone without --profilingVerbosity=detailed

    @property
    def described(self) -> list[ExportedLayer]:
        """All layers; of those without a description the name."""
        return [ExportedLayer(each) if isinstance(each, str) else each for each in self.layers]


# What TensorRT calls the format of a tensor; the first that stands in it counts.
_FORMATS = (
    (re.compile(r"\bBF16|BFloat16", re.I), "bf16"),
    (re.compile(r"\bFP16|\bHalf", re.I), "fp16"),
    (re.compile(r"\bFP8|E4M3", re.I), "fp8"),
    (re.compile(r"\bFP4|E2M1", re.I), "fp4"),
    (re.compile(r"\bInt8", re.I), "int8"),
    (re.compile(r"\bInt4\b", re.I), "int4"),
    (re.compile(r"\bFP32|\bFloat", re.I), "fp32"),
)


def precision_of(text: str) -> str | None:
    """The precision in TensorRT's words for a format; None where they have none."""
    return next((name for pattern, name in _FORMATS if pattern.search(text)), None)
