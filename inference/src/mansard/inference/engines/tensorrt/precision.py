"""How a network gets its precision: by flags of the builder, or by the types of its file.

Up to 10.x networks are weakly typed: the precision is a flag, and the builder chooses the types of
layers. From 11 on they are strongly typed: the types are those of the file, and int8 and fp8 come
from QuantizeLinear nodes. 10.x can do both: there a file with such nodes is strongly typed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.core.formats.onnx import read_nodes
from mansard.inference.engines.tensorrt.versions import LEAST_CAPABILITY, Version

Capability = tuple[int, int]
_QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear"})
# In a strongly typed network some tensor has this type (tensorrt.DataType).
_TYPES = MappingProxyType({"fp16": "HALF", "bf16": "BF16", "int8": "INT8", "fp8": "FP8"})
# Beside int8, layers without int8 kernels may run in fp16: a builder that chooses is given both.
_FLAGS = MappingProxyType({"fp16": ("FP16",), "bf16": ("BF16",), "int8": ("INT8", "FP16")})
_SOURCES = MappingProxyType(
    {
        "int8": "give a file with QuantizeLinear nodes",
        "fp8": "give a file with QuantizeLinear nodes of fp8",
    }
)


@dataclass(frozen=True)
class Typing:
    """How one network is typed."""

    precision: str
    is_strong: bool
    has_scales: bool  # QuantizeLinear nodes stand in the file

    @property
    def is_calibrated(self) -> bool:
        """Whether the builder needs samples to calibrate int8."""
        return self.precision == "int8" and not self.has_scales

    @property
    def options(self) -> dict[str, str]:
        """The typing as options in the row of a build."""
        flags = () if self.is_strong else _FLAGS.get(self.precision, ())
        words = ["strongly" if self.is_strong else "weakly", "typed", *map(str.lower, flags)]
        return {"types": " ".join(words), "tf32": "allowed" if self.allows_tf32 else "off"}

    @property
    def allows_tf32(self) -> bool:
        """Whether products of fp32 may use TF32: not where fp32 is requested."""
        return self.precision != "fp32"


def find_typing(path: Path, precision: str, version: Version) -> Typing:
    """How the file at ``path`` is built in ``precision``; raises ModelError or OSError."""
    has_scales = any(node.op_type in _QUANTIZING for node in read_nodes(path))
    may_be_strong = version.has("strongly_typed")
    is_strong = may_be_strong and (has_scales or not version.has("weakly_typed"))
    return Typing(precision, is_strong, has_scales)


def check_precision(typing: Typing, version: Version, capability: Capability | None) -> None:
    """Raise MeasurementError where version or device lack the precision, or the file its scales.

    ``capability``: compute capability of the device; None: not known, and not checked.
    """
    precision = typing.precision
    if precision not in version.precisions:
        raise MeasurementError(
            f"{version.name} has no {precision}",
            fix=f"use {', '.join(version.precisions)}",
        )
    least = LEAST_CAPABILITY.get(precision)
    if least is not None and capability is not None and capability < least:
        raise MeasurementError(
            f"this device, of compute capability {_dotted(capability)}, has no {precision}: "
            f"it begins with {_dotted(least)}",
            fix="use another precision",
        )
    if (
        precision in _SOURCES
        and not typing.has_scales
        and (typing.is_strong or precision not in _FLAGS)
    ):
        raise MeasurementError(
            f"{version.name} takes {precision} from the file, which has no scales",
            fix=_SOURCES[precision],
        )


def creation_flags(bindings: Any, typing: Typing, version: Version) -> int:
    """The flags for ``create_network``."""
    flags = bindings.NetworkDefinitionCreationFlag
    if version.has("explicit_batch"):
        return 1 << int(flags.EXPLICIT_BATCH)
    return 1 << int(flags.STRONGLY_TYPED) if typing.is_strong else 0


def set_flags(bindings: Any, builder: Any, config: Any, typing: Typing, version: Version) -> None:
    """Set the builder's flags for a weakly typed network; raises MeasurementError."""
    if not typing.allows_tf32:
        config.clear_flag(bindings.BuilderFlag.TF32)
    if typing.is_strong:
        return
    if version.has("fast_precisions"):
        fast = {"fp16": builder.platform_has_fast_fp16, "int8": builder.platform_has_fast_int8}
        if not fast.get(typing.precision, True):
            raise MeasurementError(
                f"TensorRT says that this device has no fast {typing.precision}",
                fix="use another precision",
            )
    for name in _FLAGS.get(typing.precision, ()):
        config.set_flag(getattr(bindings.BuilderFlag, name))


def check_types(bindings: Any, network: Any, typing: Typing) -> None:
    """Raise MeasurementError where no tensor of a strongly typed network has the precision."""
    wanted = _TYPES.get(typing.precision)
    if not typing.is_strong or wanted is None:
        return
    data_type = getattr(bindings.DataType, wanted)
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        outputs = (layer.get_output(number) for number in range(layer.num_outputs))
        if any(tensor is not None and tensor.dtype == data_type for tensor in outputs):
            return
    raise MeasurementError(
        f"no tensor of the file is {typing.precision}, and the types of the file are those of the "
        "engine",
        fix=_SOURCES.get(typing.precision, f"give a file of {typing.precision}"),
    )


def _dotted(capability: Capability) -> str:
    return ".".join(map(str, capability))
