"""Layers and their times from a profile of ONNX Runtime.

https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from mansard.core.errors import SchemaError
from mansard.core.formats.onnx import NodeRun, ProfileEvent, labels_of, node_runs
from mansard.core.records import LayerTime
from mansard.inference.engines.ort_fusions import TracedNode

_CALL = "model_run"
_UNTRACED = "the engine does not say which they are"
_Key: TypeAlias = tuple[str, str]  # name and number of a node of the engine's


def read_profile(
    text: bytes, kept: Sequence[bool], traced: Sequence[TracedNode]
) -> tuple[tuple[LayerTime, ...], str]:
    """The layers in the calls that are ``kept``; none, and the reason, where it has none.

    ``kept``: of each call in the profile, whether its times are wanted. ``traced``: the engine's
    nodes in the order in which it runs them; where it does not say, layers are traced by their
    names alone. Raises SchemaError where the text is not a profile of ONNX Runtime.
    """
    try:
        events = msgspec.json.decode(text, type=list[ProfileEvent])
    except msgspec.DecodeError as error:
        raise SchemaError(f"cannot read the profile of ONNX Runtime: {error}") from error
    calls = sorted((e.ts, e.ts + e.dur) for e in events if e.name == _CALL)
    if len(calls) != len(kept):
        held = f"the profile holds {len(calls)} of {len(kept)} calls"
        return (), f"{held}: ONNX Runtime cuts it at a million events"
    nodes = node_runs(events)
    on_gpu = [node for node in nodes if node.is_on_gpu]
    if on_gpu and not any(node.kernels_us for node in on_gpu):
        return (), "this build of ONNX Runtime does not time the kernels of a GPU"
    nodes.sort(key=lambda node: (node.event.ts, -node.event.dur))
    wanted = [call for call, is_kept in zip(calls, kept, strict=True) if is_kept]
    return _layers(nodes, wanted, traced), ""


def _layers(
    nodes: Sequence[NodeRun], calls: Sequence[tuple[float, float]], traced: Sequence[TracedNode]
) -> tuple[LayerTime, ...]:
    seconds: dict[_Key, list[float]] = {}
    first: dict[_Key, NodeRun] = {}
    runs: Counter[_Key] = Counter()
    own_us = _own_times([node.event for node in nodes])
    call = 0
    for node, of_cpu_us in zip(nodes, own_us, strict=True):
        event = node.event
        while call < len(calls) and event.ts >= calls[call][1]:
            call += 1
        if call == len(calls) or event.ts < calls[call][0]:
            continue
        key = (node.name, node.number)
        first.setdefault(key, node)
        us = sum(node.kernels_us) if node.is_on_gpu else of_cpu_us
        seconds.setdefault(key, [0.0] * len(calls))[call] += us * 1e-6
        runs[key] += 1
    found = _match(first, traced)
    return tuple(
        LayerTime(
            index=index,
            name=key[0],
            op_type=node.op_type,
            provider=node.provider,
            nodes=found[key],
            runs=max(1, round(runs[key] / len(calls))),
            seconds_s=tuple(seconds[key]),
            unknown={} if found[key] is not None else {"nodes": _UNTRACED},
        )
        for index, (key, node) in enumerate(first.items())
    )


def _match(
    first: Mapping[_Key, NodeRun], traced: Sequence[TracedNode]
) -> dict[_Key, tuple[int, ...] | None]:
    """The network's nodes of each layer; ``first`` is in the order of running.

    Names that several nodes have, and those without a name, which the profile calls by their
    operator and a number of its own, are matched by their order.
    """
    if not traced:
        return {key: tuple(sorted(labels_of(key[0]))) or None for key in first}
    nodes: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for one in traced:
        nodes.setdefault((one.name, one.op_type), []).append(one.nodes)
    layers: dict[tuple[str, str], list[_Key]] = {}
    for key, node in first.items():
        unnamed = f"{node.op_type}_{node.number}"
        is_unnamed = node.name == unnamed and (node.name, node.op_type) not in nodes
        layers.setdefault(("" if is_unnamed else node.name, node.op_type), []).append(key)
    found: dict[_Key, tuple[int, ...] | None] = dict.fromkeys(first)
    for group, keys in layers.items():
        if len(nodes.get(group, ())) == len(keys):
            found.update(zip(keys, nodes[group], strict=True))
    return found


def _own_times(nodes: Sequence[ProfileEvent]) -> list[float]:
    """Microseconds of each event without those of events inside it: a loop's body is in the loop.

    ``nodes`` are in the order of their starts, the longer of two first.
    """
    own = [event.dur for event in nodes]
    open_events: list[int] = []
    for position, event in enumerate(nodes):
        while open_events:
            outer = nodes[open_events[-1]]
            if event.ts + event.dur <= outer.ts + outer.dur:
                own[open_events[-1]] -= event.dur
                break
            open_events.pop()
        open_events.append(position)
    return own
