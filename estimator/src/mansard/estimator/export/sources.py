"""Builds the network that a source names: the user's code, torchvision, transformers.

Nothing is downloaded; weights are random where the source has none.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from importlib import import_module, invalidate_caches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from mansard.core.errors import InputError, ModelError, UsageError
from mansard.core.storage.files import read_whole
from mansard.estimator.export.network import (
    TOKENS,
    Input,
    Network,
    float_type,
    foreign_code,
    forward_parameters,
    go_offline,
    guess_inputs,
    inputs_from_specs,
    need,
    refuse_unknown,
)
from mansard.estimator.export.request import ExportRequest, PythonSource, parse_source


def build_from_python(source: PythonSource, settings: Mapping[str, object]) -> Any:
    """The torch.nn.Module that ``source`` is, or returns when called with ``settings``.

    Raises UsageError where there is no such module or attribute, or it is no network;
    ModelError where the user's code raises.
    """
    torch = need("torch")
    module = _import_file(Path(source.place)) if source.is_file else _import_path(source.place)
    obj: Any = module
    for part in source.attribute.split("."):
        if not hasattr(obj, part):
            names = [name for name in vars(obj) if not name.startswith("_")]
            refuse_unknown(f"{source.place}: the attribute", part, names)
        obj = getattr(obj, part)
    where = f"{source.place}:{source.attribute}"
    if not isinstance(obj, torch.nn.Module):
        if not callable(obj):
            raise UsageError(
                f"is a {type(obj).__name__}",
                where=where,
                fix="name a torch.nn.Module, or a function that makes one",
            )
        with foreign_code(where):
            obj = obj(**settings)
    elif settings:
        raise UsageError("is a network already, --set cannot change it", where=where)
    if not isinstance(obj, torch.nn.Module):
        raise UsageError(
            f"gives a {type(obj).__name__}, not a torch.nn.Module",
            where=where,
            fix="return the network alone",
        )
    return obj


def _import_path(name: str) -> ModuleType:
    """The module ``name``, also from the current folder, as ``python -m`` would find it."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    invalidate_caches()
    try:
        with foreign_code(f"importing {name}"):
            return import_module(name)
    except ModelError as error:
        missing = error.__cause__
        # The name is wrong only where the module itself, or a parent of it, is missing.
        if isinstance(missing, ModuleNotFoundError) and _is_part(missing.name, name):
            raise UsageError(
                f"there is no module {missing.name!r}",
                fix="give its import path from here, or the path of its file: net.py:factory",
            ) from error
        raise


def _is_part(missing: str | None, name: str) -> bool:
    return missing is not None and (name == missing or name.startswith(f"{missing}."))


def _import_file(path: Path) -> ModuleType:
    """The module in the file ``path``; it can import modules beside it."""
    if not path.is_file():
        raise UsageError("there is no such file", where=str(path))
    name = f"_mansard_export_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError("is not a Python file", where=str(path))
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with foreign_code(f"running {path}"):
        spec.loader.exec_module(module)
    return module


# A network of torchvision with random weights; nothing is downloaded.


# Frames of a clip (torchvision's documentation of the Kinetics video classifiers).
_CLIP_FRAMES = 16
_SEED = 0
_SLOW_TO_FILL = frozenset({"googlenet", "inception_v3"})  # warn about it at length, too


def build_from_torchvision(name: str, settings: Mapping[str, object]) -> Network:
    """``torchvision.models.get_model(name)`` and an image of the size it was trained on.

    Raises UsageError for a network that torchvision does not have.
    """
    need("torch")
    models = need("torchvision").models
    names = models.list_models()
    if name not in names:
        refuse_unknown("torchvision's network", name, names)
    taken = inspect.signature(models.get_model_builder(name)).parameters
    absent: dict[str, object] = dict.fromkeys(("weights", "weights_backbone"))
    arguments = {key: value for key, value in absent.items() if key in taken}
    if name in _SLOW_TO_FILL:
        arguments["init_weights"] = False
    with foreign_code(f"torchvision.models.{name}"):
        module = models.get_model(name, **{**arguments, **settings})
        _fill_weights(module)
    return Network(name, module, image_inputs(models.get_model_weights(name)))


def _fill_weights(module: Any) -> None:
    """Weights that let a signal through (He et al., arXiv:1502.01852), the same every time.

    As built, some networks damp it to nothing before the output: then any file would
    agree with PyTorch.
    """
    torch = need("torch")
    torch.manual_seed(_SEED)
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.modules.conv._ConvNd):
            torch.nn.init.kaiming_normal_(layer.weight)


def image_inputs(weights: Any) -> tuple[Input, ...]:
    """The image, or clip, that a network's published weights were evaluated on.

    Empty where they do not say: such a network needs ``--input``.
    """
    published = getattr(weights, "DEFAULT", None)
    transforms = getattr(published, "transforms", None)
    crop = getattr(transforms, "keywords", {}).get("crop_size")
    if isinstance(crop, int):
        return (Input("x", (1, 3, crop, crop), "float32"),)
    if isinstance(crop, tuple | list) and len(crop) == 2:
        return (Input("x", (1, 3, _CLIP_FRAMES, *crop), "float32"),)
    return ()


# The inputs that a network of transformers takes, by what its configuration says.


_SEQUENCE = {1: "sequence"}
_DECODED = {1: "decoder_sequence"}
_SAMPLES = 16_000  # one second of speech
_WHISPER_FRAMES = 3_000  # thirty seconds of Whisper's spectrogram, which it always takes whole


