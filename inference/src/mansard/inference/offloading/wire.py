"""What an offload client and its server send each other over HTTP.

``GET /v1/network`` is answered by a ``ServedNetwork`` as JSON. ``POST /v1/classify`` has one sample
as its body: raw bytes, and headers that say what they are. It is answered by an ``ServedAnswer``.
"""

from __future__ import annotations

from math import prod
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError

NETWORK_PATH, CLASSIFY_PATH = "/v1/network", "/v1/classify"
FORM_HEADER, TYPE_HEADER, SHAPE_HEADER = "Mansard-Form", "Mansard-Type", "Mansard-Shape"
BINARY, JSON = "application/octet-stream", "application/json"
MOST_BYTES = 64 << 20  # of a sample: 4096 × 4096 pixels of three channels take 48 MiB
MOST_ANSWER_BYTES = 1 << 16
_MOST_AXES = 8

# "tensor": the input of the network; "pixels": height × width × 3 of 8 bits, which the server
# prepares; "image": the file of an image, likewise.
Form = Literal["tensor", "pixels", "image"]


class Payload(NamedTuple):
    """One sample as it is sent; of an image's file type and shape are empty."""

    form: Form
    type_name: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def headers(self) -> dict[str, str]:
        """Those of the request."""
        headers = {"Content-Type": BINARY, FORM_HEADER: self.form}
        if self.form != "image":
            headers[TYPE_HEADER] = self.type_name
            headers[SHAPE_HEADER] = ",".join(map(str, self.shape))
        return headers


class ServedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The larger network's class; times are the server's own."""

    predicted: int
    inference_s: float
    server_s: float  # from the whole request to this answer


def parse_shape(text: str) -> tuple[int, ...]:
    """A shape such as ``3,32,32``; raises InputError."""
    words = text.split(",")
    if len(words) > _MOST_AXES or not all(
        word.isascii() and word.isdecimal() and len(word) <= 9 for word in words
    ):
        raise InputError(f"{SHAPE_HEADER} {text[:40]!r} is not a shape", fix="such as 3,32,32")
    return tuple(int(word) for word in words)


def array_of(
    data: bytes, type_name: str, shape: tuple[int, ...], wanted: tuple[str, tuple[int, ...]]
) -> npt.NDArray[np.generic]:
    """The array in ``data``; raises InputError where type, shape or size are not as ``wanted``."""
    if (type_name, shape) != wanted:
        raise InputError(
            f"a sample is {type_name[:20]} {list(shape)}, not {wanted[0]} {list(wanted[1])}"
        )
    dtype = np.dtype(type_name)
    if len(data) != prod(shape) * dtype.itemsize:
        raise InputError(f"{len(data):,} bytes are not {type_name} {list(shape)}")
    return np.frombuffer(data, dtype).reshape(shape)
