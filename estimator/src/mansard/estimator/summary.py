"""The sums over a network's layers, why some are not known, and what a score notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from mansard.core.records import LAYER_COUNTS, LayerScore, ModelScore
from mansard.core.records.score import UNKNOWN_LAYERS
from mansard.estimator.memory import Memory
from mansard.estimator.score_context import Settings
from mansard.estimator.shape_inference.inference import InferredNetwork
from mansard.estimator.tensors import walk
from mansard.estimator.traffic import winograd_notes

_PARTS = ("peak_activation_bytes", "kv_cache_bytes")  # of memory, beside weights


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all layers. A sum with an unknown layer is None, its reason in ``unknown``.

    ``at_least`` then holds the sum over the layers that are known, unless that is 0: the
    network needs this and more. ``is_upper_bound``: the network needs at most the sums; a
    sum over some of the layers is not a bound, so that ``at_least`` is empty then.

    ``intensity`` is work over algorithmic traffic in FLOP per byte, ``fused_intensity``
    over fused traffic; None also where nothing moves, and where both are upper bounds: their
    ratio is no bound. ``by_precision`` and ``by_unit`` hold the work in FLOP of the layers that
    are known, by what does it; an operation of integers counts as a FLOP. Tensor cores do the
    multiply-adds of their layers alone: unpacking, biases and activations are CUDA cores'.
    ``memory_bytes``: weights, the peak of activations, and keys and values for the next token.
    """

    macs: int | None
    multiply_add_flop: int | None
    simple_flop: int | None
    function_flop: int | None
    work_flop: int | None
    backward_flop: int | None
    update_flop: int | None
    parameters: int | None
    weight_bytes: int | None
    input_bytes: int | None
    output_bytes: int | None
    read_bytes: int | None
    write_bytes: int | None
    traffic_bytes: int | None
    fused_read_bytes: int | None
    fused_write_bytes: int | None
    fused_traffic_bytes: int | None
    cached_traffic_bytes: int | None
    saved_bytes: int | None
    intensity: float | None
    fused_intensity: float | None
    by_precision: dict[str, int]
    by_unit: dict[str, int]
    n_layers: int
    n_functional_layers: int  # that work or move something; an unknown one is taken to
    n_unknown_layers: int
    memory_bytes: int | None
    is_upper_bound: bool = False
    at_least: dict[str, int] = msgspec.field(default_factory=dict)
    unknown: dict[str, str] = msgspec.field(default_factory=dict)


def is_functional(layer: LayerScore) -> bool:
    """Whether a layer works or moves something: not a constant, a view, a shape.

    Unknown layers count as functional.
    """
    return layer.work_flop != 0 or layer.traffic_bytes != 0


def totals(score: ModelScore) -> Totals:
    """Add up the layers of ``score``."""
    sums: dict[str, int | None] = {}
    unknown: dict[str, str] = {}
    at_least: dict[str, int] = {}
    for name in LAYER_COUNTS:
        values = [getattr(layer, name) for layer in score.layers]
        sums[name] = None if None in values else sum(values)
        if sums[name] is None:
            unknown[name] = _reason(score.layers, name)
            total = sum(value for value in values if value is not None)
            if total and not score.bounds:
                at_least[name] = total
    is_bound = bool(score.bounds)
    return Totals(
        **sums,
        intensity=_intensity(sums, "traffic_bytes", "intensity", unknown, is_bound),
        fused_intensity=_intensity(
            sums, "fused_traffic_bytes", "fused_intensity", unknown, is_bound
        ),
        by_precision=_work_by_precision(score.layers),
        by_unit=_work_by_unit(score.layers),
        n_layers=len(score.layers),
        n_functional_layers=sum(map(is_functional, score.layers)),
        n_unknown_layers=sum(layer.work_flop is None for layer in score.layers),
        memory_bytes=_memory(score, sums, unknown),
        is_upper_bound=is_bound,
        at_least=at_least,
        unknown=unknown,
    )


def _reason(layers: Sequence[LayerScore], name: str) -> str:
    missing = [layer for layer in layers if getattr(layer, name) is None]
    first = missing[0]
    reason = first.unknown[name]
    if len(missing) == len(layers):
        return reason
    more = f" and {len(missing) - 1} more layer(s)" if len(missing) > 1 else ""
    return f"{first.op_type} {first.name!r}{more}: {reason}"


def _intensity(
    sums: dict[str, int | None], traffic: str, name: str, unknown: dict[str, str], is_bound: bool
) -> float | None:
    work, moved = sums["work_flop"], sums[traffic]
    if work is not None and moved and not is_bound:
        return work / moved
    reason = unknown.get("work_flop") or unknown.get(traffic)
    bound = "work and traffic are upper bounds" if is_bound and moved else "no bytes are moved"
    unknown[name] = reason or bound
    return None