def usual_inputs(module: Any, config: Any) -> tuple[Input, ...]:
    """Tokens, an image, a signal or a spectrogram, by ``main_input_name`` and ``forward``.

    Empty where that does not say: such a network needs ``--input``.
    """
    named, _ = forward_parameters(module)
    floating = float_type(module)
    inputs: list[Input] = []
    for name in named:
        if name in ("input_ids", "decoder_input_ids"):
            symbols = _DECODED if name.startswith("decoder") else _SEQUENCE
            high = _size(config, "vocab_size")
            if high is not None and (name == "input_ids" or config.is_encoder_decoder):
                inputs.append(Input(name, (1, TOKENS), "int64", high=high, symbols=symbols))
        elif name == "pixel_values":
            image = _image(config)
            if image is not None:
                inputs.append(Input(name, image, floating))
        elif name == "input_values":
            inputs.append(Input(name, (1, _SAMPLES), floating))
        elif name == "input_features" and _size(config, "num_mel_bins") is not None:
            bins = _size(config, "num_mel_bins") or 0
            inputs.append(Input(name, (1, bins, _WHISPER_FRAMES), floating))
    has_tokens = any(source.name == "input_ids" for source in inputs)
    if has_tokens and "attention_mask" in named:
        mask = Input("attention_mask", (1, TOKENS), "int64", "ones", symbols=_SEQUENCE)
        inputs.append(mask)
    main = module.main_input_name
    return tuple(inputs) if any(source.name == main for source in inputs) else ()


def _size(config: Any, key: str) -> int | None:
    """``key`` of the configuration, or of the part of it that is about text or images."""
    for part in (config, *(getattr(config, f"{name}_config", None) for name in _PARTS)):
        value = getattr(part, key, None)
        if isinstance(value, int):
            return value
    return None


_PARTS = ("text", "vision", "encoder", "decoder", "audio")


def _image(config: Any) -> tuple[int, ...] | None:
    """Batch, channels, height and width of an image; None where the configuration has no size."""
    channels = _size(config, "num_channels") or 3
    for part in (config, getattr(config, "vision_config", None)):
        size = getattr(part, "image_size", None)
        if isinstance(size, int):
            return (1, channels, size, size)
        if isinstance(size, list | tuple) and len(size) == 2:
            return (1, channels, *size)
    return None


# A network of transformers from a configuration: random weights, nothing downloaded.


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
        raise InputError(f"is not JSON ({error})", where=str(file)) from error
    if not isinstance(document, dict) or not isinstance(document.get("model_type"), str):
        raise InputError(
            "is not a configuration of transformers: it has no model_type", where=str(file)
        )
    return document


def merged(config: Mapping[str, Any], settings: Mapping[str, object]) -> dict[str, Any]:
    """``config`` with ``settings`` applied, also to nested parts."""
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
    model_types = list(transformers.CONFIG_MAPPING.keys())
    if kind not in model_types:
        refuse_unknown(f"{path}: the model_type", kind, model_types)
    _check_settings(transformers.CONFIG_MAPPING[kind], settings)
    with foreign_code(f"the configuration {path}"):
        config = transformers.AutoConfig.for_model(kind, **merged(document, settings))
    architectures = document.get("architectures")
    wanted = architectures[0] if isinstance(architectures, list) and architectures else None
    model_class = getattr(transformers, wanted, None) if isinstance(wanted, str) else None
    return config, model_class if is_model_class(model_class) else None


def _from_class(
    transformers: Any, name: str, settings: Mapping[str, object]
) -> tuple[Any, Any | None]:
    transformers_class: Any = getattr(transformers, name, None) if name.isidentifier() else None
    is_model = is_model_class(transformers_class)
    config_class = transformers_class.config_class if is_model else transformers_class
    base = transformers.PreTrainedConfig
    if not (isinstance(config_class, type) and issubclass(config_class, base)):
        raise UsageError(
            f"{name!r} is neither a file nor a configuration or model that transformers has",
            fix="give config.json, its folder or a class such as BertConfig; nothing is downloaded",
        )
    _check_settings(config_class, settings)
    with foreign_code(name):
        return config_class(**settings), transformers_class if is_model else None


def is_model_class(obj: object) -> bool:
    """Whether ``obj`` is a class that makes a network from a configuration."""
    return isinstance(obj, type) and isinstance(getattr(obj, "config_class", None), type)


def _check_settings(config_class: Any, settings: Mapping[str, object]) -> None:
    """Raise UsageError for unknown settings: configurations silently accept any name."""
    with foreign_code(f"{config_class.__name__}()"):
        usual = config_class()
    for key in settings:
        if not hasattr(usual, key):
            refuse_unknown(f"{config_class.__name__}'s setting", key, sorted(usual.to_dict()))


# From a request to a network with inputs, whatever it comes from.


def load_network(request: ExportRequest) -> Network:
    """The network that ``request`` names, ready to be traced.

    Raises UsageError, ModelError for whatever foreign code raises, or MansardError for
    a library that is missing.
    """
    network = _build(request)
    with foreign_code("the network"):
        network.module.eval()
        network.module.cpu()
    if request.inputs:
        inputs = inputs_from_specs(network.module, request.inputs, network.inputs)
        return msgspec.structs.replace(network, inputs=inputs)
    if network.inputs:
        return network
    inputs, note = guess_inputs(network.module)
    return msgspec.structs.replace(network, inputs=inputs, notes=(*network.notes, note))


def _build(request: ExportRequest) -> Network:
    source = parse_source(request.source)
    settings = request.settings
    if isinstance(source, PythonSource):
        module = build_from_python(source, settings)
        return Network(type(module).__name__, module, ())
    if source.library == "transformers":
        return build_from_transformers(source.name, settings)
    return build_from_torchvision(source.name, settings)
