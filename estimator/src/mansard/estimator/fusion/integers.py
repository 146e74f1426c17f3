"""Which nodes TensorRT's int8 kernels contain that its kernels of floats do not.

After "Explicit Quantization" in its documentation, and recorded engines of quantised ResNet-18,
ResNet-50 and MobileNetV2 (docs/understand/traffic.md).
"""

from __future__ import annotations

from collections.abc import Collection

from mansard.estimator.fusion.drafts import Drafts
from mansard.estimator.fusion.quantizers import reads_image
from mansard.estimator.fusion.storage import Draft, Kind, Part, Storage

_IN_STEM = frozenset({"BatchNormalization", "Conv", "QuantizeLinear", "Relu"})
_AVERAGE_POOLS = frozenset({"AveragePool", "GlobalAveragePool"})


def stem_of(position: int, drafts: Drafts) -> Draft | None:
    """The int8 convolution of an image that the MaxPool at ``position`` is one kernel with.

    TensorRT has this kernel, ConvActPool, for integers only (NVIDIA/TensorRT#2518).
    """
    wiring = drafts.wiring
    reads = wiring.reads[position]
    if wiring.nodes[position].op_type != "MaxPool" or not reads or reads[0].n_bits != 8:
        return None
    draft = drafts.feeding(reads[0].storage)
    if draft is None or len(draft.products) != 1 or not reads[0].is_whole:
        return None
    product = draft.products[0]
    is_stem = _IN_STEM.issuperset(wiring.nodes[member].op_type for member in draft.positions)
    if not is_stem or not reads_image(wiring.nodes[product], wiring.reads[product]):
        return None
    draft.kind = Kind.CLOSED
    return draft


def average_pool_of(position: int, drafts: Drafts) -> Draft | None:
    """The average pool of integers that writes what the quantiser at ``position`` makes."""
    wiring = drafts.wiring
    if wiring.nodes[position].op_type != "QuantizeLinear":
        return None
    for part in wiring.reads[position]:
        draft = drafts.feeding(part.storage)
        if draft is not None and draft.kind is Kind.CLOSED:
            pool = draft.positions[0]
            is_pool = wiring.nodes[pool].op_type in _AVERAGE_POOLS
            if is_pool and all(read.n_bits == 8 for read in wiring.reads[pool]):
                return draft
    return None


def adds_float(draft: Draft, result: Storage, drafts: Drafts) -> bool:
    """Whether an int8 product adds a tensor of floats, so that its result is floats, too.

    The precision of that addend and of the result are the same.
    """
    return _is_integer_product(draft, drafts) and any(
        part.n_bits is None and _is_addend(part, result, draft, drafts) for part in draft.parts
    )


def dequantised_addends(draft: Draft, drafts: Drafts) -> Collection[Part]:
    """Integers that an int8 product adds to a result of floats.

    For the same reason as in ``adds_float`` a kernel of its own dequantises them.
    """
    wiring, result = drafts.wiring, draft.result
    if result is None or not _is_integer_product(draft, drafts):
        return ()
    written = wiring.writes[draft.position]
    is_float = wiring.nodes[draft.position].output.dtype.is_float
    if len(written) != 1 or written[0].n_bits is not None or not is_float:
        return ()
    return dict.fromkeys(
        part
        for position in draft.positions
        if position not in draft.products
        for part in wiring.reads[position]
        if part.n_bits == 8 and _is_addend(part, result, draft, drafts)
    )


def _is_addend(part: Part, result: Storage, draft: Draft, drafts: Drafts) -> bool:
    """Whether ``part`` has the size of the result and comes from another kernel."""
    is_own = drafts.maker_of(part.storage) is draft
    return part.storage.n_elements == result.n_elements and not is_own


def _is_integer_product(draft: Draft, drafts: Drafts) -> bool:
    wiring = drafts.wiring
    return draft.kind is Kind.PRODUCT and all(
        part.n_bits == 8 for product in draft.products for part in wiring.reads[product]
    )
