"""Placing one node: the shapes of its outputs, their values where small, and its bodies."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.errors import ModelError
from mansard.estimator.control_flow import OPERATORS as CONTROL_FLOW
from mansard.estimator.control_flow import place_inner
from mansard.estimator.control_flow.course import Course
from mansard.estimator.element_types import FLOAT32
from mansard.estimator.inputs import with_value
from mansard.estimator.looks import Look
from mansard.estimator.malformed import guarded
from mansard.estimator.model import ModelNode
from mansard.estimator.open_dimensions import fill, stated, without_rule, without_value
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.constants import constant_tensor
from mansard.estimator.sequences import RULES as SEQUENCE_RULES
from mansard.estimator.sequences import all_weights, outputs_of, pass_on
from mansard.estimator.tensors import (
    Body,
    Node,
    Origin,
    Tensor,
    ValueNeededError,
    Weight,
    is_sane,
)
from mansard.estimator.values import evaluate_all

# Operators that make more of their outputs than types, shapes and a value.
_SPECIAL = {**CONTROL_FLOW, **dict.fromkeys((*SEQUENCE_RULES, "Constant"), "")}
_DATA = Origin.DATA

_ITEMS_A_NODE = 16  # elements of a sequence that weigh as much as placing one node
_INDEXES = frozenset({"bool", "int64"})
_MOST_WEIGHTS = 4096  # stored tensors in one constant: bounds the time of long chains
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    | {"RandomUniformLike"}
)


def place_nodes(
    nodes: Sequence[ModelNode], tensors: dict[str, Tensor], course: Course
) -> tuple[Node, ...]:
    """``nodes`` in their order with all tensors; the outputs are added to ``tensors``.

    Raises ModelError where a node contradicts itself or the given dimensions.
    """
    return tuple([place_node(node, tensors, course) for node in nodes])


def place_node(written: ModelNode, tensors: dict[str, Tensor], course: Course) -> Node:
    """One node; see ``place_nodes``."""
    if not written.outputs:
        raise ModelError(
            "writes nothing: every operator has an output",
            where=written.label,
            fix="the file is broken; export the model again",
        )
    inputs = tuple([tensors[name] if name else None for name in written.inputs])
    bodies: tuple[Body, ...] = ()
    alike = -1
    if _SPECIAL.get(written.op_type) == written.domain:
        outputs, bodies = guarded(_special, _node(written, inputs), tensors, course)
    else:
        look = _look(written, inputs, course)
        if isinstance(look, Look):
            outputs, alike = _outputs(written, inputs, look, course.scope), look.number
        else:
            outputs = look
    if course.given.values:
        outputs = tuple([_forced(output, course) for output in outputs])
    for output in outputs:
        if output.name:
            tensors[output.name] = output
    return _node(written, inputs, outputs, bodies, alike)


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


def _forced(output: Tensor, course: Course) -> Tensor:
    value = course.given.values.get(output.name)
    return output if value is None else with_value(output, value)


def _special(
    node: Node, tensors: dict[str, Tensor], course: Course
) -> tuple[tuple[Tensor, ...], tuple[Body, ...]]:
    if node.op_type in CONTROL_FLOW:
        return place_inner(node, tensors, course)
    if node.op_type == "Constant":
        return (_constant(node, course),), ()
    outputs = outputs_of(node)
    # A sequence that grows in a loop is a new one each time.
    course.budget.spend(len(outputs[0].items or ()) // _ITEMS_A_NODE, course.loop or node)
    return outputs, ()


def _constant(node: Node, course: Course) -> Tensor:
    held = constant_tensor(node)
    if len(node.output_names) != 1:
        raise node.error("a constant has one output")
    name = node.output_names[0]
    weight = Weight(course.scope + name, held.dtype, held.shape, is_literal=True)
    return Tensor(name, held.dtype, held.shape, Origin.FILE, held.value, (weight,))


def _look(
    written: ModelNode, inputs: tuple[Tensor | None, ...], course: Course
) -> Look | tuple[Tensor, ...]:
    """What the outputs look like; the outputs themselves where they are out of the ordinary."""
    key = course.looks.key(written, inputs)
    if key is not None:
        look = course.looks.find(key)
        if look is not None:
            return look
    node = _node(written, inputs)
    for tensor in node.present:
        if tensor.unknown is not None:
            return _unknown(node, tensor.unknown)
        if tensor.items is not None:
            return guarded(pass_on, node)
    found = guarded(_new_look, node, course)
    if isinstance(found, str):
        return _unknown(node, found)
    look, is_general = found
    return course.looks.keep(key, look) if is_general and key is not None else look


def _new_look(node: Node, course: Course) -> tuple[Look, bool] | str:
    """The look, and whether it is that of all nodes like this one; or why it is unknown."""
    rule = REGISTRY.shape_rule(node.domain, node.op_type)
    try:
        found = without_rule(node) if rule is None else rule(node)
    except ValueNeededError as error:
        found = without_value(node, error)
    # Where nobody else can tell, the person who asks may.
    told = stated(node, course) or found if isinstance(found, str) else found
    specs = told if isinstance(told, str) else fill(node, told, course)
    if isinstance(specs, str):
        return specs
    if len(specs) < len(node.output_names):
        raise node.error(f"writes {len(node.output_names)} outputs, not at most {len(specs)}")
    if not all(is_sane(shape) for _, shape in specs):
        raise node.error("its output is of an absurd size", "check the dimensions that were given")
    origin = _origin(node)
    values = evaluate_all(node, specs) if origin is not _DATA else (None,) * len(specs)
    # What was given for one node's dimensions is not meant for others.
    return Look(tuple(specs), origin, values), specs is found


def _unknown(node: Node, reason: str) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, FLOAT32, (), unknown=reason) for name in node.output_names)


def _origin(node: Node) -> Origin:
    if node.op_type in RANDOM:
        return Origin.DATA
    # Of what CastLike reads second only the type is of interest.
    present = node.present[:1] if node.op_type == "CastLike" else node.present
    origin = max((tensor.origin for tensor in present), default=Origin.FILE)
    return min(origin, Origin.SHAPES) if node.op_type in ("EyeLike", "Shape", "Size") else origin


def _outputs(
    written: ModelNode, inputs: tuple[Tensor | None, ...], look: Look, scope: str
) -> tuple[Tensor, ...]:
    names, origin = written.outputs, look.origin
    weights = _weights(written, inputs, look, scope) if origin is not _DATA else ()
    dtype, shape = look.specs[0]
    first = Tensor(names[0], dtype, shape, origin, look.values[0], weights)
    if len(names) == 1:
        return (first,)
    rest = [
        Tensor(name, dtype, shape, origin, value, weights)
        for name, (dtype, shape), value in zip(
            names[1:], look.specs[1:], look.values[1:], strict=False
        )
    ]
    return (first, *rest)


def _weights(
    written: ModelNode, inputs: tuple[Tensor | None, ...], look: Look, scope: str
) -> tuple[Weight, ...]:
    """The stored tensors a constant is made of.

    A filled tensor whose shape stands in the file is a stored one in disguise; one
    whose shape is computed from the input's is filled at run time.
    """
    op_type = written.op_type
    if op_type == "ConstantOfShape":
        is_stored = look.origin is Origin.FILE
        return (Weight(scope + written.outputs[0], *look.specs[0]),) if is_stored else ()
    # What shapes are computed from, and choices, are no weights.
    if op_type in ("Shape", "Size") or look.specs[0][0].name in _INDEXES:
        return ()
    present = [tensor for tensor in inputs if tensor is not None]
    # Scales and zero points describe quantised weights; they are none themselves.
    is_quantizer = op_type in ("DequantizeLinear", "QuantizeLinear")
    found = all_weights(present[:1] if is_quantizer else present)
    if len(found) > _MOST_WEIGHTS:
        raise ModelError(
            f"is computed from more than {_MOST_WEIGHTS} stored tensors",
            where=f"node {written.name!r} ({op_type})",
            fix="fold the file's constants",
        )
    return found
