"""A network of transformers from a configuration: random weights, nothing downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import InputError, UsageError
from mansard.core.files import read_whole
from mansard.estimator.export.extras import go_offline, need
from mansard.estimator.export.network import Network, foreign_code, refuse_unknown
from mansard.estimator.export.transformers_inputs import usual_inputs

_LARGEST_FILE_BYTES = 10_000_000  # a configuration is a few thousand


def build_from_transformers(name: str, settings: Mapping[str, object]) -> Network:
    """The network of a configuration's file, folder or class, or of a model's class.

    A file's own ``architectures`` says which model; without it, and for a
    configuration's class, it is the bare model (``AutoModel``). Raises UsageError for a
    name that is none of these, and for a setting that the configuration does not have.
    """
    go_offline()
    need("torch")
    transformers = need("transformers")
    path = Path(name)
    if path.exists():
        config, model_class = _from_file(transformers, path, settings)
    else:
        config, model_class = _from_class(transformers, name, settings)
    # One pass over whole sequences: a cache would be one more, unnamed output a layer.
    config.use_cache = False
    with foreign_code(f"building {type(config).__name__}"):
        make = model_class or transformers.AutoModel.from_config
        module = make(config)
    return Network(type(module).__name__, module, usual_inputs(module, config))


def read_config(path: Path) -> dict[str, Any]:
    """The JSON object in ``path`` or, of a folder, in its ``config.json``.

    Raises InputError or StorageError.
    """
    file = path / "config.json" if path.is_dir() else path
    content = read_whole(file)
    if len(content) > _LARGEST_FILE_BYTES:
        raise InputError("is too large for a configuration", where=str(file))
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"is no JSON ({error})", where=str(file)) from error
    if not isinstance(document, dict) or not isinstance(document.get("model_type"), str):
        raise InputError(
            "is no configuration of transformers: it has no model_type", where=str(file)
        )
    return document


def merged(config: Mapping[str, Any], settings: Mapping[str, object]) -> dict[str, Any]:
    """``config`` with ``settings`` put in, also into its parts."""
    result = dict(config)
    for key, value in settings.items():
        inner = result.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            result[key] = merged(inner, value)
        else:
            result[key] = value
    return result


def _from_file(
    transformers: Any, path: Path, settings: Mapping[str, object]
) -> tuple[Any, Any | None]:
    document = read_config(path)
    kind = document.pop("model_type")
    known = list(transformers.CONFIG_MAPPING.keys())
    if kind not in known:
        refuse_unknown(f"{path}: the model_type", kind, known)
    _check_settings(transformers.CONFIG_MAPPING[kind], settings)
    with foreign_code(f"the configuration {path}"):
        config = transformers.AutoConfig.for_model(kind, **merged(document, settings))
    architectures = document.get("architectures")
    wanted = architectures[0] if isinstance(architectures, list) and architectures else None
    found = getattr(transformers, wanted, None) if isinstance(wanted, str) else None
    return config, found if is_model_class(found) else None


def _from_class(
    transformers: Any, name: str, settings: Mapping[str, object]
) -> tuple[Any, Any | None]:
    found: Any = getattr(transformers, name, None) if name.isidentifier() else None
    is_model = is_model_class(found)
    config_class = found.config_class if is_model else found
    base = transformers.PreTrainedConfig
    if not (isinstance(config_class, type) and issubclass(config_class, base)):
        raise UsageError(
            f"{name!r} is neither a file nor a configuration or model that transformers has",
            fix="give config.json, its folder or a class such as BertConfig; nothing is downloaded",
        )
    _check_settings(config_class, settings)
    with foreign_code(name):
        return config_class(**settings), found if is_model else None


def is_model_class(found: object) -> bool:
    """Whether ``found`` is a class that makes a network from a configuration."""
    return isinstance(found, type) and isinstance(getattr(found, "config_class", None), type)


def _check_settings(config_class: Any, settings: Mapping[str, object]) -> None:
    """A configuration takes any name without a word: a slip would change nothing."""
    with foreign_code(f"{config_class.__name__}()"):
        usual = config_class()
    for key in settings:
        if not hasattr(usual, key):
            refuse_unknown(f"{config_class.__name__}'s setting", key, sorted(usual.to_dict()))
