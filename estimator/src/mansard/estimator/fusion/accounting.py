"""What each group reads and writes: what comes from outside it, and what leaves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.caches import ATTENTION
from mansard.estimator.fusion.drafts import Drafts
from mansard.estimator.fusion.roles import Role
from mansard.estimator.fusion.storage import Draft, Kind, Part, Storage
from mansard.estimator.fusion.wiring import Wiring
from mansard.estimator.tensors import Node, Tensor, raising_model_error

Access = tuple[Storage, int]  # and how many bytes of it


class FusedGroup(msgspec.Struct, frozen=True, eq=False):
    """Nodes that run as one kernel.

    ``head`` is the index of the heaviest. Each storage is read and written once, save
    ``again_bytes``: what an attention reads of its keys and values over and over, of
    ``again_span_bytes`` in all. ``bodies`` are the graphs inside its one node.
    ``is_known`` is False where a size or what the operator touches is not known.
    """

    head: int
    indexes: tuple[int, ...]
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    again_bytes: int = 0
    again_span_bytes: int = 0
    bodies: tuple[BodyGroups, ...] = ()
    is_known: bool = True

    @property
    def read_bytes(self) -> int:
        return sum(n_bytes for _, n_bytes in self.reads) + self.again_bytes

    @property
    def write_bytes(self) -> int:
        return sum(n_bytes for _, n_bytes in self.writes)


class Fusion(msgspec.Struct, frozen=True, eq=False):
    """The groups of one graph in the order they run, and the ``wiring`` they come from.

    ``idle``: nodes that move nothing, by index, with the head of the group whose result
    they show; constants with their own.
    """

    groups: tuple[FusedGroup, ...]
    idle: dict[int, int]
    wiring: Wiring


class PassGroups(msgspec.Struct, frozen=True, eq=False):
    """One pass of a body and what is handed in and on.

    ``enter``, ``again`` and ``leave`` are pairs of storages (from, to): at the first
    iteration, between two, and after the last.
    """

    fusion: Fusion
    times: int
    enter: tuple[tuple[Storage, Storage], ...]
    again: tuple[tuple[Storage, Storage], ...]
    leave: tuple[tuple[Storage, Storage], ...]


class BodyGroups(msgspec.Struct, frozen=True, eq=False):
    """A graph inside a node."""

    passes: tuple[PassGroups, ...]
    is_taken: bool


# Tensors written into another one: inputs of a Concat, scatters in place.


_IN_PLACE = (Role.JOIN, Role.SCATTER)


def find_aliases(drafts: Drafts) -> None:
    """Give every storage that can be a part of another one its parent.

    TensorRT's builder says it for each input of a concatenation: it is retargeted, or
    copied because it has another reader, comes from outside or is a view itself.
    """
    wiring = drafts.wiring
    for position, role in enumerate(wiring.roles):
        if wiring.nodes[position].index in wiring.constants.in_place:
            _join_caches(position, wiring)
        if role not in _IN_PLACE or not wiring.writes[position]:
            continue
        node, made = wiring.nodes[position], wiring.writes[position][0].storage
        if role is Role.SCATTER:
            tensor = node.optional(0)
            data = wiring.parts.get(tensor.name) if tensor is not None else None
            if data is not None and _is_movable(data, position, drafts):
                made.parent = data.storage
        elif drafts.draft_of[position].kind is Kind.CLOSED:
            times = Counter([wiring.parts.get(tensor.name) for tensor in node.present])
            for part in wiring.reads[position]:
                if times[part] == 1 and _is_movable(part, position, drafts):
                    part.storage.parent = made


def _join_caches(position: int, wiring: Wiring) -> None:
    """A cache that grows in place is a part of what it becomes."""
    node = wiring.nodes[position]
    places = ATTENTION.get((node.domain, node.op_type))
    pairs = places.pairs if places is not None else [(at, 0) for at in range(len(node.inputs))]
    for at, out in pairs:
        tensor = node.optional(at)
        if tensor is None or tensor.name not in wiring.constants.in_place[node.index]:
            continue
        part, made = wiring.known(tensor.name), wiring.known(node.output_names[out])
        if part is None or made is None or not part.is_whole or part.storage is made.storage:
            continue
        if part.storage.parent is None:
            part.storage.parent = made.storage


def grown_bytes(
    node: Node, precision: Precision | None, in_place: Collection[str]
) -> dict[str, int]:
    """Bytes of an attention's outputs that are in place already, by the output's name."""
    there: dict[str, int] = {}
    for at, out in ATTENTION[node.domain, node.op_type].pairs:
        past = node.optional(at)
        if past is not None and past.name in in_place and node.outputs[out].name:
            past_bytes, n_bytes = past.n_bytes(precision), node.outputs[out].n_bytes(precision)
            # One that is as long as before is a buffer, whose new rows alone are written anyway.
            there[node.outputs[out].name] = past_bytes if past_bytes < n_bytes else 0
    return there


def root_storage(storage: Storage) -> Storage:
    """The storage that ``storage`` is a part of in the end."""
    passed = []
    while storage.parent is not None:
        passed.append(storage)
        storage = storage.known_root or storage.parent
    for below in passed:  # so that a long chain of Concats is not walked for each of them
        below.known_root = storage
    return storage


def _is_movable(part: Part, position: int, drafts: Drafts) -> bool:
    storage = part.storage
    maker = drafts.maker_of(storage)
    return (
        maker is not None
        and part.is_whole
        and storage.readers == [position]
        and not storage.is_kept
        and storage.parent is None
        and not _is_bound(maker, drafts)
    )


def _is_bound(maker: Draft, drafts: Drafts) -> bool:
    """Whether its results are where others have put them.

    Merged products write one tensor; what a loop or a branch returns is written inside.
    """
    if maker.kind is Kind.PRODUCT:
        return maker.result is None
    return drafts.wiring.roles[maker.positions[0]] is Role.FREE


# How often an attention kernel reads its keys and values.
#
# Flash attention works on blocks of Br rows of the queries and passes all keys and values
# for each. With d elements a head and w bytes an element (LLM-Viewer, arXiv:2402.16363):
#
#     Br = min(⌈buffer / (w · d)⌉, d),  n = ⌈s_q / Br⌉


Operands = tuple[Tensor, Tensor, Tensor]  # queries, keys, values


def rereads(
    draft: Draft, drafts: Drafts, buffer_bytes: int, precision: Precision | None
) -> tuple[int, int]:
    """Bytes of keys and values that are read after the first time, and their bytes at all."""
    nodes = drafts.wiring.nodes
    whole = (nodes[position] for position in draft.positions)
    head = next((node for node in whole if (node.domain, node.op_type) == ("", "Attention")), None)
    if head is None and draft.kind is Kind.ATTENTION and draft.products:
        scores, weighted = (nodes[position] for position in sorted(draft.products))
        operands = scores.input(0), scores.input(1), weighted.input(1)
        if operands[0].rank < 2:
            return 0, 0
        n_rows, width = operands[0].shape[-2:]
    elif head is not None:
        operands = head.input(0), head.input(1), head.input(2)
        n_rows, width = _rows(head, operands[0])
    else:
        return 0, 0
    keys, values = operands[1:]
    element_bytes = max(keys.dtype.width_bits(precision) // 8, 1)
    block = max(min(-(-buffer_bytes // (element_bytes * max(width, 1))), width), 1)
    span_bytes = keys.n_bytes(precision) + values.n_bytes(precision)
    return (-(-n_rows // block) - 1) * span_bytes if n_rows else 0, span_bytes


def _rows(node: Node, queries: Tensor) -> tuple[int, int]:
    """Rows of the queries and elements of a head."""
    if queries.rank == 4:
        return queries.shape[2], queries.shape[3]
    return queries.shape[1], queries.shape[2] // max(node.integer("q_num_heads", 1), 1)


_WEIGHT_OF = {Role.PRODUCT: 3, Role.SOLID: 2, Role.ROW: 1}
_BIAS = 2  # the input that holds it, of Conv, ConvTranspose and Gemm

Amounts = dict[Part, int]


def account(draft: Draft, drafts: Drafts) -> FusedGroup:
    """The finished group of ``draft``, once nothing is merged any more."""
    wiring = drafts.wiring
    precision, buffer_bytes = wiring.constants.precision, wiring.constants.buffer_bytes
    nodes, roles = wiring.nodes, wiring.roles
    positions = sorted(draft.positions)
    head = positions[0]
    if len(positions) > 1:
        head = max(positions, key=lambda position: (_WEIGHT_OF.get(roles[position], 0), -position))
    indexes = tuple([nodes[position].index for position in positions])
    if not wiring.unknown.isdisjoint(positions):
        return FusedGroup(nodes[head].index, indexes, is_known=False)
    if roles[head] is Role.FREE:
        return FusedGroup(nodes[head].index, indexes)
    reads: Amounts = {}
    writes: Amounts = {}
    for position in positions:
        if position in wiring.special:
            reads.update(_read_amounts(position, draft, drafts, precision))
            writes.update(_written_amounts(position, draft, drafts, precision))
        else:
            _add_plain(position, draft, drafts, reads, writes)
    again = (0, 0)
    if buffer_bytes is not None:
        again = rereads(draft, drafts, buffer_bytes, precision)
    return FusedGroup(nodes[head].index, indexes, _accesses(reads), _accesses(writes), *again)


def _add_plain(
    position: int, draft: Draft, drafts: Drafts, reads: Amounts, writes: Amounts
) -> None:
    """All that an ordinary operator reads from outside, and what leaves the group."""
    wiring = drafts.wiring
    for parts in (wiring.reads[position], wiring.weights[position]):
        for part in parts:
            if part.storage.maker is not draft:
                reads[part] = part.n_bytes or 0
    for part in wiring.writes[position]:
        if _leaves(part.storage, draft, drafts):
            writes[part] = part.n_bytes or 0


def _read_amounts(
    position: int, draft: Draft, drafts: Drafts, precision: Precision | None
) -> Iterable[tuple[Part, int]]:
    wiring = drafts.wiring
    operator, role = wiring.operators[position], wiring.roles[position]
    node = wiring.nodes[position]
    stored = wiring.weights[position]
    amounts = {part: part.n_bytes or 0 for part in wiring.reads[position]}
    if operator is not None and operator.reads is not None:
        amounts.update((part, part.n_bytes or 0) for part in stored)
        _touch_less(amounts, _untouched(operator.reads, node, precision, node.distinct))
    elif role is Role.JOIN or role is Role.SCATTER:
        there = _parts_in_place(position, wiring)
        amounts = {
            part: n_bytes
            for part, n_bytes in amounts.items()
            if part not in there and not _stands_with(part.storage, position, drafts)
        }
        amounts.update((part, part.n_bytes or 0) for part in stored)
    else:
        if node.op_type == "BatchNormalization":
            stored = stored[: _vectors_left(draft, drafts)]
        amounts.update((part, part.n_bytes or 0) for part in stored)
    return [(part, n) for part, n in amounts.items() if part.storage.maker is not draft]


def _parts_in_place(position: int, wiring: Wiring) -> list[Part | None]:
    """Caches that grow in place in this node, as it reads them."""
    names = wiring.constants.in_place.get(wiring.nodes[position].index, ())
    return [wiring.known(name) for name in names]


def _stands_with(storage: Storage, position: int, drafts: Drafts) -> bool:
    """Whether a Concat's or scatter's input is in the memory of its output already."""
    writes = drafts.wiring.writes[position]
    made = writes[0].storage if writes else None
    return made is not None and (storage.parent is made or made.parent is storage)


def _vectors_left(draft: Draft, drafts: Drafts) -> int:
    """Of a batch normalisation's four: a factor and a summand; behind a product the summand.

    The factor is in the product's weights then, and the summand in its bias if it has one.
    """
    if draft.kind is not Kind.PRODUCT:
        return 2
    return 0 if drafts.wiring.nodes[draft.products[0]].has(_BIAS) else 1


def _written_amounts(
    position: int, draft: Draft, drafts: Drafts, precision: Precision | None
) -> Iterable[tuple[Part, int]]:
    wiring = drafts.wiring
    made = {
        part: part.n_bytes or 0
        for part in wiring.writes[position]
        if _leaves(part.storage, draft, drafts)
    }
    operator, role = wiring.operators[position], wiring.roles[position]
    node = wiring.nodes[position]
    if operator is not None and operator.writes is not None:
        _touch_less(made, _untouched(operator.writes, node, precision, node.outputs))
    elif role is Role.JOIN:
        caches = _parts_in_place(position, wiring)
        there = (
            part
            for part in wiring.reads[position]
            if part in caches or _stands_with(part.storage, position, drafts)
        )
        _touch_less(made, sum(part.n_bytes or 0 for part in there))
    elif role is Role.SCATTER:
        for part, n_bytes in made.items():
            if part.storage.parent is not None or _parts_in_place(position, wiring):
                made[part] = min(node.input(2).n_bytes(precision), n_bytes)
    if (node.domain, node.op_type) in ATTENTION:
        in_place = wiring.constants.in_place.get(node.index, frozenset())
        for name, n_bytes in grown_bytes(node, precision, in_place).items():
            grown = wiring.known(name)
            if grown is not None and grown in made:
                made[grown] = max(made[grown] - n_bytes, 0)
    return made.items()


def _leaves(storage: Storage, draft: Draft, drafts: Drafts) -> bool:
    """Whether anything but ``draft`` needs ``storage``; what is never read is written too."""
    readers = storage.readers
    if storage.is_kept or not readers:
        return True
    draft_of = drafts.draft_of
    if len(readers) == 1:
        return draft_of[readers[0]] is not draft
    return any(draft_of[reader] is not draft for reader in readers)


def _untouched(
    touched: Callable[[Node, Precision | None], int],
    node: Node,
    precision: Precision | None,
    tensors: Iterable[Tensor],
) -> int:
    """Bytes of ``tensors`` that the operator leaves alone."""
    whole = sum(tensor.n_bytes(precision) for tensor in tensors if tensor.name)
    return max(whole - raising_model_error(touched, node, precision), 0)


def _touch_less(amounts: Amounts, n_bytes: int) -> None:
    """Take ``n_bytes`` off the largest amounts."""
    for part in sorted(amounts, key=amounts.__getitem__, reverse=True):
        taken = min(amounts[part], n_bytes)
        amounts[part] -= taken
        n_bytes -= taken


def _accesses(amounts: Amounts) -> tuple[Access, ...]:
    """Parts of one storage together; no more of it than it has, as they may overlap."""
    n_bytes_of: dict[Storage, int] = {}
    for part, n_bytes in amounts.items():
        storage = part.storage
        if storage.parent is not None:
            storage = root_storage(storage)
        if storage in n_bytes_of:
            n_bytes_of[storage] = min(n_bytes_of[storage] + n_bytes, storage.n_bytes or 0)
        elif n_bytes:
            n_bytes_of[storage] = n_bytes
    return tuple(n_bytes_of.items())
