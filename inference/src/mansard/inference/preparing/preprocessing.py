"""How an image becomes what a network is fed: resized, cropped, and its pixels normalised.

    pixels of the file --resize, crop--> uint8 --(pixel / scale - mean) / deviation--> input

The names and numbers of ``PRESETS``: "imagenet" is that of torchvision's classifiers, whose images
are resized to 256 / 224 of the crop (https://pytorch.org/vision/stable/models.html); "symmetric" of
TensorFlow's ("tf") and "caffe" of Caffe's, with the means of its ImageNet networks
(https://keras.io/api/applications/, keras.applications.imagenet_utils.preprocess_input).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError, UsageError
from mansard.inference.plan import InputSpec, Normalisation

if TYPE_CHECKING:
    from PIL.Image import Image

Channels = Literal["rgb", "bgr", "grey"]
Pixels = npt.NDArray[np.uint8]

_RESIZE_SHARE = 256 / 224  # of the crop
_COLOURS = 3
_LARGEST = 1e9  # scale, mean and deviation, and 1 / the least
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")  # of 8 bits, in Pillow
_NUMBERS = ("float16", "bfloat16", "float32", "float64")  # that pixels are normalised to


class Preprocessing(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for; None follows from the network's input.

    ``resize``: pixels of the shorter side, before the middle is cut out in the size of the input;
    "exact": the image is resized to the input, whatever its shape. None: an image in the size of
    the input stays as it is, and another one is resized to ``resize_share`` of the input's.
    """

    name: str
    channels: Channels | None = None
    scale: float = 255.0
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    resize: int | Literal["exact"] | None = None
    resize_share: float = _RESIZE_SHARE


PRESETS: Mapping[str, Preprocessing] = MappingProxyType(
    {
        each.name: each
        for each in (
            Preprocessing(
                name="imagenet",
                channels="rgb",
                mean=(0.485, 0.456, 0.406),
                deviation=(0.229, 0.224, 0.225),
            ),
            Preprocessing(name="unit"),
            Preprocessing(name="symmetric", mean=(0.5,), deviation=(0.5,)),
            Preprocessing(name="caffe", channels="bgr", scale=1.0, mean=(103.939, 116.779, 123.68)),
            Preprocessing(name="raw", scale=1.0, resize_share=1.0),
        )
    }
)


