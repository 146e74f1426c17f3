"""One pass through a network that gives every tensor its shape, and small ones their value.

All dimensions of the inputs are numbers by then (``dimensions``), so everything that
is computed from shapes, as exported transformers do in the graph, becomes a number too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mansard.core.errors import MansardError
from mansard.estimator.element_types import FLOAT32, ElementType
from mansard.estimator.model import Model, ModelNode, StoredTensor, Subgraph
from mansard.estimator.shapes import find_rule
from mansard.estimator.shapes.constants import constant_tensor, shape_slice
from mansard.estimator.shapes.registry import Spec
from mansard.estimator.tensors import Array, Node, Origin, Shape, Tensor, Weight, as_array, is_sane
from mansard.estimator.values import evaluate

# What a rule or formula may stumble over in a malformed node: attributes that are
# missing or of another type, too few inputs, shapes of another rank, absurd sizes.
MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


class Network(msgspec.Struct, frozen=True, eq=False):
    """A network with all its shapes, and what could not be worked out."""

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]


def propagate(model: Model, input_shapes: Mapping[str, Shape | str]) -> Network:
    """Shapes of all tensors; an input's shape may be the reason why it is unknown.

    Raises ModelError where the file contradicts itself or the given dimensions.
    """
    tensors: dict[str, Tensor] = {
        name: _from_file(stored, Weight(name, stored.dtype, stored.shape))
        for name, stored in model.stored.items()
    }
    for given in model.inputs:
        shape = input_shapes[given.name]
        known, reason = (shape, None) if isinstance(shape, tuple) else ((), shape)
        dtype = given.dtype or FLOAT32
        tensors[given.name] = Tensor(given.name, dtype, known, unknown=reason)
    nodes = tuple(_place(node, model, tensors) for node in model.nodes)
    return Network(nodes, tensors)


def _place(written: ModelNode, model: Model, tensors: dict[str, Tensor]) -> Node:
    inputs = tuple(tensors[name] if name else None for name in written.inputs)
    node = Node(
        written.index,
        written.name,
        written.op_type,
        written.domain,
        model.opsets.get(written.domain, 1),
        written.attributes,
        inputs,
        written.outputs,
    )
    try:
        outputs = _outputs(node, tensors)
    except MansardError:
        raise
    except MALFORMED as error:
        raise node.error(
            f"does not fit its operator's definition ({type(error).__name__}: {error})",
            "the file is broken or was edited; export it again",
        ) from error
    tensors.update((output.name, output) for output in outputs if output.name)
    return msgspec.structs.replace(node, outputs=outputs)


def _outputs(node: Node, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    if node.op_type == "Constant" and not node.domain:
        if len(node.output_names) != 1:
            raise node.error("a constant has one output")
        held = constant_tensor(node)
        name = node.output_names[0]
        weight = Weight(name, held.dtype, held.shape, is_literal=True)
        return (msgspec.structs.replace(_from_file(held, weight), name=name),)
    lost = next((tensor.unknown for tensor in node.present if tensor.unknown), None)
    if lost is not None:
        return _unknown(node, lost)
    rule = find_rule(node.domain, node.op_type)
    if rule is not None:
        specs = rule(node)
    else:
        from mansard.estimator.graph.inference import infer_outputs

        inferred = infer_outputs(node)
        if isinstance(inferred, str):
            return _unknown(node, inferred)
        specs = inferred
    return _known(node, specs, _origin(node, tensors))


def _from_file(stored: StoredTensor, weight: Weight) -> Tensor:
    return Tensor(stored.name, stored.dtype, stored.shape, Origin.FILE, stored.value, (weight,))


def _unknown(node: Node, reason: str) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, FLOAT32, (), unknown=reason) for name in node.output_names)


_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    | {"RandomUniformLike"}
)


def _origin(node: Node, tensors: Mapping[str, Tensor]) -> Origin:
    if node.op_type in _RANDOM:
        return Origin.DATA
    origin = max((tensor.origin for tensor in node.present), default=Origin.FILE)
    if node.op_type in ("Shape", "Size"):
        return min(origin, Origin.SHAPES)
    for value in node.attributes.values():
        if isinstance(value, Subgraph):
            origin = max((origin, *(tensors[name].origin for name in value.captured)))
    return origin


def _known(node: Node, specs: Sequence[Spec], origin: Origin) -> tuple[Tensor, ...]:
    if len(specs) < len(node.output_names):
        raise node.error(f"writes {len(node.output_names)} outputs, not at most {len(specs)}")
    if not all(is_sane(shape) for _, shape in specs):
        raise node.error("its output is of an absurd size", "check the dimensions that were given")
    names = node.output_names
    first_dtype, first_shape = specs[0]
    weights = _weights(node, names[0], specs[0]) if origin is not Origin.DATA else ()
    value: Array | None = None
    if origin is not Origin.DATA:
        value = _value(node, first_dtype, first_shape)
    first = Tensor(names[0], first_dtype, first_shape, origin, value, weights)
    rest = (
        Tensor(name, dtype, shape, origin, None, weights)
        for name, (dtype, shape) in zip(names[1:], specs[1:], strict=False)
    )
    return (first, *rest)


def _value(node: Node, dtype: ElementType, shape: Shape) -> Array | None:
    if node.op_type == "Shape":
        return as_array(shape_slice(node))
    if node.op_type == "Size":
        return as_array(node.input(0).n_elements)
    return evaluate(node, dtype, shape)


def _weights(node: Node, name: str, spec: Spec) -> tuple[Weight, ...]:
    """The stored tensors a constant is made of.

    A filled tensor whose shape stands in the file is a stored one in disguise; one
    whose shape is computed from the input's is filled at run time.
    """
    if node.op_type == "ConstantOfShape":
        is_stored = node.input(0).origin is Origin.FILE
        return (Weight(name, *spec),) if is_stored else ()
    if node.op_type in ("Shape", "Size"):
        return ()
    # Scales and zero points describe quantised weights; they are none themselves.
    is_quantizer = node.op_type in ("DequantizeLinear", "QuantizeLinear")
    sources = node.present[:1] if is_quantizer else node.present
    found = {weight.name: weight for tensor in sources for weight in tensor.weights}
    return tuple(found.values())
