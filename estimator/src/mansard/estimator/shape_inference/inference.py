"""Shape inference: one pass that gives every tensor its shape, and small ones their value.

All dimensions of the inputs are numbers by then (``binding``), so everything that is
computed from shapes, as exported transformers do in the graph, becomes a number too.
``infer_node`` takes these steps:

1. Operators with graphs inside them, those on sequences, and constants give their output
   tensors themselves (``control_flow``, ``sequences``).
2. Nodes that differ in names only share what is inferred for the first (``CachedOutputs``).
3. The operator's shape rule gives types and shapes. Whatever it stumbles over in a broken
   file becomes a ModelError that names the node (``raising_model_error``). Without a rule
   they are what the caller or the file states (``stated``), or unknown.
4. Dimensions that depend on data are filled in from what is given, or make the outputs
   unknown, with the reason (``unknown_dimensions``).
5. Values of small tensors that do not depend on data are computed (``values``): later
   shapes follow from them.
6. The outputs get their names, and the stored tensors that they were made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.model import NOTHING_GIVEN, Given, Model, ModelNode
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.constants import constant_tensor
from mansard.estimator.operators.costs import Refusal
from mansard.estimator.operators.registry import Spec
from mansard.estimator.reading.graphs import TABLES
from mansard.estimator.reading.versions import arity_error
from mansard.estimator.shape_inference.binding import Binding, with_value
from mansard.estimator.shape_inference.context import (
    MAX_INNER_NODES,
    CachedOutputs,
    InferenceContext,
    InferredOutputs,
    NodeBudget,
    Outputs,
)
from mansard.estimator.shape_inference.control_flow import OPERATORS as CONTROL_FLOW
from mansard.estimator.shape_inference.control_flow import infer_graphs
from mansard.estimator.shape_inference.control_flow.subgraphs import stored_tensors
from mansard.estimator.shape_inference.first_steps import first_steps
from mansard.estimator.shape_inference.sequences import RULES as SEQUENCE_RULES
from mansard.estimator.shape_inference.sequences import all_weights, identity, sequence_outputs
from mansard.estimator.shape_inference.stated import (
    contradiction_note,
    is_resized,
    shape_flags,
    stated_outputs,
)
from mansard.estimator.shape_inference.unknown_dimensions import check_used, filled_dimensions
from mansard.estimator.shape_inference.upper import follow_bounds
from mansard.estimator.shape_inference.values import evaluate_all
from mansard.estimator.tensors import (
    Body,
    Node,
    Origin,
    Tensor,
    ValueNeededError,
    Weight,
    is_sane,
    raising_model_error,
)

# Operators whose outputs are more than types, shapes and a value, with their domains.
_SPECIAL = {**CONTROL_FLOW, **dict.fromkeys((*SEQUENCE_RULES, "Constant"), "")}
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    | {"RandomUniformLike"}
)
_DATA = Origin.DATA

_ITEMS_A_NODE = 16  # elements of a sequence that cost as much time as one node
_INDEXES = frozenset({"bool", "int64"})
_MAX_WEIGHTS = 4096  # stored tensors in one constant: bounds the time of long chains


class InferredNetwork(msgspec.Struct, frozen=True, eq=False):
    """A network with all its shapes, or the reasons why some are unknown.

    ``notes`` are choices that were made where the file leaves one, ``filled`` the sizes that
    were given for dimensions that depend on data, ``bounds`` upper bounds that were taken.
    ``missing``: dimensions that depend on data and were not given, see ``InferenceContext``.
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    notes: tuple[str, ...] = ()
    filled: Mapping[str, int] = {}
    bounds: Mapping[str, int] = {}
    missing: Mapping[str, tuple[str, int | None]] = {}


class Prepared(msgspec.Struct, frozen=True, eq=False):
    """What follows from the file alone: its stored tensors and what is computed from them."""

    nodes: Mapping[int, Node]  # by index
    tensors: Mapping[str, Tensor]
    cache: CachedOutputs


