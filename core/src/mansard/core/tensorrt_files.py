"""What trtexec prints of its version and exports as JSON, and what the engine inspector says.

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
    start_enq_ms: float | None = None
    end_enq_ms: float | None = None
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
    """A tensor of a layer. From TensorRT 11 on its format and its type are two fields."""

    both: str = msgspec.field(default="", name="Format/Datatype")
    only_format: str = msgspec.field(default="", name="Format")
    data_type: str = msgspec.field(default="", name="DataType")

    @property
    def format(self) -> str:
        """Its type and format in TensorRT's words."""
        return self.both or f"{self.data_type} {self.only_format}".strip()


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

# Four digits up to 8.x, six from 10 on; a suffix names a build by others than NVIDIA.
_VERSION = re.compile(
    r"\[TensorRT v(?P<digits>\d{4,6})(?P<local>\+[\w.-]+)?\]"
    r"|TensorRT version: (?P<dotted>\d+(?:\.\d+)+)"
)


def precision_of(text: str) -> str | None:
    """The precision in TensorRT's words for a format; None where they have none."""
    return next((name for pattern, name in _FORMATS if pattern.search(text)), None)


def version_in(text: str) -> str | None:
    """ "10.3.0" of "[TensorRT v100300]" and "8.4.1" of "[TensorRT v8401]"; None without one."""
    found = _VERSION.search(text)
    if found is None:
        return None
    if found["dotted"]:
        return found["dotted"]
    digits = found["digits"]
    n_major = 1 if len(digits) == 4 else 2
    minor = digits[n_major : -2 if n_major == 2 else n_major + 1]
    patch = digits[n_major + len(minor) :]
    number = ".".join(str(int(part)) for part in (digits[:n_major], minor, patch))
    return number + (found["local"] or "")
