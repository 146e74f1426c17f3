"""Which nodes of one graph write and read each storage.

Views have no memory of their own: a name stands for a part of what another node wrote.
Everything that can be computed before data is there is stored, and only read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from math import prod

from msgspec.structs import replace

from mansard.core.precision import Precision
from mansard.estimator.caches import InPlaceInputs
from mansard.estimator.fusion.roles import (
    Role,
    actual_role,
    find_quantizers,
    parameters,
    reads_image,
    usual_role,
)
from mansard.estimator.fusion.storage import Part, Storage
from mansard.estimator.operators.registry import Operator, Operators
from mansard.estimator.tensors import Node, Origin, Tensor

_PARTITIONING = frozenset({"Gather", "Slice", "Split"})
# Operators that TensorRT moves in front of a dequantisation: they work on integers.
_COMMUTING = frozenset(
    {"Concat", "DepthToSpace", "Expand", "Gather", "MaxPool", "Pad", "Slice", "SpaceToDepth"}
    | {"Tile", "Transpose"}
)
_IN_PLACE = (Role.JOIN, Role.SCATTER)
_DATA = Origin.DATA


# Operators that keep dequantised weights as the integers of the file.
_CARRYING = frozenset(
    {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
_FLOAT_BITS = 32  # TensorRT's int8 kernels for images write int8 or these, whatever the precision
_MAX_SETTINGS = 16  # integers that an operator takes as its axes, pads, sizes, …


class Constants:
    """Constants of the network; shared by all graphs, so that equal tensors are one.

    It also holds what is the same for all graphs: ``precision`` and ``buffer_bytes``, see
    ``fuse``.
    """

    def __init__(
        self,
        precision: Precision | None,
        buffer_bytes: int | None = None,
        in_place: InPlaceInputs | None = None,
    ) -> None:
        self.precision, self.buffer_bytes = precision, buffer_bytes
        self.in_place: InPlaceInputs = in_place or {}
        self._by_tensor: dict[int, Part | None] = {}
        self._by_name: dict[tuple[str, str], Part | None] = {}
        self._narrow_bytes: dict[str, int] = {}

    def part(self, tensor: Tensor) -> Part | None:
        """The part of a stored tensor; None for numbers that are compiled into the kernel."""
        key = id(tensor)  # its node keeps it
        if key in self._by_tensor:
            return self._by_tensor[key]
        name = tensor.name, tensor.weights[0].name if tensor.weights else ""
        if name not in self._by_name:
            self._by_name[name] = self._new(tensor)
        self._by_tensor[key] = self._by_name[name]
        return self._by_tensor[key]

    def _new(self, tensor: Tensor) -> Part | None:
        n_bytes = self._narrow_bytes.get(tensor.name)
        if tensor.unknown:
            return Part(Storage(None, 0), None)
        n_elements = tensor.n_elements
        is_setting = n_elements <= _MAX_SETTINGS and tensor.dtype.name in ("int64", "int32")
        if n_elements == 1 or (is_setting and n_bytes is None):
            return None
        if n_bytes is None:
            n_bytes = tensor.n_bytes(self.precision)
        return Part(Storage(n_bytes, n_elements), n_bytes)

    def note(self, node: Node) -> None:
        """Note dequantised weights: kernels read the integers and their scales."""
        if node.op_type == "DequantizeLinear" and node.outputs:
            total = sum(tensor.n_bytes(self.precision) for tensor in node.present)
            self._narrow_bytes[node.outputs[0].name] = total
        elif self._narrow_bytes and node.op_type in _CARRYING and node.inputs and node.outputs:
            first = node.inputs[0]
            if first is not None and first.name in self._narrow_bytes:
                self._narrow_bytes[node.outputs[0].name] = self._narrow_bytes[first.name]


class Wiring:
    """The live nodes of one graph by their position in its order, with what they read and write.

    ``idle``: constants and views, with the part that a view refers to. ``unknown``:
    positions that touch a tensor of unknown size, or whose operator has no formula.
    ``special``: those that do not read and write just all of their tensors.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: Collection[str],
        operators: Operators,
        constants: Constants,
        outer: Wiring | None = None,
        inputs: Collection[str] = (),
    ) -> None:
        self.nodes: list[Node] = []
        self.roles: list[Role] = []
        self.operators: list[Operator | None] = []
        self.reads: list[list[Part]] = []  # what is computed from data
        self.weights: list[list[Part]] = []  # what is stored
        self.writes: list[list[Part]] = []
        self.unknown: set[int] = set()
        self.special: set[int] = set()
        self.idle: list[tuple[Node, Part | None]] = []
        self.outer, self.constants = outer, constants
        self._precision = constants.precision
        self._widths: dict[str, int] = {}
        self.outputs = frozenset(outputs)
        self.parts: dict[str, Part | None] = dict.fromkeys(inputs)
        self._local: set[Storage] = set()  # this graph's own, if there is one around it
        self._quantized: dict[tuple[object, ...], Part] = {}
        self._moved: dict[int, tuple[Node, Part]] = {}  # quantisers that run earlier, as copies
        self._wide: set[Part] = set()  # of an int8 convolution of an image
        roles = {key: usual_role(*key, operator) for key, operator in operators.items()}
        self._returned = _seen_through(nodes, roles, self.outputs)
        inside = (name for node in nodes if node.bodies for name in names_read_inside(node))
        quantizers = find_quantizers(nodes, roles, chain(self.outputs, inside))
        self._raw = quantizers.raw
        self._early = {quantizer.index for quantizer in quantizers.early.values()}
        for node in nodes:
            runs, quantizer = node, quantizers.early.get(node.index)
            if quantizer is not None:
                key = quantizer.domain, quantizer.op_type
                runs = self._quantize_before(node, quantizer, operators[key], roles[key])
            key = node.domain, node.op_type
            self._add(runs, operators[key], roles[key])
        live = {node.index for node in self.nodes} if self._moved else set()
        self.idle += [moved for index, moved in self._moved.items() if index not in live]
        for name in self.outputs:
            part = self.parts.get(name)
            if part is not None:
                part.storage.is_kept = part.storage.is_output = True

    def find(self, tensor: Tensor) -> Part:
        """The part that ``tensor`` names, here or in a graph around this one."""
        name = tensor.name
        part = self.parts.get(name)
        if part is not None:
            return part
        if self.outer is not None and name not in self.parts:
            return self.outer.find(tensor)
        # An engine's inputs keep their type: a quantiser of the network's own reads that.
        is_raw = self.outer is None and name in self._raw
        part = self.parts[name] = self._new(tensor, None, tensor.dtype.n_bits if is_raw else None)
        return part

    def known(self, name: str) -> Part | None:
        """The part of that name, if it exists already."""
        if name in self.parts or self.outer is None:
            return self.parts.get(name)
        return self.outer.known(name)

    def owns(self, storage: Storage) -> bool:
        """Whether ``storage`` belongs to this graph, not to one around it."""
        return self.outer is None or storage in self._local

    def _new(self, tensor: Tensor, n_bits: int | None, stored_bits: int | None = None) -> Part:
        n_bytes, n_elements = self._size(tensor, stored_bits or n_bits), 0
        if n_bytes is not None and tensor.items is None:
            n_elements = prod(tensor.shape)
        storage = Storage(n_bytes, n_elements)
        if self.outer is not None:
            self._local.add(storage)
        return Part(storage, n_bytes, n_bits)

    def _size(self, tensor: Tensor, n_bits: int | None) -> int | None:
        if tensor.unknown:
            return None
        if tensor.items is not None:
            return tensor.n_bytes(self._precision)
        width = n_bits or self._widths.get(tensor.dtype.name)
        if width is None:
            width = self._widths[tensor.dtype.name] = tensor.dtype.width_bits(self._precision)
        return (prod(tensor.shape) * width + 7) // 8

    def _quantize_before(
        self, node: Node, quantizer: Node, operator: Operator | None, role: Role
    ) -> Node:
        """``node`` with its inputs quantised by copies of ``quantizer``."""
        made: dict[str, Tensor] = {}
        for source in node.distinct:
            name = f"{source.name}\0{node.index}"  # no other tensor is called so
            narrow = made[source.name] = replace(source, name=name, dtype=quantizer.output.dtype)
            inputs = (source, *quantizer.inputs[1:])
            copy = replace(quantizer, inputs=inputs, outputs=(narrow,))
            self._add(copy, operator, role)
            part = self.find(narrow)
            part.n_bits = narrow.dtype.n_bits
            self._moved[quantizer.index] = quantizer, part
        return replace(node, inputs=tuple(made[tensor.name] for tensor in node.present))

    def _add(self, node: Node, operator: Operator | None, role: Role) -> None:
        for output in node.outputs:
            if output.origin is _DATA:
                break
        else:
            self.idle.append((node, None))
            self.constants.note(node)
            return
        if role is Role.MOVE or role is Role.ROW:
            role = actual_role(node, role)
        if role is Role.VIEW:
            if self._refer(node):
                return
            role = Role.MOVE
        self._live(node, operator, role)

    def _refer(self, node: Node) -> bool:
        """Make the outputs views of the first input, unless they must be copied out of it."""
        source = node.inputs[0] if node.inputs else None
        if source is None or source.origin is not _DATA or not node.outputs:
            return False
        whole = self.find(source)
        if node.op_type in _PARTITIONING:
            is_returned = any(output.name in self._returned for output in node.outputs)
            if is_returned and node.index not in self.constants.in_place:
                return False
            for output in node.outputs:
                n_bytes = self._size(output, whole.n_bits)
                self.parts[output.name] = Part(whole.storage, n_bytes, whole.n_bits)
        else:
            if node.op_type == "DequantizeLinear":
                whole.n_bits = source.dtype.n_bits
            self.parts[node.outputs[0].name] = whole
        self.idle.append((node, whole))
        return True

    def _live(self, node: Node, operator: Operator | None, role: Role) -> None:
        position = len(self.nodes)
        reads, weights = self._read_all(node, position)
        if node.op_type == "QuantizeLinear" and self._is_needless(node, reads):
            return
        if node.bodies:
            self._read_inside(node, position)
        writes = self._write_all(node, role, reads)
        if node.op_type == "QuantizeLinear" and len(reads) == 1 and writes:
            self._quantized[_quantizer(node, reads[0])] = writes[0]
        if operator is None:
            self.unknown.add(position)
        elif (
            role in _IN_PLACE
            or operator.reads is not None
            or operator.writes is not None
            or node.op_type == "BatchNormalization"
            or node.index in self.constants.in_place
        ):
            self.special.add(position)
        for part in chain(reads, weights, writes):
            if part.n_bytes is None:
                self.unknown.add(position)
        self.nodes.append(node)
        self.roles.append(role)
        self.operators.append(operator)
        self.reads.append(reads)
        self.weights.append(weights)
        self.writes.append(writes)

    def _read_all(self, node: Node, position: int) -> tuple[list[Part], list[Part]]:
        reads: dict[Part, None] = {}
        weights: dict[Part, None] = {}
        for tensor in node.inputs:
            if tensor is None:
                continue
            if tensor.origin is _DATA:
                part = self.parts.get(tensor.name) or self.find(tensor)
                if part not in reads:
                    reads[part] = None
                    self._read(part.storage, position)
            else:
                stored = self.constants.part(tensor)
                if stored is not None:
                    weights[stored] = None
        return list(reads), list(weights)

    def _write_all(self, node: Node, role: Role, reads: list[Part]) -> list[Part]:
        n_bits = reads[0].n_bits if reads and node.op_type in _COMMUTING else None
        if n_bits is not None and any(part.n_bits is None for part in reads):
            n_bits = None
        is_wide = reads_image(node, reads) or (
            role is Role.POINTWISE and len(reads) == 1 and reads[0] in self._wide
        )
        writes: list[Part] = []
        for output in node.outputs:
            if output.name and output.origin is _DATA:
                stored_bits = _FLOAT_BITS if is_wide and output.dtype.is_float else None
                made = self.parts[output.name] = self._new(output, n_bits, stored_bits)
                writes.append(made)
        if is_wide:
            self._wide.update(writes)
        return writes

    def _read(self, storage: Storage, position: int) -> None:
        # A tensor of an outer graph is read there, by the node that contains this graph.
        if self.outer is not None and storage not in self._local:
            return
        readers = storage.readers
        if not readers or readers[-1] != position:
            readers.append(position)

    def _read_inside(self, node: Node, position: int) -> None:
        for name in names_read_inside(node):
            captured = self.known(name)
            if captured is not None:
                self._read(captured.storage, position)

    def _is_needless(self, node: Node, reads: list[Part]) -> bool:
        """Whether a QuantizeLinear is redundant: its result exists already."""
        if not node.outputs or node.outputs[0].name in self.outputs or len(reads) != 1:
            return False
        source = reads[0]
        made = (
            source if source.n_bits is not None else self._quantized.get(_quantizer(node, source))
        )
        if made is None:
            return False
        readers = source.storage.readers
        if readers and readers[-1] == len(self.nodes) and self.owns(source.storage):
            readers.pop()
        self.parts[node.outputs[0].name] = made
        if node.index not in self._early:
            self.idle.append((node, made))
        return True


def _seen_through(
    nodes: Sequence[Node], roles: Mapping[tuple[str, str], Role], outputs: Collection[str]
) -> set[str]:
    """``outputs``, and the tensors that they are views of."""
    names = set(outputs)
    for node in reversed(nodes):
        if node.op_type in _PARTITIONING or names.isdisjoint(node.output_names):
            continue
        if actual_role(node, roles[node.domain, node.op_type]) is Role.VIEW:
            names.update(tensor.name for tensor in node.inputs[:1] if tensor is not None)
    return names


def names_read_inside(node: Node) -> Iterator[str]:
    """Names that the graphs inside ``node`` may read from outside."""
    for body in node.bodies:
        yield from body.outputs
        for pass_ in body.passes:
            for inner in pass_.nodes:
                for tensor in inner.present:
                    yield tensor.name
                if inner.bodies:
                    yield from names_read_inside(inner)


def _quantizer(node: Node, source: Part) -> tuple[object, ...]:
    return id(source), *parameters(node)