def prepare(model: Model) -> Prepared:
    """The nodes that are the same for all dimensions; never raises for a broken one."""
    tensors, cache = stored_tensors(model.stored, ""), CachedOutputs()
    context = _context(model, NOTHING_GIVEN, MAX_INNER_NODES, cache)
    nodes: dict[int, Node] = {}
    for written in model.nodes:
        if written.op_type in CONTROL_FLOW or written.op_type in _RANDOM:
            continue
        if not all([not name or name in tensors for name in written.inputs]):  # noqa: C419
            continue
        try:
            node = infer_node(written, tensors, context)
        except ModelError:
            continue  # ``infer_shapes`` raises it again
        if any(output.unknown is not None for output in node.outputs):
            for name in written.outputs:
                tensors.pop(name, None)
        else:
            nodes[written.index] = node
    return Prepared(nodes, tensors, cache)


def infer_shapes(
    model: Model,
    binding: Binding,
    prepared: Prepared | None = None,
    max_inner_nodes: int = MAX_INNER_NODES,
    states: frozenset[tuple[int, int]] | None = None,
) -> InferredNetwork:
    """Shapes of all tensors; an input may have the reason why its shape is unknown.

    ``prepared`` saves the work that does not depend on dimensions. ``max_inner_nodes``
    bounds the nodes inside loops that are followed iteration by iteration. ``states``: the
    initial states of recurrences, where they were found before.
    Raises ModelError where the file contradicts itself or the given dimensions,
    UsageError where what is given contradicts the file.
    """
    given = binding.given
    if states and prepared is not None:
        prepared = Prepared({}, stored_tensors(model.stored, ""), prepared.cache)
    if prepared is None or not given.values.keys().isdisjoint(prepared.tensors):
        prepared = Prepared({}, stored_tensors(model.stored, ""), CachedOutputs())
    tensors = {**prepared.tensors, **binding.tensors}
    for name in given.values.keys() & model.stored.keys():
        tensors[name] = with_value(tensors[name], given.values[name])
    stated = model.stated
    is_other = bool(stated) and is_resized(model, binding)
    context = msgspec.structs.replace(
        _context(model, given, max_inner_nodes, prepared.cache),
        stated=stated,
        sizes={**_named(given), **binding.named},
        is_resized=is_other,
        patterns=binding.patterns,
        states=states or frozenset(),
    )
    ready = prepared.nodes
    nodes = [
        ready.get(written.index) or infer_node(written, tensors, context) for written in model.nodes
    ]
    if states is None and (found := first_steps(nodes)):
        return infer_shapes(model, binding, prepared, max_inner_nodes, found)
    check_used(nodes, tensors, context)
    filled = {name: given.dims[name] for name in given.dims if name in context.used}
    if stated and not (is_other or context.used or context.bounds):
        note = contradiction_note(stated, tensors, binding.named)
        if note is not None:
            context.notes[note] = None
    notes = tuple(context.notes)
    return InferredNetwork(tuple(nodes), tensors, notes, filled, context.bounds, context.missing)


def _named(given: Given) -> dict[str, int]:
    """Sizes that are given by name, as those that the file notes of dimensions of nodes."""
    return {name: size for name, size in given.dims.items() if not name.endswith("]")}


def _context(
    model: Model, given: Given, max_inner_nodes: int, cache: CachedOutputs
) -> InferenceContext:
    return InferenceContext(
        infer_nodes=infer_nodes,
        given=given,
        declared={output.name: output.dimensions or () for output in model.outputs},
        inputs=frozenset(source.name for source in model.inputs),
        budget=NodeBudget(max_inner_nodes),
        cache=cache,
    )


def infer_nodes(
    nodes: Sequence[ModelNode], tensors: dict[str, Tensor], context: InferenceContext
) -> tuple[Node, ...]:
    """``nodes`` in their order with all tensors; the outputs are added to ``tensors``.

    Raises ModelError where a node contradicts itself or the given dimensions.
    """
    return tuple([infer_node(node, tensors, context) for node in nodes])


