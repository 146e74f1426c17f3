"""Ways to damage a model: its bytes, its fields, or what it means.

The n-th mutant of a seed is always the same one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import onnx

from fuzzing.corpus import Original

_INTEGERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e30)
_TEXTS = ("", "x", "\x1b[2J", "</script>", "a" * 300, "../../etc/passwd", "\u202egnp.exe")
_OPERATORS = (
    *("Add", "ArgMax", "Attention", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat"),
    *("Constant", "ConstantOfShape", "Conv", "ConvTranspose", "DFT", "DequantizeLinear", "Einsum"),
    *("Expand", "Flatten", "GRU", "Gather", "GatherND", "Gemm", "GroupNormalization", "If"),
    *("LSTM", "LayerNormalization", "Loop", "MatMul", "MaxPool", "NonMaxSuppression", "NonZero"),
    *("OneHot", "Pad", "QLinearConv", "Range", "ReduceSum", "Reshape", "Resize", "Scan"),
    *("ScatterND", "SequenceAt", "Shape", "Slice", "Softmax", "Split", "SplitToSequence"),
    *("Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Upsample", "Where"),
)

Mutation = Callable[[random.Random, bytes, bytes], bytes]


def mutant(originals: list[Original], seed: int, index: int) -> tuple[str, str, bytes]:
    """The mutant with this number: how it was made, of which model, and its bytes."""
    generator = random.Random(f"{seed} {index}")
    original, other = generator.choice(originals), generator.choice(originals)
    # Damaged bytes are mostly refused at once; what reads well goes deeper, so it is tried more.
    (name,) = generator.choices(tuple(MUTATIONS), (1, 1, 1, 1, 1, 3, 3))
    data = original.data
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        data = MUTATIONS[name](generator, data, other.data) if data else data
    return name, original.name, data


def _flip(generator: random.Random, data: bytes, _other: bytes) -> bytes:
    changed = bytearray(data)
    changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def _overwrite(generator: random.Random, data: bytes, _other: bytes) -> bytes:
    changed = bytearray(data)
    changed[generator.randrange(len(data))] = generator.choice((0, 1, 127, 128, 255))
    return bytes(changed)


def _truncate(generator: random.Random, data: bytes, _other: bytes) -> bytes:
    return data[: generator.randrange(len(data))]


def _splice(generator: random.Random, data: bytes, other: bytes) -> bytes:
    """A piece of it, or of another model, put in or put over what is there."""
    source = generator.choice((data, other))
    start = generator.randrange(len(source))
    piece = source[start : start + generator.randrange(1, 64)]
    place = generator.randrange(len(data))
    return data[:place] + piece + data[place + generator.choice((0, len(piece))) :]


def _varint(generator: random.Random, data: bytes, _other: bytes) -> bytes:
    """A number in the file, a length too, is another one, or written in more bytes."""
    place = generator.randrange(len(data))
    value = generator.choice((*_INTEGERS, generator.randrange(2**14))) % 2**64
    encoded = bytearray()
    for _ in range(generator.choice((0, 0, 2))):
        encoded.append(128)
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return data[:place] + bytes([*encoded, value]) + data[place + 1 :]


def _field(generator: random.Random, data: bytes, other: bytes) -> bytes:
    """A field doubled, taken out, put elsewhere, or with another value; lengths stay right."""
    model = _parsed(data)
    if model is None:
        return _flip(generator, data, other)
    message, field = _somewhere(generator, model)
    if field is None:
        return data
    held = getattr(message, field.name)
    if not isinstance(held, (str, bytes, int, float)) and hasattr(held, "__len__"):
        _change_list(generator, held, field)
    elif field.message_type is not None:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value(generator, field, held))
    return bytes(model.SerializeToString())


def _somewhere(generator: random.Random, message: Any) -> tuple[Any, Any]:
    """A field that is there, anywhere in the model, and the message that holds it."""
    while fields := message.ListFields():
        field, held = generator.choice(fields)
        if field.message_type is None or generator.random() < 0.2:
            return message, field
        is_one = hasattr(held, "ListFields")
        message = held if is_one else generator.choice(held)
    return message, None


def _change_list(generator: random.Random, held: Any, field: Any) -> None:
    place = generator.randrange(len(held))
    kind = generator.choice(("double", "remove", "change", "turn"))
    if kind == "double":
        held.extend([held[place]] * generator.choice((1, 1, 3, 70)))
    elif kind == "remove":
        del held[place]
    elif kind == "turn":
        items = list(held)[::-1]
        del held[:]
        held.extend(items)
    elif field.message_type is None:
        held[place] = _value(generator, field, held[place])


def _value(generator: random.Random, field: Any, held: object) -> object:
    """Another value of the same type; one that does not fit the field is cut to it."""
    if isinstance(held, str):
        return generator.choice(_TEXTS)
    if isinstance(held, bytes):
        return generator.choice((b"", held[:-1], held * 2, b"\xff" * len(held), b"NOTSET"))
    if isinstance(held, float):
        return generator.choice(_FLOATS)
    if field.enum_type is not None:
        return generator.choice(field.enum_type.values).number
    value = generator.choice(_INTEGERS)
    is_wide = field.type in (field.TYPE_INT64, field.TYPE_UINT64)
    return value % 2**64 if field.type == field.TYPE_UINT64 else value if is_wide else value % 2**31


def _meaning(generator: random.Random, data: bytes, other: bytes) -> bytes:
    """Another operator, other tensors, types or versions: a file that reads well."""
    model = _parsed(data)
    if model is None or not model.graph.node:
        return _flip(generator, data, other)
    graph = model.graph
    node = generator.choice(graph.node)
    names = [name for each in graph.node for name in (*each.input, *each.output)]
    names += [value.name for value in (*graph.input, *graph.initializer)]
    match generator.randrange(7):
        case 0:
            node.op_type = generator.choice(_OPERATORS)
        case 1 if node.input:
            node.input[generator.randrange(len(node.input))] = generator.choice(names)
        case 2:
            node.input.append(generator.choice((*names, "")))
        case 3 if node.output:
            node.output[generator.randrange(len(node.output))] = generator.choice((*names, ""))
        case 4 if model.opset_import:
            model.opset_import[0].version = generator.choice((1, 5, 9, 13, 18, 26, 99))
        case 5:
            donor = _parsed(other)
            if donor is not None and donor.graph.node:
                node.attribute.extend(generator.choice(donor.graph.node).attribute)
        case _:
            _change_type(generator, graph)
    return bytes(model.SerializeToString())


def _change_type(generator: random.Random, graph: onnx.GraphProto) -> None:
    declared = (*graph.input, *graph.initializer)
    if not declared:
        return
    given = generator.choice(declared)
    if isinstance(given, onnx.TensorProto):
        given.data_type = generator.randrange(29)
        given.dims.append(generator.choice(_INTEGERS))
        return
    tensor = given.type.tensor_type
    tensor.elem_type = generator.randrange(29)
    sizes = tensor.shape.dim
    if sizes and generator.random() < 0.5:
        sizes[generator.randrange(len(sizes))].dim_value = generator.choice(_INTEGERS)
    else:
        sizes.add(dim_value=generator.choice(_INTEGERS))


def _parsed(data: bytes) -> onnx.ModelProto | None:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError:
        return None
    return model


MUTATIONS: dict[str, Mutation] = {
    "bit flipped": _flip,
    "byte overwritten": _overwrite,
    "cut short": _truncate,
    "piece put in": _splice,
    "number changed": _varint,
    "field changed": _field,
    "meaning changed": _meaning,
}
