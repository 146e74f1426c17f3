"""A network as the parser of ONNX files makes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorrt._release import CLASSES, ENUMS, MAJOR, SEVERITIES, Dims, published

# Kinds of layers of some operators; any other one is an ELEMENTWISE.
_TYPES = {
    "Conv": "CONVOLUTION",
    "ConvTranspose": "DECONVOLUTION",
    "Gemm": "MATRIX_MULTIPLY",
    "MatMul": "MATRIX_MULTIPLY",
    "Relu": "ACTIVATION",
    "Sigmoid": "ACTIVATION",
    "MaxPool": "POOLING",
    "AveragePool": "POOLING",
    "GlobalAveragePool": "REDUCE",
    "BatchNormalization": "SCALE",
    "Softmax": "SOFTMAX",
    "Concat": "CONCATENATION",
    "Reshape": "SHUFFLE",
    "Flatten": "SHUFFLE",
    "Transpose": "SHUFFLE",
    "TopK": "TOPK",
    "Cast": "CAST",
    "QuantizeLinear": "QUANTIZE",
    "DequantizeLinear": "DEQUANTIZE",
}
_SHAPELESS = {"SequenceConstruct", "StringNormalizer", "TfIdfVectorizer", "Bernoulli"}
_ONNX_TYPES = {
    1: "FLOAT",
    2: "UINT8",
    3: "INT8",
    6: "INT32",
    7: "INT64",
    9: "BOOL",
    10: "HALF",
    16: "BF16",
    17: "FP8",
}


class ITensor:
    """An input or an output of a layer."""

    def __init__(self, name: str, shape: Sequence[int], dtype: Any, mode: str = "") -> None:
        self._name, self._shape, self._dtype, self._mode = name, tuple(shape), dtype, mode

    name = property(lambda self: self._name)
    shape = property(lambda self: Dims(self._shape))
    dtype = property(lambda self: self._dtype)


class ILayer:
    """One operator."""

    def __init__(self, node: Any, name: str, types: dict[str, Any]) -> None:
        self._node, self._name, self._types = node, name, types

    name = property(lambda self: self._name)
    metadata = property(lambda self: f"[ONNX Layer: {self._name}]")
    num_outputs = property(lambda self: len(self._node.output))

    @property
    def type(self) -> Any:
        return getattr(ENUMS["LayerType"], _TYPES.get(self._node.op_type, "ELEMENTWISE"))

    def get_output(self, index: int) -> Any:
        return self._tensor(self._node.output[index])

    def _tensor(self, name: str) -> Any:
        return CLASSES["ITensor"](name, (), self._types.get(name))


class INetworkDefinition:
    """What the parser filled."""

    def __init__(self, logger: Any, flags: int) -> None:
        self._logger, self._flags = logger, flags
        self._model: Any = None
        self._layers: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    num_layers = property(lambda self: len(self._layers))
    num_inputs = property(lambda self: len(self._inputs))

    def get_layer(self, index: int) -> Any:
        return self._layers[index]

    def get_input(self, index: int) -> Any:
        return self._inputs[index]

    def get_flag(self, flag: int) -> bool:
        return bool(self._flags >> int(flag) & 1)

    def _fill(self, model: Any) -> None:
        from onnx import shape_inference

        initialised = {each.name for each in model.graph.initializer}
        self._model = model
        nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
        types = {each.name: _type(each) for each in (*inferred.value_info, *inferred.output)}
        layer = CLASSES["ILayer"]
        self._layers = [
            layer(node, node.name or f"{node.op_type}_{number}", types)
            for number, node in enumerate(nodes)
        ]
        inputs = [each for each in model.graph.input if each.name not in initialised]
        self._inputs = [_tensor(each, "INPUT") for each in inputs]
        self._outputs = [_tensor(each, "OUTPUT") for each in inferred.output]


def _tensor(value: Any, mode: str) -> Any:
    of = value.type.tensor_type
    shape = [each.dim_value if each.HasField("dim_value") else -1 for each in of.shape.dim]
    return CLASSES["ITensor"](value.name, shape, _type(value), mode)


def _type(value: Any) -> Any:
    name = _ONNX_TYPES.get(value.type.tensor_type.elem_type, "FLOAT")
    if name == "INT64" and MAJOR < 10:  # TensorRT has no such type before 10
        name = "INT32"
    return ENUMS["DataType"].__members__.get(name)


class ParserError:
    """Why a file was refused."""

    def __init__(self, desc: str, node: int, name: str, operator: str) -> None:
        self._desc, self._node, self._name, self._operator = desc, node, name, operator

    def code(self) -> str:
        return "ErrorCode.UNSUPPORTED_NODE"

    def desc(self) -> str:
        return self._desc

    def file(self) -> str:
        return "ModelImporter.cpp"

    def line(self) -> int:
        return 1

    def func(self) -> str:
        return "parseNode"

    def node(self) -> int:
        return self._node

    def node_name(self) -> str:
        return self._name

    def node_operator(self) -> str:
        return self._operator

    def __str__(self) -> str:
        return f"In node {self._node} with name: {self._name} and operator: {self._operator}"


class OnnxParser:
    """Reads an ONNX file into a network."""

    def __init__(self, network: Any, logger: Any) -> None:
        self._network, self._logger, self._errors = network, logger, []

    num_errors = property(lambda self: len(self._errors))

    def get_error(self, index: int) -> Any:
        return self._errors[index]

    def parse_from_file(self, model: str) -> bool:
        import onnx

        try:
            return self._take(onnx.load(model))
        except Exception as error:
            return self._refuse(f"Failed to parse ONNX model from file: {model}: {error}")

    def parse(self, model: bytes, path: str | None = None) -> bool:
        import onnx

        try:
            read = onnx.load_from_string(bytes(model))
            if path:
                onnx.load_external_data_for_model(read, str(Path(path).parent))
        except Exception as error:
            return self._refuse(f"Failed to parse ONNX model: {error}")
        return self._take(read)

    def _take(self, model: Any) -> bool:
        for number, node in enumerate(model.graph.node):
            if node.domain not in {"", "ai.onnx"} or node.op_type in _SHAPELESS:
                text = (
                    f"No importer registered for op: {node.op_type}. Attempting to import as"
                    " plugin. Plugin not found, are the plugin name, version, and namespace"
                    " correct?"
                )
                return self._refuse(text, number, node.name, node.op_type)
        self._network._fill(model)
        return True

    def _refuse(self, text: str, node: int = -1, name: str = "", operator: str = "") -> bool:
        self._errors.append(CLASSES["ParserError"](text, node, name, operator))
        self._logger.log(SEVERITIES.ERROR, f"ModelImporter.cpp:1: ERROR: {text}")
        return False


for _impl in (ITensor, ILayer, INetworkDefinition, ParserError, OnnxParser):
    published(_impl)
