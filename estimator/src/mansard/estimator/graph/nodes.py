"""Nodes: from the message NodeProto to a ModelNode. The loop that must be quick.

onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are
8 · field + kind. Names come up again and again, and so do attributes as they stand in
the file (``axis=1``): both are translated once and then looked up by their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import asdict

from mansard.core.errors import ModelError
from mansard.estimator.graph.attributes import GraphBytes, Reference, read_attribute
from mansard.estimator.graph.limits import Budget
from mansard.estimator.graph.protobuf import damaged, encode, fields, varint
from mansard.estimator.model import ModelNode, normal_domain

_INPUT, _OUTPUT, _NAME, _OPERATOR, _ATTRIBUTE = 10, 18, 26, 34, 42
_DOC, _DOMAIN, _OVERLOAD, _METADATA = 50, 58, 66, 74
_SKIPPED = (_METADATA, _DOC)
_USUAL = frozenset({_INPUT, _OUTPUT, _NAME, _OPERATOR, _ATTRIBUTE, _DOMAIN, *_SKIPPED})
_SMALL_BYTES = 256  # attributes beyond this are rarely the same twice


class Call(ModelNode, frozen=True, eq=False):
    """A node that names one of several functions of the same name."""

    overload: str = ""


class _Names(dict[bytes, str]):
    """Text by its bytes; a name that stands in the file twice is one string."""

    def __missing__(self, data: bytes) -> str:
        text = self[data] = data.decode()
        return text


# Inputs, outputs, name, type, domain, attributes, and how many bytes were skipped.
_Parts = tuple[list[str], list[str], bytes, bytes, bytes, dict[str, object], int]


class NodeReader:
    """Reads the nodes of one model.

    ``in_functions``: attributes may now refer to those of the function around them.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._names = _Names()
        self._attributes: dict[bytes, tuple[str, object]] = {}
        self._holds_graphs = False
        self.in_functions = False
        self._holders: list[ModelNode] = []

    def read(self, index: int, data: bytes, opsets: Mapping[str, int]) -> ModelNode:
        """The NodeProto in ``data``; ``opsets`` are versions by domain."""
        try:
            parts = self._usual(data)
        except IndexError:
            raise damaged() from None
        if parts is None:
            return self._read_unusual(index, data, opsets)
        inputs, outputs, name, op_type, domain, attributes, n_skipped = parts
        self._budget.read(len(data) - n_skipped)
        normal = normal_domain(self._names[domain]) if domain else ""
        node = ModelNode(
            index,
            # Many exporters leave names empty; the first output then tells nodes apart.
            name.decode() or next(filter(None, outputs), ""),
            self._names[op_type],
            normal,
            tuple(inputs),
            tuple(outputs),
            attributes,
            opsets.get(normal, 1),
        )
        if self._holds_graphs:
            self._holds_graphs = False
            self._holders.append(node)
        return node

    def take_holders(self) -> list[ModelNode]:
        """The nodes with graphs in them that were read since the last call."""
        taken, self._holders = self._holders, []
        return taken

    def _usual(self, data: bytes) -> _Parts | None:  # noqa: C901, PLR0912 - one branch a field
        """What the node holds; None if it is not written as everybody writes nodes."""
        names, known = self._names, self._attributes
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: dict[str, object] = {}
        name = op_type = domain = b""
        position, end, n_skipped = 0, len(data), 0
        while position < end:
            key, size = data[position], data[position + 1]
            position += 2
            if size > 127:
                if key not in _USUAL:
                    return None
                if data[position] < 128:  # two bytes are usual, and not worth a call
                    size += (data[position] - 1) << 7
                    position += 1
                else:
                    size, position = varint(data, position - 1)
            stop = position + size
            if key == _INPUT:
                inputs.append(names[data[position:stop]])
            elif key == _ATTRIBUTE:
                content = data[position:stop]
                found = known.get(content) or self._attribute(content, name, outputs)
                attributes[found[0]] = found[1]
            elif key == _OUTPUT:
                outputs.append(names[data[position:stop]])
            elif key == _NAME:
                name = data[position:stop]
            elif key == _OPERATOR:
                op_type = data[position:stop]
            elif key in _SKIPPED:
                n_skipped += size
            elif key == _DOMAIN:
                domain = data[position:stop]
            else:
                return None
            position = stop
        if position != end:
            raise damaged()
        return inputs, outputs, name, op_type, domain, attributes, n_skipped

    def _attribute(self, data: bytes, name: bytes, outputs: list[str]) -> tuple[str, object]:
        label = name.decode("utf-8", "replace") or next(filter(None, outputs), "")
        found = read_attribute(data, self._budget, label)
        value = found[1]
        if isinstance(value, Reference) and not self.in_functions:
            raise ModelError(
                f"attribute {found[0]!r} refers to one of a function, but stands in none",
                where=f"node {label!r}",
                fix="the file is broken; export the model again",
            )
        if isinstance(value, GraphBytes) or (
            isinstance(value, tuple) and value and isinstance(value[0], GraphBytes)
        ):
            self._holds_graphs = True
        elif len(data) <= _SMALL_BYTES:
            self._attributes[data] = found
        return found

    def _read_unusual(self, index: int, data: bytes, opsets: Mapping[str, int]) -> ModelNode:
        """A node with unknown fields, overlong numbers or an overload."""
        self._holds_graphs = False
        usual: list[bytes] = []
        overload = b""
        for key, content in fields(data):
            if key in _USUAL:
                usual.append(encode(key) + encode(len(content)) + content)
            elif key == _OVERLOAD:
                overload = content
        node = self.read(index, b"".join(usual), opsets)
        if not overload:
            return node
        call = Call(**asdict(node), overload=overload.decode())
        if self._holders and self._holders[-1] is node:
            self._holders[-1] = call
        return call
