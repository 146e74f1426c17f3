"""What a network of fp32 can be converted to, and fp16, by the tool that comes with ONNX Runtime.

Nothing runs here. The nodes keep their labels; the casts that are put in have none.
"""

from __future__ import annotations

import warnings

from onnx import ModelProto, TensorProto

from mansard.core.errors import ModelError, UsageError
from mansard.core.onnx_runtime import import_runtime
from mansard.inference.preparing.sources import all_tensors

CONVERTIBLE = ("fp16", "bf16", "int8")  # to what fp32 can be converted


def check_convertible(own: str, wanted: str) -> None:
    """Raise UsageError unless a network of precision ``own`` can be had in ``wanted``."""
    if own != "fp32":
        raise UsageError(
            f"it is {own}, and only networks of fp32 are converted",
            fix=f"leave --precision out, or give a file of {wanted}",
        )
    if wanted not in CONVERTIBLE:
        what = f"fp32 is converted to {', '.join(CONVERTIBLE)}, not to {wanted}"
        raise UsageError(what, fix="give such a file")


def check_weights(model: ModelProto, wanted: str) -> None:
    """Raise ModelError unless all weights of ``model`` are in it."""
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in all_tensors(model.graph)):
        raise ModelError(
            "its weights lie in another file: it is not converted", fix=f"give a file of {wanted}"
        )


def to_fp16(model: ModelProto) -> ModelProto:
    """``model``, whose weights are all in it, in fp16; inputs and outputs stay as they are.

    Operators that the converter leaves in fp32 get casts around them. Raises ModelError for what
    it cannot convert.
    """
    convert_float_to_float16 = import_runtime("transformers.float16").convert_float_to_float16
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each number that fp16 cannot hold
            converted: ModelProto = convert_float_to_float16(
                model, keep_io_types=True, disable_shape_infer=True
            )
    except Exception as error:  # its own have no base but this
        raise ModelError(f"ONNX Runtime's tool cannot convert it to fp16 ({error})") from error
    return converted
