"""Which tensors follow from an upper bound, and where the result may be no upper bound."""

from __future__ import annotations

from types import MappingProxyType

from mansard.estimator.model import ModelNode
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.tensors import Origin, Tensor

# Inputs that may make a result smaller when they grow.
_FALLING = MappingProxyType(
    {
        "Div": (1,),
        "Mod": (0, 1),
        "Neg": (0,),
        "Range": (0, 2),
        "Reciprocal": (0,),
        "Slice": (1,),
        "Sub": (1,),
        "Where": (0,),
    }
)


def follow_bounds(
    written: ModelNode, inputs: tuple[Tensor | None, ...], context: InferenceContext
) -> None:
    """Mark the outputs as bounds where an input is one; a note where growth may make them smaller.

    A size that is computed from an upper bound is one, too, as long as it grows with it.
    """
    bounded = context.bounded
    if bounded.isdisjoint(written.reads):
        return
    bounded.update(filter(None, written.outputs))
    for graph in written.subgraphs:
        bounded.update(source.name for source in graph.inputs)
    for position in _FALLING.get(written.op_type, ()):
        tensor = inputs[position] if position < len(inputs) else None
        if tensor is not None and tensor.name in bounded and tensor.origin is not Origin.DATA:
            context.notes[
                f"{written.label}: what it computes of {tensor.name!r}, which is an upper bound, "
                "may get smaller as that grows: from here on the score may be no upper bound"
            ] = None