def _memory(score: ModelScore, sums: dict[str, int | None], unknown: dict[str, str]) -> int | None:
    """The parts of an inference's memory, without overlap."""
    parts = sums["weight_bytes"], score.peak_activation_bytes, score.kv_cache_bytes
    if score.phase == "inference" and None not in parts:
        return sum(filter(None, parts))
    training = "it is summed for inference only" if score.phase != "inference" else None
    reasons = (unknown.get("weight_bytes"), *map(score.unknown.get, _PARTS))
    unknown["memory_bytes"] = training or next(filter(None, reasons))
    return None


def _work_by_precision(layers: Sequence[LayerScore]) -> dict[str, int]:
    work: Counter[str] = Counter()
    for layer in layers:
        if layer.work_flop:
            work[layer.precision] += layer.work_flop
    return dict(work.most_common())


def _work_by_unit(layers: Sequence[LayerScore]) -> dict[str, int]:
    work: Counter[str] = Counter()
    for layer in layers:
        if layer.work_flop:
            products = layer.multiply_add_flop or 0
            work[layer.unit] += products
            work["CUDA core"] += layer.work_flop - products
    return {unit: flop for unit, flop in work.most_common() if flop}


def differing_dimensions(scores: Sequence[ModelScore]) -> list[str]:
    """For each score, the dimensions that differ between scores of the same network.

    A dimension that is the batch everywhere is left out; empty where nothing differs.
    """
    names_of = []
    for score in scores:
        others = [other for other in scores if other.model_hash == score.model_hash]
        names = [
            name
            for name in score.dimensions
            if any(other.dimensions.get(name) != score.dimensions[name] for other in others)
            and any(other.dimensions.get(name) != other.batch for other in others)
        ]
        names_of.append(", ".join(f"{name} {score.dimensions[name]}" for name in names))
    return names_of


def too_large_note(score: ModelScore, memory_bytes: int | None, machine: str) -> str | None:
    """That a network cannot fit into the whole memory of a machine; None where it may.

    Counted are weights, keys and values, and the peak of fused groups: no engine needs less.
    """
    sums = totals(score)
    parts = (sums.weight_bytes, score.fused_peak_bytes, score.kv_cache_bytes)
    least_bytes = sum(part or 0 for part in parts)
    if memory_bytes is None or score.phase != "inference" or least_bytes <= memory_bytes:
        return None
    return (
        f"{score.model} needs at least {least_bytes / 2**30:.4g} GiB, and {machine} has "
        f"{memory_bytes / 2**30:.4g} GiB in all; 'mansard models fit' says what fits"
    )


_SHOWN = 3  # reasons in a note
_REGULARISERS = frozenset(
    {"BatchNormalization", "BatchNormInternal", "BiasDropout", "BitmaskBiasDropout"}
    | {"BitmaskDropout", "Dropout"}
)
_MEMORY = ("peak_activation_bytes", "in_place_peak_bytes", "fused_peak_bytes", "kv_cache_bytes")


def score_notes(
    network: InferredNetwork,
    layers: tuple[LayerScore, ...],
    settings: Settings,
    kv_cache_update: str,
) -> Iterator[str]:
    """What is to be said of a score: unknown layers, bounds, caches, what a file lacks."""
    unknown = [layer for layer in layers if layer.work_flop is None]
    if unknown:
        reasons = list(dict.fromkeys(layer.unknown["work_flop"] for layer in unknown))
        more = f"; and {len(reasons) - _SHOWN} more reasons" if len(reasons) > _SHOWN else ""
        yield (
            f"{len(unknown)} of {len(layers)} {UNKNOWN_LAYERS} {unknown[0].op_type} "
            f"{unknown[0].name!r} on; sums are of the others: {'; '.join(reasons[:_SHOWN])}{more}"
        )
    if network.bounds:
        yield (
            f"{len(network.bounds)} size(s) that depend on data count with their upper bounds: "
            "the network needs at most this"
        )
    if settings.kv_cache == "in-place" and kv_cache_update == "copied":
        yield (
            "the graph does not show how its caches are extended: they count as it is written, "
            "not in place"
        )
    if settings.phase == "training" and not _REGULARISERS & {layer.op_type for layer in layers}:
        yield (
            "the file has no BatchNormalization and no Dropout: an export for inference folds the "
            "one into weights and leaves the other out. If the network has them, export it for "
            "training (torch.onnx.export with training=TrainingMode.TRAINING)"
        )
    if settings.phase == "inference" and settings.cache_bytes is not None:
        yield from winograd_notes(layers, (instance.node for instance in walk(network.nodes)))


def unknown_fields(memory: Memory, batch: int | None, cache_bytes: int | None) -> dict[str, str]:
    """The reasons for unknown fields of the whole score."""
    reason = memory.unknown or "a layer is unknown"
    unknown = {name: reason for name in _MEMORY if getattr(memory, name) is None}
    if cache_bytes is None:
        unknown["cache_bytes"] = "no cache was given"
    if batch is None:
        unknown["batch"] = "the model does not say which dimension is the batch"
    return unknown
