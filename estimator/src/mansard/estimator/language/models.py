"""Language models by a path or a name, with the tags behind it.

Tags change how a model is stored: a format or mix of formats (``:Q4_K_M``) its weights,
``:kv=Q8_0`` its cache.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.core.errors import UsageError
from mansard.core.formats.model_files import split_tags
from mansard.core.weight_formats import weight_format
from mansard.estimator.language import catalogue, reading
from mansard.estimator.language.drawing import Drawn
from mansard.estimator.language.mixes import with_format

_CACHE = "kv="
_MAGIC = b'{"language_model":'
_decoder = msgspec.json.Decoder(dict[str, Drawn])


def is_language_model(source: Path | str) -> bool:
    """Whether a path or name, without its tags, is that of a language model."""
    plain, _ = split_tags(str(source))
    if isinstance(source, Path):
        return reading.is_language_model(Path(plain))
    return plain in catalogue.MODELS


def read_drawn(source: Path | str) -> Drawn:
    """What is to be drawn of a language model; raises ModelError, StorageError, UsageError."""
    plain, tags = split_tags(str(source))
    if isinstance(source, Path):
        model = reading.read_language_model(Path(plain))
    else:
        model = catalogue.architecture(plain)
    cache_format = None
    for tag in tags:
        if tag.startswith(_CACHE):
            cache_format = weight_format(tag.removeprefix(_CACHE)).name
        elif "=" in tag:
            raise UsageError(
                f"the tag {tag!r} means nothing", fix="use :FORMAT for weights, :kv=FORMAT"
            )
        else:
            model = with_format(model, tag)
    return Drawn(architecture=model, cache_format=cache_format)


def encoded(drawn: Drawn) -> bytes:
    """As the data of a skeleton, which another process can draw."""
    return msgspec.json.encode({"language_model": drawn})


def decoded(data: bytes) -> Drawn | None:
    """What ``encoded`` made; None where it is anything else."""
    if not data.startswith(_MAGIC):
        return None
    return _decoder.decode(data)["language_model"]
