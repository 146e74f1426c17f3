"""ONNX Runtime's quantised operators that are no products and no convolutions.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import DEQUANTIZE, QUANTIZE, reads_only, standard_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.shapes.contrib_quantization import packed_numbers
from mansard.estimator.tensors import Node


@register("QuantizeLinear", domain=MICROSOFT, not_weights=(1, 2))
def quantize(node: Node) -> Cost:
    """As ONNX's QuantizeLinear."""
    return standard_cost(node, "QuantizeLinear")


@register("DequantizeLinear", domain=MICROSOFT, not_weights=(1, 2))
def dequantize(node: Node) -> Cost:
    """As ONNX's DequantizeLinear."""
    return standard_cost(node, "DequantizeLinear")


@register("QuantizeWithOrder", domain=MICROSOFT, not_weights=(1,))
def quantize_ordered(node: Node) -> Cost:
    """Divide, round, clamp twice: 4 operations for each element."""
    return Cost(simple=4 * node.output.n_elements)


@register("DequantizeWithOrder", domain=MICROSOFT, not_weights=(1,))
def dequantize_ordered(node: Node) -> Cost:
    """A product for each element."""
    return Cost(simple=node.output.n_elements)


@register("QuantizeBFP", domain=MICROSOFT)
def quantize_blocks(node: Node) -> Cost:
    """The largest magnitude of each block, then scale, round and clamp twice: 6 an element."""
    return Cost(simple=6 * node.input(0).n_elements)


@register("DequantizeBFP", domain=MICROSOFT, not_weights=(1, 2))
def dequantize_blocks(node: Node) -> Cost:
    """A product for each element."""
    return Cost(simple=node.output.n_elements)


_NO_WEIGHTS = tuple(range(1024))  # scales and zero points stand between the parts


@register("QLinearConcat", domain=MICROSOFT, not_weights=_NO_WEIGHTS)
def concat(node: Node) -> Cost:
    """Each element is dequantised (2) and quantised (5)."""
    return (DEQUANTIZE + QUANTIZE) * node.output.n_elements


_QUANTIZED = (1, 2, 3, 4)  # scale and zero point of the input and of the output


@register("QLinearReduceMean", domain=MICROSOFT, not_weights=_QUANTIZED)
def reduce_mean(node: Node) -> Cost:
    """Dequantise each element (2), additions and a division, quantise (5)."""
    n, n_outputs = node.input(0).n_elements, node.output.n_elements
    return DEQUANTIZE * n + Cost(simple=n) + QUANTIZE * n_outputs


@register("ReduceSumInteger", domain=MICROSOFT)
def reduce_sum(node: Node) -> Cost:
    """n elements become one by n - 1 additions."""
    return Cost(simple=max(node.input(0).n_elements - node.output.n_elements, 0))


@register("QLinearAveragePool", domain=MICROSOFT, not_weights=_QUANTIZED)
def average_pool(node: Node) -> Cost:
    """As AveragePool; the input is dequantised (2) and the output quantised (5)."""
    n_outputs = node.output.n_elements
    ends = DEQUANTIZE * node.input(0).n_elements + QUANTIZE * n_outputs
    return standard_cost(node, "AveragePool") + ends


@register("QLinearGlobalAveragePool", domain=MICROSOFT, not_weights=_QUANTIZED)
def global_average_pool(node: Node) -> Cost:
    """As GlobalAveragePool; the sum is scaled and quantised (5) for each channel."""
    return Cost(simple=node.input(0).n_elements) + QUANTIZE * node.output.n_elements


def _picked_bytes(node: Node, precision: Precision | None) -> int:
    """Of the table, its scales and zero points only what belongs to the rows picked."""
    data, n = node.input(0), node.output.n_elements
    total = data.n_elements * packed_numbers(node)
    elements = {
        place: -(-node.input(place).n_elements * n // max(total, 1))
        for place in (0, 2, 3)
        if node.has(place)
    }
    return reads_only(node, precision, elements)


def _table_elements(node: Node) -> int:
    return node.input(0).n_elements * packed_numbers(node)


@register(
    "GatherBlockQuantized",
    domain=MICROSOFT,
    not_weights=(1,),
    statistics=(2, 3),
    packed={0: _table_elements},
    reads=_picked_bytes,
)
def gather_blocks(node: Node) -> Cost:
    """What is picked is dequantised (2); it reads no more than that of the table."""
    return DEQUANTIZE * node.output.n_elements
