"""TensorRT's Python bindings: their one import, and what each version has, in one table.

Sources: NVIDIA's release notes and migration guides of TensorRT 8.5 to 11.4, its support matrices,
and the published bindings. https://docs.nvidia.com/deeplearning/tensorrt/
"""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from mansard.core.errors import MeasurementError

# Names another module with TensorRT's interface, such as ``tensorrt_rtx_bindings``.
MODULE_VARIABLE = "MANSARD_TENSORRT"
_REMEDY = (
    "on a Jetson use the Python of a JetPack image, which has it in dist-packages, or --engine "
    "trtexec; on a PC install tensorrt from NVIDIA's package index"
)


def load_bindings() -> Any:
    """The module ``tensorrt``, or the one that MANSARD_TENSORRT names.

    Raises MeasurementError where it is missing, or cannot be imported.
    """
    name = os.environ.get(MODULE_VARIABLE) or "tensorrt"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise _broken(name, error) from error
        raise MeasurementError(f"{name} is not installed", fix=_REMEDY) from error
    except (ImportError, OSError, RuntimeError, AttributeError) as error:  # its libraries
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> MeasurementError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return MeasurementError(f"{name} cannot be imported: {lines[0]}", fix=_REMEDY)


Number = tuple[int, ...]
Ability = Literal[
    "explicit_batch",
    "weakly_typed",
    "strongly_typed",
    "calibrators",
    "bf16",
    "fp8",
    "optimization_level",
    "progress",
    "parser_node_names",
    "fast_precisions",
    "named_targets",
    "timing_cache",
    "dla",
]
_EVER: None = None
# From which version on, and before which. Versions between rows that were never published
# for any machine are not told apart.
TABLE: MappingProxyType[Ability, tuple[tuple[Number, Number | None], ...]] = MappingProxyType(
    {
        # create_network must be given EXPLICIT_BATCH; 10 ignores it, 11 has it no more
        "explicit_batch": (((7,), (10,)),),
        # precisions are flags of the builder, which chooses the types of layers
        "weakly_typed": (((7,), (11,)),),
        # STRONGLY_TYPED: types are those of the file; from 11 on there is nothing else
        "strongly_typed": (((10,), _EVER),),
        # IInt8EntropyCalibrator2
        "calibrators": (((7,), (11,)),),
        # of layers, as a flag or as types of the file; fp8 in 8.6 is for plugins alone
        "bf16": (((10,), _EVER),),
        "fp8": (((10,), _EVER),),
        # builder_optimization_level
        "optimization_level": (((8, 6), _EVER),),
        # IProgressMonitor
        "progress": (((10,), _EVER),),
        # ParserError.node_name and node_operator
        "parser_node_names": (((10,), _EVER),),
        # platform_has_fast_fp16 and platform_has_fast_int8
        "fast_precisions": (((7,), (11,)),),
        # IBuilderConfig.set_compute_capability; of TensorRT for RTX alone
        "named_targets": (),
        # ITimingCache; one of TensorRT for RTX holds no times
        "timing_cache": (((8,), _EVER),),
        # Its symbols are in every version. Which devices have cores: Builder.num_DLA_cores
        "dla": (((7,), (10, 8)), ((11, 4, 1), _EVER)),
    }
)
OLDEST: Number = (8, 5)
# The compute capability that a precision begins with (support matrix, "hardware and precision").
# fp32, fp16 and int8 are in all from 7.0 on; below, a builder that chooses types is asked.
LEAST_CAPABILITY = MappingProxyType({"bf16": (8, 0), "fp8": (8, 9)})
# TensorRT for RTX counts its own versions; its interface is that of this one.
_RTX_LIKE: Number = (11, 0)
_OF_RTX_ALONE, _NOT_IN_RTX = frozenset({"named_targets"}), frozenset({"dla"})


@dataclass(frozen=True)
class Version:
    """One version of TensorRT."""

    number: Number  # of its interface
    text: str  # as it is part of the names of files
    is_rtx: bool = False

    @property
    def name(self) -> str:
        """The name with its version, for sentences."""
        return f"TensorRT for RTX {self.text[4:]}" if self.is_rtx else f"TensorRT {self.text}"

    def has(self, ability: Ability) -> bool:
        """Whether this version has ``ability``."""
        if self.is_rtx and ability in _OF_RTX_ALONE | _NOT_IN_RTX:
            return ability in _OF_RTX_ALONE
        return any(
            since <= self.number and (until is None or self.number < until)
            for since, until in TABLE[ability]
        )

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions that this version can build on some device."""
        newer = [name for name in ("bf16", "fp8") if self.has(name)]
        return ("fp32", "fp16", "int8", *newer)


def read_version(bindings: Any) -> Version:
    """The version of imported bindings; raises MeasurementError for one that is too old."""
    version = parse_version(str(bindings.__version__), is_rtx="rtx" in bindings.__name__)
    if version.number < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise MeasurementError(
            f"{version.name} is older than {oldest}, the oldest whose bindings are used",
            fix="use the engine trtexec",
        )
    return version


def parse_version(text: str, *, is_rtx: bool = False) -> Version:
    """``10.3.0.30`` as a version; raises MeasurementError for what is none.

    The fourth number counts builds of one version: it is left out, but for TensorRT for RTX. What
    follows a plus sign stays: it is no release of NVIDIA's.
    """
    match = re.match(r"(\d+(?:\.\d+)+)[^+]*(\+[\w.-]+)?", text)
    if match is None:
        raise MeasurementError(f"TensorRT says that its version is {text!r}", fix="report this")
    numbers, local = match[1], match[2] or ""
    if is_rtx:
        return Version(_RTX_LIKE, f"rtx-{numbers}{local}", is_rtx=True)
    number = tuple(map(int, numbers.split(".")))[:3]
    return Version(number, f"{'.'.join(map(str, number))}{local}")


def has(text: str, ability: Ability) -> bool:
    """Whether the version in a probe's text has ``ability``."""
    is_rtx = text.startswith("rtx")
    return (Version(_RTX_LIKE, text, is_rtx=True) if is_rtx else parse_version(text)).has(ability)