def infer_node(written: ModelNode, tensors: dict[str, Tensor], context: InferenceContext) -> Node:
    """One node with its tensors; see ``infer_nodes``."""
    if not written.outputs:
        raise ModelError(
            "writes nothing: every operator has an output",
            where=written.label,
            fix="the file is broken; export the model again",
        )
    inputs = tuple([tensors[name] if name else None for name in written.inputs])
    if context.states:
        inputs = _with_states(written, inputs, context)
    bodies: tuple[Body, ...] = ()
    alike = -1
    if context.bounded:
        follow_bounds(written, inputs, context)
    if _SPECIAL.get(written.op_type) == written.domain:
        outputs, bodies = raising_model_error(
            _special_outputs, _node(written, inputs), tensors, context
        )
    else:
        found = _cached_outputs(written, inputs, context)
        if isinstance(found, InferredOutputs):
            outputs, alike = _named_outputs(written, inputs, found, context.scope), found.number
        else:
            outputs = found
    if context.behind:
        _follow_unknown(written, context)
    if context.given.values:
        outputs = tuple([_with_given_value(output, context.given) for output in outputs])
    for output in outputs:
        if output.name:
            tensors[output.name] = output
    return _node(written, inputs, outputs, bodies, alike)


def _follow_unknown(written: ModelNode, context: InferenceContext) -> None:
    """Note that what a node writes follows from a tensor of unknown shape or value."""
    reason = next((context.behind[name] for name in written.inputs if name in context.behind), None)
    if reason is not None:
        for name in filter(None, written.outputs):
            context.behind.setdefault(name, reason)


def _with_states(
    written: ModelNode, inputs: tuple[Tensor | None, ...], context: InferenceContext
) -> tuple[Tensor | None, ...]:
    """``inputs`` with initial states as a loop has them: they are computed with, not weights."""
    return tuple(
        tensor
        if tensor is None or (written.index, position) not in context.states
        else msgspec.structs.replace(tensor, origin=Origin.ITERATIONS, weights=())
        for position, tensor in enumerate(inputs)
    )


def _node(
    written: ModelNode,
    inputs: tuple[Tensor | None, ...],
    outputs: tuple[Tensor, ...] = (),
    bodies: tuple[Body, ...] = (),
    alike: int = -1,
) -> Node:
    return Node(
        written.index,
        written.name,
        written.op_type,
        written.domain,
        written.opset,
        written.attributes,
        inputs,
        written.outputs,
        outputs,
        bodies,
        alike,
    )


def _with_given_value(output: Tensor, given: Given) -> Tensor:
    value = given.values.get(output.name)
    return output if value is None else with_value(output, value)


