"""Language models by a path or a name, with the tags behind it.

Tags change how a model is stored: a format or mix of formats (``:Q4_K_M``) its weights,
``:kv=Q8_0`` its cache.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.core.errors import UsageError
from mansard.core.formats.onnx import split_tags
from mansard.core.weight_formats import weight_format
from mansard.estimator.language import catalogue
from mansard.estimator.language.drawing import draw
from mansard.estimator.language.graph import PLAIN, DrawnModel
from mansard.estimator.language.mixes import with_format
from mansard.estimator.language.reading import read_language_model
from mansard.estimator.model import Model

_CACHE = "kv="
_decoder = msgspec.json.Decoder(dict[str, DrawnModel])


class LanguageModels:
    """What ``scoring`` does with language models, as functions that it imports when it needs one.

    The data of a skeleton is what is to be drawn, as JSON: another process can draw it.
    """

    @staticmethod
    def is_public(name: str) -> bool:
        """Whether a public model is called so."""
        return name in catalogue.MODELS

    @staticmethod
    def names() -> tuple[str, ...]:
        """Those of public models."""
        return tuple(catalogue.MODELS)

    @staticmethod
    def published(name: str) -> tuple[str, int, int | None]:
        """The page of a public model, its parameters, and tokens that it was trained for."""
        model = catalogue.MODELS[name]
        return model.page, model.n_parameters, catalogue.architecture(name).context

    @staticmethod
    def read(source: Path | str) -> tuple[bytes, bool]:
        """A model as the data of a skeleton, and whether it has an encoder of images.

        Raises ModelError, StorageError, UsageError.
        """
        drawn = _read(source)
        has_encoder = drawn.architecture.vision is not None
        return msgspec.json.encode({"language_model": drawn}), has_encoder

    @staticmethod
    def facts(data: bytes) -> tuple[int, int | None]:
        """Words of the vocabulary, and tokens that the model was trained for; None: not known."""
        architecture = _decoder.decode(data)["language_model"].architecture
        return architecture.vocabulary, architecture.context

    @staticmethod
    def draw(data: bytes, compute: str | None = None) -> Model:
        """The network of what ``read`` returned; ``compute``: as in DrawnModel."""
        drawn = _decoder.decode(data)["language_model"]
        if compute is not None and compute not in PLAIN:
            raise UsageError(
                f"a language model is not computed in {compute}",
                fix=f"use {', '.join(PLAIN)}; a format of its weights follows its name, "
                "as in llama-3.1-8b:Q4_K_M",
            )
        return draw(msgspec.structs.replace(drawn, compute=compute))


def _read(source: Path | str) -> DrawnModel:
    plain, tags = split_tags(str(source))
    is_file = isinstance(source, Path)
    model = read_language_model(Path(plain)) if is_file else catalogue.architecture(plain)
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
    return DrawnModel(architecture=model, cache_format=cache_format)
