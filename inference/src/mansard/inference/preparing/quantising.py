"""A network of fp32 in int8, by the static quantisation that comes with ONNX Runtime.

QuantizeLinear and DequantizeLinear are put around operators (Q/DQ), and the engine runs what lies
between them in int8. The ranges of activations come from running the network on the CPU with
calibration data; those of weights from the weights, one for each output channel.
https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html

Batch normalisations are folded into the convolutions before them:

    y = γ (conv(x, W) + b - μ) / √(σ² + ε) + β = conv(x, W f) + (b - μ) f + β, f = γ / √(σ² + ε)

Engines do that by themselves, but not across the conversions that int8 puts between the two.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from mansard.core.errors import MansardError, ModelError
from mansard.core.onnx_runtime import import_runtime
from mansard.core.storage.leftovers import temporary_folder
from mansard.inference.accuracy import batches
from mansard.inference.plan import InputSpec, PreparedSamples
from mansard.inference.preparing.labelling import reads

# The engines that the graph is for. "operators": all that ONNX Runtime has in int8, ranges need
# not be symmetric, biases in int32. "tensorrt": the operators that TensorRT has in int8, with
# conversions before them alone; ranges are symmetric and biases stay fp32, as its parser wants them
# (https://docs.nvidia.com/deeplearning/tensorrt, "Explicit Quantization").
Form = Literal["operators", "tensorrt"]
_OF_TENSORRT = ("Conv", "ConvTranspose", "Gemm", "MatMul")
PERCENTILE = 99.999  # of the numbers of an activation that its range holds
# NumPy's words for an activation that has one number, but for rounding: a softmax over scores that
# are all the same. Then all ranges are from the least to the greatest.
_NO_HISTOGRAM = "Too many bins for data range"
_LEAST_OPSET = 13  # scales for each channel: DequantizeLinear 13


class Int8(msgspec.Struct, frozen=True, kw_only=True):
    """How a network becomes int8: for which engines, and by which samples."""

    form: Form
    calibration: PreparedSamples

    @property
    def words(self) -> str:
        """Where the ranges come from, in words."""
        samples = self.calibration.in_words
        return (
            f"{PERCENTILE} % of the values, or all where one activation has no histogram, in "
            f"{samples}, ONNX Runtime {import_runtime().__version__}"
        )


def quantise(model: ModelProto, how: Int8, specs: Sequence[InputSpec], folder: Path) -> ModelProto:
    """``model``, whose weights are all in it, in int8; inputs and outputs stay as they are.

    Nodes keep their labels; what is put in has none. ``folder`` has the calibration file. Raises
    ModelError for what cannot be quantised.
    """
    tools = import_runtime("quantization")
    opset = max(
        (imported.version for imported in model.opset_import if not imported.domain), default=0
    )
    if opset < _LEAST_OPSET:
        raise ModelError(
            f"it is of opset {opset}, and int8 needs {_LEAST_OPSET}",
            fix=f"export it with opset {_LEAST_OPSET} or newer",
        )
    fold_batch_norms(model)
    with temporary_folder() as scratch, _silent():
        source, target = scratch / "fp32.onnx", scratch / "int8.onnx"
        try:
            onnx.save(model, source)
            for method in (tools.CalibrationMethod.Percentile, tools.CalibrationMethod.MinMax):
                try:
                    tools.quantize_static(
                        source,
                        target,
                        _Reader(how.calibration, specs, folder),
                        op_types_to_quantize=list(_OF_TENSORRT) if how.form == "tensorrt" else None,
                        per_channel=True,
                        activation_type=tools.QuantType.QInt8,
                        weight_type=tools.QuantType.QInt8,
                        calibrate_method=method,
                        extra_options=_tool_options(how.form),
                    )
                    break
                except ValueError as error:
                    if _NO_HISTOGRAM not in str(error):
                        raise
            return onnx.load(target)
        except MansardError:
            raise
        except EncodeError as error:
            raise ModelError(
                "with its weights in fp32 it takes more than 2 GB, which ONNX Runtime's tool does "
                "not quantise",
                fix="give a file that is quantised",
            ) from error
        except Exception as error:  # its own have no base but this
            raise ModelError(f"ONNX Runtime's tool cannot quantise it ({error})") from error


def _tool_options(form: Form) -> dict[str, Any]:
    # Ranges about 0 alone fail on tensors whose numbers are all nearly the same.
    options: dict[str, Any] = {
        "CalibStridedMinMax": 1,
        "CalibPercentile": PERCENTILE,
        "CalibTensorRangeSymmetric": False,
    }
    if form != "tensorrt":
        return {**options, "QDQKeepRemovableActivations": True}
    return {
        **options,
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "QuantizeBias": False,
        "OpTypesToExcludeOutputQuantization": list(_OF_TENSORRT),
    }


class _Reader:
    """Hands over calibration samples a batch at a time, as ``CalibrationDataReader`` does."""

    def __init__(self, samples: PreparedSamples, specs: Sequence[InputSpec], folder: Path) -> None:
        self._n_batches = -(-samples.n_samples // specs[0].shape[0])
        self._left = 0
        self._batches = batches(samples, specs, folder)

    def __len__(self) -> int:
        return self._n_batches

    def set_range(self, start_index: int, end_index: int) -> None:
        """Set the range of batches to hand over next."""
        self._left = end_index - start_index

    def get_next(self) -> dict[str, Any] | None:
        """The next batch; None at the end of the range."""
        if not self._left:
            return None
        self._left -= 1
        batch = next(self._batches, None)
        return None if batch is None else dict(batch[1])


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silence what the tool prints and warns of for each tensor."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


_EPSILON = 1e-5  # where the node names none (ONNX, BatchNormalization)


def fold_batch_norms(model: ModelProto) -> int:
    """Fold what can be folded in ``model``, in place; returns how many.

    A convolution takes the output and, after its own, the label of what it absorbs. Folded are
    normalisations with stored numbers that are the only reader of a convolution's output.
    """
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    n_readers = Counter(name for node in graph.node for name in reads(node))
    n_readers.update(value.name for value in graph.output)
    writers = {name: node for node in graph.node for name in node.output}
    folded = []
    for node in graph.node:
        if node.op_type != "BatchNormalization" or node.domain or len(list(node.output)) > 1:
            continue
        conv = writers.get(node.input[0])
        if conv is None or conv.op_type != "Conv" or conv.domain or n_readers[node.input[0]] > 1:
            continue
        if all(name in stored for name in (*conv.input[1:], *node.input[1:])):
            _fold(conv, node, stored, model)
            folded.append(node)
    for node in folded:
        graph.node.remove(node)
    used = {name for node in graph.node for name in reads(node)}
    used |= {value.name for value in graph.output}
    folded_away = {name for name in stored if name not in used} if folded else set()
    for values in (graph.initializer, graph.input):  # older files name initialisers as inputs too
        for value in [value for value in values if value.name in folded_away]:
            values.remove(value)
    return len(folded)


def _fold(
    conv: NodeProto, norm: NodeProto, stored: dict[str, TensorProto], model: ModelProto
) -> None:
    gamma, beta, mean, variance = (
        numpy_helper.to_array(stored[name]).astype(np.float64) for name in norm.input[1:5]
    )
    kernel = numpy_helper.to_array(stored[conv.input[1]])
    bias = numpy_helper.to_array(stored[conv.input[2]]) if len(conv.input) > 2 else 0.0
    epsilon = next(
        (attribute.f for attribute in norm.attribute if attribute.name == "epsilon"), _EPSILON
    )
    factor = gamma / np.sqrt(variance + epsilon)
    wide = factor.reshape(-1, *[1] * (kernel.ndim - 1))
    arrays = {
        f"{norm.output[0]}_kernel": kernel * wide,
        f"{norm.output[0]}_bias": (bias - mean) * factor + beta,
    }
    for name, array in arrays.items():
        tensor = numpy_helper.from_array(array.astype(kernel.dtype), name)
        model.graph.initializer.append(tensor)
        stored[name] = tensor
    del conv.input[1:]
    conv.input.extend(arrays)
    conv.output[0] = norm.output[0]
    conv.name += norm.name
