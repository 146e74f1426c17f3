"""The graph of a language model while it is drawn: nodes, stored tensors, inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

import msgspec

from mansard.core.weight_formats import WeightFormat, weight_format
from mansard.estimator.language.architecture import Architecture, StoredWeight
from mansard.estimator.model import ModelInput, ModelNode, StoredTensor
from mansard.estimator.numbers import ELEMENT_TYPES, INT64, UINT8, ElementType, hold
from mansard.estimator.operators.contrib.language import DOMAIN

MICROSOFT = "com.microsoft"
OPSETS = {"": 24, MICROSOFT: 1, DOMAIN: 1}
PLAIN = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
TOKENS, BATCH, NEW_TOKENS = "input_ids", "batch", "sequence"
_NOTHING: Mapping[str, object] = MappingProxyType({})


class DrawnModel(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn: a model, and how it keeps keys and values.

    ``cache_format``: a weight format, such as Q8_0; None: that of the activations. ``compute``:
    activations and products are in this precision, whatever the weights are stored in; None: each
    weight says it.
    """

    architecture: Architecture
    cache_format: str | None = None
    compute: str | None = None

    @property
    def activations(self) -> str:
        """Their format: that of the embedding, which is fp16 where it is quantised."""
        stored = self.architecture.weights["token_embd.weight"].format
        return stored if stored in PLAIN else "fp16"


class ModelGraph:
    """Nodes and stored tensors as they are added; ``hidden`` is the type of activations."""

    def __init__(self, drawn: DrawnModel) -> None:
        self.model = drawn.architecture
        self.compute = drawn.compute
        self.hidden = ELEMENT_TYPES[PLAIN[drawn.compute or drawn.activations]]
        self.cache: WeightFormat = weight_format(drawn.cache_format or drawn.activations)
        self.nodes: list[ModelNode] = []
        self.stored: dict[str, StoredTensor] = {}
        self.inputs = [ModelInput(TOKENS, INT64, (BATCH, NEW_TOKENS))]
        self.outputs: list[ModelInput] = []

    def node(
        self,
        op_type: str,
        inputs: tuple[str, ...],
        name: str,
        attributes: Mapping[str, object] = _NOTHING,
        *,
        domain: str = "",
        outputs: tuple[str, ...] | None = None,
    ) -> str:
        """Add a node; returns its first output, which is called as the node by default."""
        outputs = outputs or (name,)
        index = len(self.nodes)
        self.nodes.append(
            ModelNode(index, name, op_type, domain, inputs, outputs, attributes, OPSETS[domain])
        )
        return outputs[0]

    def store(self, name: str, dtype: ElementType, shape: tuple[int, ...]) -> str:
        self.stored.setdefault(name, StoredTensor(name, dtype, shape, None))
        return name

    def integers(self, name: str, *values: int) -> str:
        shape = (len(values),)
        self.stored[name] = StoredTensor(name, INT64, shape, hold(INT64, shape, values))
        return name

    def has(self, name: str) -> bool:
        return name in self.model.weights

    def is_packed(self, name: str) -> bool:
        """Whether a weight is of another type than the activations: then its bytes have no shape.

        So is a matrix of one row, which files store as a vector.
        """
        weight = self.model.weights[name]
        return PLAIN.get(weight.format) != self.hidden.name or len(weight.shape) == 1

    def stored_as_is(self, name: str) -> str:
        """A weight with as many bytes as it is stored in."""
        weight = self.model.weights[name]
        if self.is_packed(name):
            return self.store(name, UINT8, (weight.n_bytes,))
        return self.store(name, self.hidden, weight.shape)

    def vector(self, name: str) -> str:
        """A vector in the type of the activations; empty where the model has no such weight."""
        weight = self.model.weights.get(name)
        if weight is None:
            return ""
        dtype = ELEMENT_TYPES[PLAIN.get(weight.format, self.hidden.name)]
        vector = self.store(name, dtype, weight.shape)
        if dtype == self.hidden:
            return vector
        return self.node("Cast", (vector,), f"{name}.cast", {"to": self.hidden.code})

    def product(self, data: str, weight_name: str, name: str, *, is_packed: bool = False) -> str:
        """``data`` times the transposed matrix called ``weight_name``, and its bias.

        ``is_packed``: no weight is read where there is no row to multiply.
        """
        weight = self.model.weights[weight_name]
        if is_packed or self.is_packed(weight_name):
            matrix = self.store(weight_name, UINT8, (weight.n_bytes,))
            n_rows = 1 if len(weight.shape) == 1 else weight.shape[0]
            sizes = {"N": n_rows, "K": prod(weight.shape) // n_rows}
            made = self.node(
                "MatMulStored",
                (data, matrix),
                name,
                {**stored_attributes(self, weight), **sizes},
                domain=DOMAIN,
            )
        else:
            matrix = self.stored_as_is(weight_name)
            flipped = self.node("Transpose", (matrix,), f"{weight_name}.t", {"perm": (1, 0)})
            made = self.node("MatMul", (data, flipped), name)
        bias = self.vector(weight_name.removesuffix("weight") + "bias")
        return self.node("Add", (made, bias), f"{name}.biased") if bias else made

    def norm(self, data: str, weight_name: str, name: str) -> str:
        scale = self.vector(weight_name)
        if self.model.norm == "rms":
            return self.node("RMSNormalization", (data, scale), name)
        bias = self.vector(weight_name.removesuffix("weight") + "bias")
        return self.node("LayerNormalization", tuple(filter(None, (data, scale, bias))), name)


def stored_attributes(graph: ModelGraph, *weights: StoredWeight) -> Mapping[str, object]:
    """The attributes of an operator of ``weights``: of several, the mean operations a weight."""
    n_ops = sum(weight.unpack_ops for weight in weights) / len(weights)
    return {"unpack_ops": round(n_ops), "compute": graph.compute or weights[0].compute}