class FittedPreprocessing(msgspec.Struct, frozen=True, kw_only=True):
    """Preprocessing for one network. ``normalisation`` None: the network is fed with pixels.

    ``resizes_equal``: also an image in the size of the input is resized, then cropped.
    """

    channels: Channels
    resize: int | Literal["exact"]
    resizes_equal: bool
    height: int
    width: int
    is_channels_first: bool
    normalisation: Normalisation | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample as the network takes it."""
        n_channels = 1 if self.channels == "grey" else _COLOURS
        size = (self.height, self.width)
        return (n_channels, *size) if self.is_channels_first else (*size, n_channels)

    @property
    def words(self) -> str:
        """``resize 256, crop 224 × 224, rgb, /255, mean …, deviation …, channels first``."""
        size = f"{self.height} × {self.width}"
        steps = f"resize {size}" if self.resize == "exact" else f"resize {self.resize}, crop {size}"
        parts = [
            steps if self.resizes_equal else f"{size} as it is, else {steps}",
            self.channels,
            "channels first" if self.is_channels_first else "channels last",
        ]
        how = self.normalisation
        if how is not None:
            parts += [
                f"/{how.scale:g}",
                f"mean {' '.join(f'{number:g}' for number in how.mean)}",
                f"deviation {' '.join(f'{number:g}' for number in how.deviation)}",
            ]
        return ", ".join(parts)


def parse_preprocessing(text: str | None) -> Preprocessing:
    """``imagenet``, ``unit,resize=256,mean=0.5/0.5/0.5``: a preset and what differs from it.

    None is "imagenet". Raises UsageError.
    """
    first, *rest = (part.strip() for part in (text or "imagenet").split(","))
    preset = PRESETS.get(first)
    if preset is None:
        raise UsageError(
            f"no preprocessing is called {first!r}",
            fix=f"begin with {', '.join(PRESETS)}; then resize=256,mean=…,deviation=…",
        )
    changes: dict[str, Any] = {}
    for part in rest:
        key, _, value = part.partition("=")
        changes[key] = _setting(key, value)
    if changes:
        changes["name"] = ",".join([first, *rest])
    return msgspec.structs.replace(preset, **changes)


def _setting(key: str, value: str) -> Any:
    try:
        if key == "channels" and value in {"rgb", "bgr", "grey"}:
            return value
        if key == "resize":
            return value if value == "exact" else _positive(int(value))
        if key == "scale":
            return _positive(float(value))
        if key in {"mean", "deviation"}:
            numbers = tuple(float(number) for number in value.split("/"))
            if key == "deviation":
                return tuple(map(_positive, numbers))
            if all(abs(number) <= _LARGEST for number in numbers):
                return numbers
    except ValueError:
        pass
    raise UsageError(
        f"--preprocess has {key}={value!r}" if value else f"--preprocess has {key!r}",
        fix="write resize=256 or resize=exact, scale=255, "
        "mean=0.485/0.456/0.406, deviation=…, channels=rgb, bgr or grey",
    )


def _positive(number: Any) -> Any:
    """``number``, whose inverse fits float32."""
    if not 1 / _LARGEST <= number <= _LARGEST:
        raise ValueError
    return number


def fit(asked: Preprocessing, spec: InputSpec) -> FittedPreprocessing:
    """``asked`` for the input ``spec``: [batch, channels, height, width], or channels last.

    Raises UsageError where the input takes no images, or others than those.
    """
    shape = spec.shape
    is_first = len(shape) == 4 and shape[1] in {1, _COLOURS}
    if len(shape) != 4 or not (is_first or shape[3] in {1, _COLOURS}):
        raise UsageError(
            f"input {spec.name!r} is {list(shape)}, and images are [batch, channels, height, "
            "width] or channels last",
            fix="give the samples as arrays: --data x.npz",
        )
    n_channels, *size = shape[1:] if is_first else (shape[3], *shape[1:3])
    is_pixels = spec.type_name == "uint8"
    if not is_pixels and spec.type_name not in _NUMBERS:
        raise UsageError(
            f"input {spec.name!r} is {spec.type_name}, which holds no pixels",
            fix="give the samples as arrays: --data x.npz",
        )
    channels = asked.channels or ("grey" if n_channels == 1 else "rgb")
    if (channels == "grey") != (n_channels == 1):
        raise UsageError(
            f"preprocessing {asked.name!r} gives {channels}, input {spec.name!r} has "
            f"{n_channels} channel{'s' * (n_channels > 1)}",
            fix=f"give channels={'grey' if n_channels == 1 else 'rgb'}, with as many means, or "
            "begin with unit",
        )
    resize = round(max(size) * asked.resize_share) if asked.resize is None else asked.resize
    if resize != "exact" and resize < max(size):
        raise UsageError(
            f"resize {resize} is less than the crop {size[0]} × {size[1]}",
            fix="give a larger one, or resize=exact",
        )
    return FittedPreprocessing(
        channels=channels,
        resize=resize,
        resizes_equal=isinstance(asked.resize, int),
        height=size[0],
        width=size[1],
        is_channels_first=is_first,
        normalisation=None
        if is_pixels
        else Normalisation(
            scale=asked.scale,
            mean=_for_each("mean", asked.mean, n_channels),
            deviation=_for_each("deviation", asked.deviation, n_channels),
            channel_axis=0 if is_first else 2,
        ),
    )


def _for_each(name: str, numbers: tuple[float, ...], n_channels: int) -> tuple[float, ...]:
    if len(numbers) == 1:
        return numbers * n_channels
    if len(numbers) != n_channels:
        raise UsageError(
            f"{name} has {len(numbers)} numbers, the network {n_channels} channels",
            fix=f"give {n_channels}, with / between them, or one",
        )
    return numbers


def read_image(path: Path, how: FittedPreprocessing) -> Pixels:
    """The image as a sample of pixels; raises InputError unless the file is an image of 8 bits."""
    return decode_image(path, how, str(path))


def decode_image(source: Path | IO[bytes], how: FittedPreprocessing, where: str) -> Pixels:
    """The image in ``source`` as a sample of pixels; raises InputError as ``read_image``.

    Bilinear, with every pixel of the file counted (Pillow's ``resize``). Transparency and the
    orientation in its EXIF are left out of account, as in torchvision.
    """
    from PIL import Image

    try:
        with Image.open(source) as opened:
            if opened.mode not in _MODES:
                raise InputError(
                    f"has pixels of mode {opened.mode}, not of 8 bits",
                    where=where,
                    fix="convert it to 8 bits, or give the samples as arrays: --data x.npz",
                )
            return _sample(opened, how)
    except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        what = str(error).replace(where, "it") or "it is too large"
        raise InputError(
            f"cannot be read as an image ({what})", where=where, fix="take it out of the set"
        ) from error


def as_sample(pixels: Pixels, how: FittedPreprocessing) -> Pixels:
    """The image of ``pixels``, height × width × RGB, as a sample."""
    from PIL import Image

    return _sample(Image.fromarray(pixels), how)


def _sample(opened: Image, how: FittedPreprocessing) -> Pixels:
    image = _cropped(opened.convert("L" if how.channels == "grey" else "RGB"), how)
    pixels = np.asarray(image, np.uint8).reshape(how.height, how.width, -1)
    if how.channels == "bgr":
        pixels = pixels[:, :, ::-1]
    if how.is_channels_first:
        pixels = pixels.transpose(2, 0, 1)
    return np.ascontiguousarray(pixels)


def _cropped(image: Image, how: FittedPreprocessing) -> Image:
    """The middle of the resized image, each size rounded as torchvision does.

    An image in the size of the input stays as it is, unless the resize was asked for by its size.

    https://github.com/pytorch/vision, ``_compute_resized_output_size`` and ``center_crop``.
    """
    from PIL.Image import MAX_IMAGE_PIXELS, Resampling

    size = (how.width, how.height)
    if image.size == size and not how.resizes_equal:
        return image
    if how.resize == "exact":
        return image.resize(size, Resampling.BILINEAR)
    shorter = min(image.size)
    resized = (how.resize * image.width // shorter, how.resize * image.height // shorter)
    if math.prod(resized) > (MAX_IMAGE_PIXELS or math.inf):
        raise ValueError(f"resized to {resized[0]} × {resized[1]} it is too large")
    image = image.resize(resized, Resampling.BILINEAR)
    left, top = (round((whole - part) / 2) for whole, part in zip(resized, size, strict=True))
    return image.crop((left, top, left + how.width, top + how.height))
