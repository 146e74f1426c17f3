"""Who writes and who reads each stretch of memory of one graph.

Views have no memory of their own: a name stands for a part of what another node wrote.
Everything that can be computed before data is there is stored, and only read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from mansard.core.precision import Precision
from mansard.estimator.cost import Formula
from mansard.estimator.fusion.operators import Role, find_role
from mansard.estimator.tensors import Node, Origin, Tensor

Formulas = Mapping[tuple[str, str], "Formula | None"]


class Storage:
    """A stretch of memory. ``maker`` and ``readers`` are places among the graph's live nodes.

    ``home`` is where it stands if it is a part of another one: an input of a Concat that
    is written in place.
    """

    __slots__ = ("home", "is_output", "maker", "n_bytes", "n_elements", "owner", "readers")

    def __init__(self, n_bytes: int | None, n_elements: int, owner: Wiring | None, maker: int):
        self.n_bytes, self.n_elements = n_bytes, n_elements
        self.owner, self.maker = owner, maker
        self.readers: list[int] = []
        self.is_output = False
        self.home: Storage | None = None


class Part:
    """All or a part of a storage, as a name refers to it. ``n_bytes`` None: not known."""

    __slots__ = ("n_bytes", "storage")

    def __init__(self, storage: Storage, n_bytes: int | None):
        self.storage, self.n_bytes = storage, n_bytes

    @property
    def is_whole(self) -> bool:
        return self.n_bytes == self.storage.n_bytes


class Constants:
    """What is stored with the network; one for all graphs, so that equal tensors are one."""

    def __init__(self, precision: Precision | None) -> None:
        self.precision = precision
        self._parts: dict[tuple[str, str], Part] = {}
        self._narrow: dict[str, int] = {}

    def part(self, tensor: Tensor) -> Part | None:
        """A stored tensor; None for a single number, which is compiled into the kernel."""
        key = tensor.name, tensor.weights[0].name if tensor.weights else ""
        found = self._parts.get(key)
        if found is None:
            n_bytes = self._narrow.get(tensor.name)
            if n_bytes is None:
                n_bytes = bytes_of(tensor, self.precision)
            found = Part(Storage(n_bytes, tensor.n_elements, None, -1), n_bytes)
            self._parts[key] = found
        return found if found.storage.n_elements != 1 else None

    def note(self, node: Node) -> None:
        """Remember dequantised weights: kernels read the integers and their scales."""
        if node.op_type == "DequantizeLinear" and node.outputs:
            total = sum(tensor.n_bytes(self.precision) for tensor in node.present)
            self._narrow[node.outputs[0].name] = total
        elif self._narrow and node.inputs and node.op_type in _CARRYING:
            first = node.inputs[0]
            if first is not None and first.name in self._narrow and node.outputs:
                self._narrow[node.outputs[0].name] = self._narrow[first.name]


_CARRYING = frozenset({"Transpose", "Reshape", "Identity", "Cast", "Squeeze", "Unsqueeze", "Flatten"})


def bytes_of(tensor: Tensor, precision: Precision | None) -> int | None:
    """The size of ``tensor``, or None where it is not known."""
    return None if tensor.unknown else tensor.n_bytes(precision)


class Wiring:
    """The live nodes of one graph, in order, with what they read and write.

    ``idle``: constants and views, with the part that a view refers to.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: Collection[str],
        formulas: Formulas,
        constants: Constants,
        outer: Wiring | None = None,
        inputs: Collection[str] = (),
    ) -> None:
        self.nodes: list[Node] = []
        self.roles: list[Role] = []
        self.formulas: list[Formula | None] = []
        self.reads: list[list[Part]] = []  # what is computed from data
        self.weights: list[list[Part]] = []  # what is stored
        self.writes: list[list[Part]] = []
        self.idle: list[tuple[Node, Part | None]] = []
        self.outer, self.constants = outer, constants
        self.outputs = frozenset(outputs)
        self.parts: dict[str, Part | None] = dict.fromkeys(inputs)
        self._quantized: dict[tuple[object, ...], Part] = {}
        for node in nodes:
            self._add(node, formulas[node.domain, node.op_type])
        for name in self.outputs:
            part = self.parts.get(name)
            if part is not None:
                part.storage.is_output = True

    def find(self, tensor: Tensor) -> Part:
        """The part that ``tensor`` names, here or in a graph around this one."""
        name = tensor.name
        part = self.parts.get(name)
        if part is not None:
            return part
        if self.outer is not None and name not in self.parts:
            return self.outer.find(tensor)
        part = self._new(tensor, -1)
        self.parts[name] = part
        return part

    def known(self, name: str) -> Part | None:
        """The part of that name, if there is one by now."""
        if name in self.parts or self.outer is None:
            return self.parts.get(name)
        return self.outer.known(name)

    def _new(self, tensor: Tensor, maker: int) -> Part:
        n_bytes = bytes_of(tensor, self.constants.precision)
        return Part(Storage(n_bytes, tensor.n_elements if n_bytes else 0, self, maker), n_bytes)

    def _add(self, node: Node, formula: Formula | None) -> None:
        for output in node.outputs:
            if output.origin is Origin.DATA:
                break
        else:
            self.idle.append((node, None))
            self.constants.note(node)
            return
        role = find_role(node, formula)
        if role is Role.VIEW:
            role = self._view(node)
            if role is Role.VIEW:
                return
        self._live(node, formula, role)

    def _view(self, node: Node) -> Role:
        """Let the outputs refer to the first input; else what the node has to do instead."""
        source = node.inputs[0] if node.inputs else None
        if source is None or source.origin is not Origin.DATA:
            return Role.MOVE
        whole = self.find(source)
        if node.op_type in ("Split", "Slice", "Gather"):
            if any(output.name in self.outputs for output in node.outputs):
                return Role.MOVE  # a part has to be copied out
            for output in node.outputs:
                n_bytes = bytes_of(output, self.constants.precision)
                self.parts[output.name] = Part(whole.storage, n_bytes)
            self.idle.append((node, whole))
            return Role.VIEW
        self.parts[node.outputs[0].name] = whole
        self.idle.append((node, whole))
        return Role.VIEW

    def _live(self, node: Node, formula: Formula | None, role: Role) -> None:
        place = len(self.nodes)
        reads: list[Part] = []
        weights: list[Part] = []
        for tensor in node.inputs:
            if tensor is None:
                continue
            if tensor.origin is not Origin.DATA:
                stored = self.constants.part(tensor)
                if stored is not None and stored not in weights:
                    weights.append(stored)
                continue
            part = self.find(tensor)
            if part not in reads:
                reads.append(part)
                self._read(part.storage, place)
        if role is Role.POINTWISE and node.op_type == "QuantizeLinear" and self._twin(node, reads):
            return
        for name in _captured(node):
            captured = self.known(name)
            if captured is not None:
                self._read(captured.storage, place)
        writes: list[Part] = []
        for output in node.outputs:
            if output.name and output.origin is Origin.DATA:
                part = self._new(output, place)
                self.parts[output.name] = part
                writes.append(part)
        self.nodes.append(node)
        self.roles.append(role)
        self.formulas.append(formula)
        self.reads.append(reads)
        self.weights.append(weights)
        self.writes.append(writes)

    def _read(self, storage: Storage, place: int) -> None:
        if storage.owner is self and (not storage.readers or storage.readers[-1] != place):
            storage.readers.append(place)

    def _twin(self, node: Node, reads: list[Part]) -> bool:
        """Whether the same was quantised before by the same scale: one of the two is enough."""
        if not node.outputs or node.outputs[0].name in self.outputs or len(reads) != 1:
            return False
        key = (id(reads[0]), node.outputs[0].dtype.name, *map(_number, node.inputs[1:]))
        twin = self._quantized.get(key)
        if twin is None:
            return False
        storage = reads[0].storage
        if storage.owner is self and storage.readers[-1] == len(self.nodes):
            storage.readers.pop()
        self.parts[node.outputs[0].name] = twin
        self.idle.append((node, twin))
        return True


def _number(tensor: Tensor | None) -> object:
    """A scale or zero point by its value where that is known, else by its name."""
    if tensor is None or tensor.value is None:
        return None if tensor is None else tensor.name
    return tensor.value.tobytes()


def _captured(node: Node) -> Iterator[str]:
    """Names that the graphs inside ``node`` may read from outside."""
    for body in node.bodies:
        yield from body.outputs
        for each in body.passes:
            for inner in each.nodes:
                for tensor in inner.present:
                    yield tensor.name
                yield from _captured(inner)
