"""What the rows of one score share: operators, weights, training, fused kernels, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from mansard.core.errors import ModelError
from mansard.core.precision import Precision
from mansard.core.records import KvCacheUpdate, Optimizer, Phase
from mansard.core.text import first_of
from mansard.estimator.caches import Caches, InPlaceInputs
from mansard.estimator.cost import Forward, GroupTraffic
from mansard.estimator.fusion import fuse
from mansard.estimator.memory import Memory, memory_of
from mansard.estimator.model import NOTHING_GIVEN, Given, ModelNode
from mansard.estimator.numbers import ElementType
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.registry import Operators
from mansard.estimator.tensors import Node, NodeInstance, Tensor
from mansard.estimator.traffic import cached_traffic, effective_cache_bytes, fused_traffic
from mansard.estimator.training import (
    checkpoint_bytes,
    differentiable_tensors,
    recomputed_nodes,
    saved_bytes,
    segment_of,
)
from mansard.estimator.weights import LayerWeights, assign_weights
from mansard.estimator.work_precision import quantized_tensors

_FORWARD_ONLY = "fusion is modelled for inference only"
_NO_CACHE = "no cache was given"
_UNKNOWN = "its kernel touches a tensor of unknown size or an unknown operator"
_SHOWN = 3  # nodes named for each unknown operator
_MOST_REASONS = 8  # in one message


class UnknownShapesError(ModelError):
    """Shapes depend on data, and were not given."""


class Settings(msgspec.Struct, frozen=True):
    """How a network is scored; see ``scoring.score``."""

    given: Given = NOTHING_GIVEN
    precision: Precision | None = None
    phase: Phase = "inference"
    optimizer: Optimizer = "sgd"  # of the training phase
    recompute: bool = False
    cache_bytes: int | None = None
    allow_unknown: bool = False
    kv_cache: KvCacheUpdate | None = None  # None: as the file is written, copied


class Training(msgspec.Struct, frozen=True):
    """What only a training step needs; empty for inference.

    ``again_bytes``: what each node saves when its segment is computed again.
    """

    differentiable: set[str] = msgspec.field(default_factory=set)
    saved_bytes: Mapping[int, int] = msgspec.field(default_factory=dict)
    recomputed: frozenset[int] = frozenset()
    again_bytes: Mapping[int, int] = msgspec.field(default_factory=dict)


class FusedKernels(msgspec.Struct, frozen=True):
    """The results of fusing nodes into kernels: memory, and traffic by node index.

    ``moved``: the traffic of fused groups; ``cached``: bytes between memory and the last-level
    cache. ``fused_reason`` and ``cached_reason``: why a node is missing in the one or the other.
    """

    moved: Mapping[int, GroupTraffic]
    cached: Mapping[int, int]
    memory: Memory
    fused_reason: str = _UNKNOWN
    cached_reason: str = _UNKNOWN


class ScoreContext(msgspec.Struct, frozen=True):
    """What the rows of one score share.

    ``weights``: by the node that uses them first; ``quantized_types``: the element types of
    tensors before they were dequantised. ``forward``: stored costs by ``Node.alike``, as layers
    repeat.
    """

    settings: Settings
    operators: Operators
    fused: FusedKernels
    weights: Mapping[int, LayerWeights]
    quantized_types: dict[str, ElementType]
    training: Training
    in_place: InPlaceInputs = {}
    forward: dict[int, Forward] = msgspec.field(default_factory=dict)


def find_operators(nodes: Iterable[Node]) -> Operators:
    """The operator of each of ``nodes``; None where it is not registered."""
    return {key: REGISTRY.find(*key) for key in {(node.domain, node.op_type) for node in nodes}}


def check_operators(
    nodes: Iterable[Node | ModelNode], without_shape: Collection[str], asked: Sequence[str] = ()
) -> None:
    """Raise ModelError that lists every operator without a cost.

    ``without_shape``: the tensors whose shapes nothing states. ``asked``: options that are asked
    for besides.
    """
    users: dict[str, list[str]] = {}
    open_names: list[str] = []
    for node in nodes:
        if REGISTRY.find(node.domain, node.op_type) is None:
            operator = f"{node.domain or 'ai.onnx'}::{node.op_type}"
            users.setdefault(operator, []).append(node.name)
            names = node.outputs if isinstance(node, ModelNode) else node.output_names
            open_names += [name for name in names if name in without_shape]
    if not users:
        return
    flags = [f"--shape '{name}=AxB'" for name in open_names[:_SHOWN]]
    more = f" (and of {len(open_names) - _SHOWN} more)" if len(open_names) > _SHOWN else ""
    states = f", and {' '.join(flags)} for the shape of what they write{more}" if flags else ""
    options = " ".join(["--allow-unknown", *dict.fromkeys(asked)])
    raise ModelError(
        f"{len(users)} operator(s) have no formula: "
        + ", ".join(f"{operator} ({_shown(names)})" for operator, names in users.items()),
        fix=f"pass {options} to count the others, totals are then 'at least'{states}; "
        "or add formulas for them",
    )


def check_complete(nodes: Sequence[Node], operators: Operators) -> None:
    """Raise ModelError that lists every operator without a cost, or every unknown shape."""
    if None in operators.values():
        outputs = [tensor for node in nodes for tensor in node.outputs]
        check_operators(nodes, {tensor.name for tensor in outputs if tensor.unknown})
    reasons: dict[str, None] = {}
    sources: Counter[str] = Counter()  # operators where something becomes unknown
    for node in nodes:
        unknown = [tensor.unknown for tensor in (*node.present, *node.outputs) if tensor.unknown]
        if not unknown:
            continue
        reasons.update(dict.fromkeys(unknown))
        if node.unknown_input is None and any("pass --dim" in reason for reason in unknown):
            sources[node.op_type] += 1
    if reasons:
        listed = list(reasons)
        more = f"; and {len(listed) - _MOST_REASONS} more" if len(listed) > _MOST_REASONS else ""
        many = [op_type for op_type, n in sources.items() if n > 1]
        flags = " ".join(f"--dim '{op_type}:*=N'" for op_type in many)
        raise UnknownShapesError(
            f"shapes cannot be known: {'; '.join(listed[:_MOST_REASONS])}{more}",
            fix=(f"pass {flags} for all of a kind, or " if many else "")
            + "score with --allow-unknown to leave the layers behind them out visibly",
        )


def _shown(names: list[str]) -> str:
    return f"node {first_of(list(map(repr, names)), _SHOWN)}"


def fuse_kernels(
    nodes: Sequence[Node],
    inputs: tuple[Tensor, ...],
    outputs: frozenset[str],
    operators: Operators,
    settings: Settings,
    caches: Caches,
) -> FusedKernels:
    """The traffic and the memory of the kernels that ``nodes`` fuse into.

    ``inputs`` and ``outputs``: the network's input tensors, and the names of its outputs.
    """
    if settings.phase == "training":
        memory = Memory(None, None, None, None, _FORWARD_ONLY)
        return FusedKernels({}, {}, memory, _FORWARD_ONLY, _FORWARD_ONLY)
    in_place = inputs_in_place(caches, settings)
    fusion = fuse(nodes, outputs, operators, settings.precision, in_place=in_place)
    moved = fused_traffic(fusion)
    memory = memory_of(nodes, inputs, outputs, fusion, settings.precision, caches)
    if settings.cache_bytes is None:
        return FusedKernels(moved, {}, memory, cached_reason=_NO_CACHE)
    cached = cached_traffic(fusion, effective_cache_bytes(settings.cache_bytes))
    return FusedKernels(moved, cached, memory)


def inputs_in_place(caches: Caches, settings: Settings) -> InPlaceInputs:
    """Inputs that a node's output already contains (caches that grow in place), by its index."""
    return caches.in_place if settings.kv_cache == "in-place" else {}


def make_context(
    instances: Sequence[NodeInstance],
    operators: Operators,
    fused: FusedKernels,
    settings: Settings,
    caches: Caches,
) -> ScoreContext:
    """The context of the rows of ``instances``."""
    nodes = [instance.node for instance in instances]
    training = _training(instances, operators, settings)
    weights = assign_weights(nodes, operators)
    return ScoreContext(
        settings,
        operators,
        fused,
        weights,
        quantized_tensors(nodes),
        training,
        inputs_in_place(caches, settings),
    )


def _training(
    instances: Sequence[NodeInstance], operators: Operators, settings: Settings
) -> Training:
    if settings.phase != "training":
        return Training()
    main = [instance.node for instance in instances if instance.scope == instances[0].scope]
    differentiable = differentiable_tensors(main, lambda node: operators[node.domain, node.op_type])
    precision = settings.precision
    if not settings.recompute:
        saved = saved_bytes(instances, operators, differentiable, precision)
        return Training(differentiable, saved)
    segments = segment_of(instances)
    again = saved_bytes(instances, operators, differentiable, precision, segments)
    checkpoints = checkpoint_bytes(instances, precision)
    return Training(differentiable, checkpoints, recomputed_nodes(instances), again)
