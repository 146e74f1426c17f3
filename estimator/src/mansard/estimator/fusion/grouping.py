"""Which nodes of a graph become one kernel: one pass over them in the order they run.

A node joins the group that feeds it where that group's one result has no other reader.
So every group has one result, stands where its last node stands, and can never wait
for itself. Forks are joined as a whole (``closing_region``).

What TensorRT's int8 kernels contain, and its kernels of floats do not, follows "Explicit
Quantization" in its documentation, and recorded engines of quantised ResNet-18, ResNet-50 and
MobileNetV2 (docs/understand/traffic.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heappop, heappush

from mansard.estimator.fusion.drafts import Drafts, attention_of, close_attention, last_of
from mansard.estimator.fusion.roles import Role, reads_image
from mansard.estimator.fusion.storage import Draft, Kind, Part, Storage
from mansard.estimator.fusion.wiring import Wiring

MAX_NODES = 32  # of a fork; a rotary embedding takes 8, a spelled-out norm 9, tanh-GELU 8
MAX_READERS = 8  # a tensor with more readers is not that of an activation


def closing_region(
    start: Storage, wiring: Wiring, is_fusible: Callable[[int], bool]
) -> list[int] | None:
    """The positions of all nodes between ``start`` and where its paths have met, or None.

    SiLU, GELU, Mish, HardSwish, softmax and norms that are written as several operators are
    such forks that close again; no table of their spellings is needed.

    Nodes are followed in the order they run; a fusible one has a single output. Nothing
    of the region but its last result may be read outside it.
    """
    if len(start.readers) > MAX_READERS:
        return None
    heap = sorted(start.readers)
    unread = {start: len(heap)}  # how many later readers each tensor has
    region: list[int] = []
    while heap:
        position = heappop(heap)
        if region and position == region[-1]:
            continue
        if len(region) == MAX_NODES or not is_fusible(position):
            return None
        region.append(position)
        _count_off(unread, {part.storage for part in wiring.reads[position]})
        if not unread:
            return region
        made = wiring.writes[position][0].storage
        if made.is_kept or not made.readers:
            return None
        unread[made] = len(made.readers)
        for reader in made.readers:
            heappush(heap, reader)
    return None


def _count_off(unread: dict[Storage, int], read: set[Storage]) -> None:
    for storage in read & unread.keys():
        unread[storage] -= 1
        if not unread[storage]:
            del unread[storage]


_CONVERTERS = frozenset({"Cast", "QuantizeLinear"})
_MOVING = frozenset({Role.MOVE, Role.JOIN})

Feeding = list[tuple[Storage, Draft]]


def group_nodes(wiring: Wiring) -> Drafts:
    """The groups of all live nodes."""
    drafts = Drafts(wiring)
    planned = drafts.planned
    for position, role in enumerate(wiring.roles):
        draft = planned.pop(position, None)
        if draft is not None:
            draft = _absorb_maps(position, last_of(draft), _feeding(position, drafts), drafts)
            if role in _MOVING:
                draft.kind = max(draft.kind, Kind.MOVE)
        elif role is Role.POINTWISE:
            draft = _pointwise_group(position, drafts)
        elif role is Role.PRODUCT:
            draft = _product_group(position, drafts)
        elif role is Role.ROW:
            draft = _row_group(position, drafts)
        elif role is Role.MOVE or (role is Role.JOIN and _is_roll(position, wiring)):
            draft = _move_group(position, drafts)
        else:
            draft = (
                attention_of(position, drafts) or stem_of(position, drafts) or Draft(Kind.CLOSED)
            )
        drafts.add(position, draft)
        result = draft.result
        if result is not None and draft.kind is not Kind.CLOSED and len(result.readers) > 1:
            _plan_fork(result, draft, drafts)
    return drafts


def _feeding(position: int, drafts: Drafts) -> Feeding:
    """The groups that this node alone goes on with, and what they give it."""
    feeding: Feeding = []
    for part in drafts.wiring.reads[position]:
        if part.n_bits is None:  # what is quantised is written so
            draft = drafts.feeding(part.storage)
            if draft is not None and draft.kind is not Kind.CLOSED:
                feeding.append((part.storage, draft))
    return feeding


def _pointwise_group(position: int, drafts: Drafts) -> Draft:
    """The latest group that can go on with this node; a product or row before a map."""
    feeding = _feeding(position, drafts)
    best: Draft | None = average_pool_of(position, drafts)
    for storage, draft in feeding:
        if _can_go_on(position, storage, draft, drafts) and (
            best is None or _rank(draft) > _rank(best)
        ):
            best = draft
    return _absorb_maps(position, best or Draft(Kind.POINTWISE), feeding, drafts)


def _rank(draft: Draft) -> tuple[bool, int]:
    return draft.kind > Kind.MOVE, draft.position


def _can_go_on(position: int, storage: Storage, draft: Draft, drafts: Drafts) -> bool:
    """Whether the kernel that makes ``storage`` can apply this node to it."""
    wiring = drafts.wiring
    if draft.kind <= Kind.MOVE:
        # TensorRT converts what was only moved in a kernel of its own.
        return draft.kind is Kind.POINTWISE or wiring.nodes[position].op_type not in _CONVERTERS
    if wiring.nodes[position].op_type == "QuantizeLinear" and adds_float(draft, storage, drafts):
        return False
    writes = wiring.writes[position]
    n_written = writes[0].storage.n_elements if len(writes) == 1 else -1
    if n_written == storage.n_elements:
        return True
    # A row's sum may meet the row that it was made of.
    if draft.kind is not Kind.ROW or n_written > draft.span:
        return False
    return any(
        part in draft.parts and part.storage.n_elements == n_written
        for part in wiring.reads[position]
    )


def _absorb_maps(position: int, draft: Draft, feeding: Feeding, drafts: Drafts) -> Draft:
    """Take in what only this node reads, where it is computed element by element."""
    if len(feeding) < 2 and draft.positions:
        return draft
    if drafts.wiring.nodes[position].op_type in _CONVERTERS:
        return draft
    most = Kind.POINTWISE if draft.kind >= Kind.PRODUCT else Kind.MOVE
    for _, other in feeding:
        if other.kind <= most and other.merged_into is None:
            draft = drafts.merge(draft, other)
    return draft


def _move_group(position: int, drafts: Drafts) -> Draft:
    """Moves follow maps; a permutation is how a row or attention writes its result."""
    nodes = drafts.wiring.nodes
    is_permuting = nodes[position].op_type in ("Concat", "Transpose")
    for _, draft in _feeding(position, drafts):
        if draft.kind <= Kind.MOVE and nodes[draft.position].op_type not in _CONVERTERS:
            draft.kind = Kind.MOVE
            return draft
        if draft.kind in (Kind.ROW, Kind.ATTENTION) and is_permuting:
            return draft
    return Draft(Kind.MOVE)


def _is_roll(position: int, wiring: Wiring) -> bool:
    """Whether a Concat puts the parts of one tensor together in another order."""
    parts = wiring.reads[position]
    storages = {part.storage for part in parts}
    return len(storages) == 1 and len(parts) > 1 and not wiring.weights[position]


def _row_group(position: int, drafts: Drafts) -> Draft:
    draft = Draft(Kind.ROW)
    for _, other in _feeding(position, drafts):
        if other.kind <= Kind.MOVE:
            draft = drafts.merge(draft, other)
    draft.kind = Kind.ROW
    return draft


def _product_group(position: int, drafts: Drafts) -> Draft:
    """A product reads its operands permuted, broadcast or padded; or it closes an attention."""
    draft = close_attention(position, drafts) or Draft(Kind.PRODUCT)
    nodes = drafts.wiring.nodes
    node = nodes[position]
    taken = ("Pad",) if "Conv" in node.op_type else ("Transpose", "Expand")
    for _, other in _feeding(position, drafts):
        if other.kind is not Kind.MOVE or len(other.positions) != 1:
            continue
        maker = nodes[other.position]
        is_direct = any(tensor.name == maker.outputs[0].name for tensor in node.present)
        if is_direct and maker.op_type in taken:
            draft = drafts.merge(draft, other)
    return draft


def _plan_fork(start: Storage, draft: Draft, drafts: Drafts) -> None:
    """If all that reads ``start`` meets again, let all of it join ``draft``."""
    planned = drafts.planned
    if start.is_kept or start.readers[0] in planned:
        return
    wiring = drafts.wiring
    roles, writes = wiring.roles, wiring.writes
    is_strict = draft.kind >= Kind.PRODUCT
    size = start.n_elements

    def is_fusible(position: int) -> bool:
        role = roles[position]
        if (role > Role.ROW and role is not Role.JOIN) or position in planned:
            return False
        if len(writes[position]) != 1:
            return False
        n_elements = writes[position][0].storage.n_elements
        if is_strict:
            return role is Role.POINTWISE and n_elements == size
        return n_elements <= size

    region = closing_region(start, wiring, is_fusible)
    if region is None:
        return
    planned.update(dict.fromkeys(region, draft))
    if any(roles[position] is Role.ROW for position in region):
        draft.kind = max(draft.kind, Kind.ROW)


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