def _special_outputs(node: Node, tensors: dict[str, Tensor], context: InferenceContext) -> Outputs:
    """Step 1: outputs and bodies of an operator that is no plain function of tensors."""
    if node.op_type in CONTROL_FLOW:
        return infer_graphs(node, tensors, context)
    if node.op_type == "Constant":
        held = constant_tensor(node)
        if len(node.output_names) != 1:
            raise node.error("a constant has one output")
        name = node.output_names[0]
        weight = Weight(context.scope + name, held.dtype, held.shape, is_literal=True)
        return (Tensor(name, held.dtype, held.shape, Origin.FILE, held.value, (weight,)),), ()
    outputs = sequence_outputs(node)
    # A sequence that grows in a loop is a new one each time.
    context.budget.spend(len(outputs[0].items or ()) // _ITEMS_A_NODE, context.loop or node)
    return outputs, ()


def _cached_outputs(
    written: ModelNode, inputs: tuple[Tensor | None, ...], context: InferenceContext
) -> InferredOutputs | tuple[Tensor, ...]:
    """Step 2: what is cached for nodes like this one, else what is inferred now.

    Tensors where an input, and so the output, is unknown or no plain tensor.
    """
    key = context.cache.key(written, inputs)
    if key is not None:
        cached = context.cache.find(key)
        if cached is not None:
            return cached
    node = _node(written, inputs)
    for tensor in node.present:
        if tensor.unknown is not None:
            return stated_outputs(node, tensor.unknown, context)
        if tensor.items is not None:
            return raising_model_error(identity, node)
    found = raising_model_error(_infer_outputs, node, context)
    if isinstance(found, str):
        return stated_outputs(node, found, context)
    outputs, is_general = found
    return context.cache.keep(key, outputs) if is_general and key is not None else outputs


def _infer_outputs(node: Node, context: InferenceContext) -> tuple[InferredOutputs, bool] | str:
    """Steps 3 to 5. The bool: whether they hold for all nodes like this one.

    The reason, where the shape of an output is unknown.
    """
    # Step 3: types and shapes by the operator's rule, or the reason why it gives none.
    rule = REGISTRY.shape_rule(node.domain, node.op_type)
    found: Sequence[Spec] | str = "there is no shape rule for this operator"
    if rule is not None:
        try:
            found = rule(node)
        except ValueNeededError as error:
            found = error.what
    # Behind the rule, which knows better what an input that is missing was for.
    is_table = (node.domain, node.op_type) in TABLES and len(node.inputs) > 1
    fault = arity_error(node, node.inputs[:1] if is_table else node.inputs, node.output_names)
    if fault is not None:
        raise fault
    if isinstance(found, str):
        also = "--allow-unknown " if isinstance(found, Refusal) else ""
        return f"{node.label}: {found}: pass {also}{shape_flags(node.output_names)}"
    # Step 4: dimensions that were given where the rule leaves them open.
    specs = filled_dimensions(node, found, context)
    if isinstance(specs, str):
        return specs
    if len(specs) < len(node.output_names):
        raise node.error(f"writes {len(node.output_names)} outputs, not at most {len(specs)}")
    if not all(is_sane(shape) for _, shape in specs):
        raise node.error("its output is of an absurd size", "check the dimensions that were given")
    # Step 5: small values that do not depend on data.
    origin = _origin(node)
    values = evaluate_all(node, specs) if origin is not _DATA else (None,) * len(specs)
    # What was given for one node's dimensions is not meant for others.
    return InferredOutputs(tuple(specs), origin, values), specs is found


def _origin(node: Node) -> Origin:
    if node.op_type in _RANDOM:
        return Origin.DATA
    # CastLike uses only the type of its second input.
    present = node.present[:1] if node.op_type == "CastLike" else node.present
    origin = max((tensor.origin for tensor in present), default=Origin.FILE)
    return min(origin, Origin.SHAPES) if node.op_type in ("EyeLike", "Shape", "Size") else origin


def _named_outputs(
    written: ModelNode, inputs: tuple[Tensor | None, ...], found: InferredOutputs, scope: str
) -> tuple[Tensor, ...]:
    """Step 6: the output tensors."""
    origin = found.origin
    weights = _weights(written, inputs, found, scope) if origin is not _DATA else ()
    return tuple(
        [
            Tensor(name, dtype, shape, origin, value, weights)
            for name, (dtype, shape), value in zip(
                written.outputs, found.specs, found.values, strict=False
            )
        ]
    )


def _weights(
    written: ModelNode, inputs: tuple[Tensor | None, ...], found: InferredOutputs, scope: str
) -> tuple[Weight, ...]:
    """The stored tensors that a constant is made of.

    A filled tensor whose shape is in the file counts as a stored one; one whose shape is
    computed from the input's is filled at run time.
    """
    op_type = written.op_type
    if op_type == "ConstantOfShape":
        is_stored = found.origin is Origin.FILE
        return (Weight(scope + written.outputs[0], *found.specs[0]),) if is_stored else ()
    # What shapes are computed from, and choices, are no weights.
    if op_type in ("Shape", "Size") or found.specs[0][0].name in _INDEXES:
        return ()
    present = [tensor for tensor in inputs if tensor is not None]
    # Scales and zero points describe quantised weights; they are no weights themselves.
    is_quantizer = op_type in ("DequantizeLinear", "QuantizeLinear")
    weights = all_weights(present[:1] if is_quantizer else present)
    if len(weights) > _MAX_WEIGHTS:
        raise ModelError(
            f"is computed from more than {_MAX_WEIGHTS} stored tensors",
            where=f"node {written.name!r} ({op_type})",
            fix="fold the file's constants",
        )
    return weights
