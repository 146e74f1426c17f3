"""The layers of an engine: their times, types, and the network's nodes in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mansard.core.errors import SchemaError
from mansard.core.formats.tensorrt import ExportedEngine, ExportedLayer, take_apart
from mansard.core.formats.tensorrt import trace as trace_names
from mansard.core.records import LayerTime

_UNTRACED = "TensorRT does not say which they are"
_NO_KIND = "unknown"


@dataclass
class LayerTimes:
    """The seconds of layers by name, for each call."""

    calls: list[dict[str, list[float]]] = field(default_factory=list)
    current: dict[str, list[float]] = field(default_factory=dict)

    def take(self, name: str, ms: float) -> None:
        """Record the time of one run of one layer."""
        self.current.setdefault(name, []).append(ms * 1e-3)

    def end_call(self) -> None:
        """Start the next call."""
        self.calls.append(self.current)
        self.current = {}


def profiler(bindings: Any, times: LayerTimes) -> Any:
    """A TensorRT profiler that fills ``times``; the caller keeps a reference while it is in use."""

    class Profiler(bindings.IProfiler):  # type: ignore[misc]
        """Passes each time to ``times``."""

        def __init__(self) -> None:
            bindings.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            times.take(layer_name, ms)

    return Profiler()


def inspect(bindings: Any, engine: Any) -> tuple[ExportedLayer, ...]:
    """The layers of an engine in their order; without their descriptions where it keeps none.

    Raises SchemaError where the inspector says what cannot be read.
    """
    inspector = engine.create_engine_inspector()
    text = inspector.get_engine_information(bindings.LayerInformationFormat.JSON)
    try:
        return tuple(msgspec.json.decode(text, type=ExportedEngine).described)
    except msgspec.DecodeError as error:
        raise SchemaError(f"cannot read what the engine inspector says: {error}") from error


def layer_times(
    calls: Sequence[Mapping[str, Sequence[float]]], described: Sequence[ExportedLayer]
) -> tuple[LayerTime, ...]:
    """The layers of ``calls``: in each, the seconds of every run of a layer by its name.

    ``nodes`` is empty for copies that change a format, and None where nothing tells.
    """
    names = tuple(dict.fromkeys(name for call in calls for name in call))
    known = {layer.name: layer for layer in described}
    layers = [known.get(name, ExportedLayer(name)) for name in names]
    nodes = trace(layers)
    return tuple(
        LayerTime(
            index=index,
            name=layer.name,
            op_type=layer.layer_type or _NO_KIND,
            provider="DLA" if layer.is_on_dla else "GPU",
            nodes=traced,
            runs=max(1, round(sum(len(call.get(layer.name, ())) for call in calls) / len(calls))),
            seconds_s=tuple(sum(call.get(layer.name, ())) for call in calls),
            kernel=layer.tactic_name or "",
            unknown={} if traced is not None else {"nodes": _UNTRACED},
        )
        for index, (layer, traced) in enumerate(zip(layers, nodes, strict=True))
    )


def trace(layers: Sequence[ExportedLayer]) -> tuple[tuple[int, ...] | None, ...]:
    """The labels of the network's nodes in each layer."""
    return trace_names(
        [take_apart(layer.name, layer.metadata, is_copy=layer.is_copy) for layer in layers]
    )
