"""A PyTorch network with the inputs to trace it with, given or guessed; ``need`` imports PyTorch.

``need`` imports the libraries of the extra ``export`` when they are used, with a clear error where
one is missing.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from mansard.core.errors import MansardError, ModelError, UsageError
from mansard.core.extras import install_command
from mansard.core.onnx_runtime import forbid_telemetry, import_runtime
from mansard.estimator.export.request import ExportInput

# What to do instead of installing the extra.
_INSTEAD = {
    "onnxscript": ", or use --exporter torchscript",
    "onnxruntime": ", or skip the check with --no-check",
}

# Read by huggingface_hub and transformers when they are imported: whatever a
# configuration names, nothing is looked up or downloaded.
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")

_NMS = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_kept: list[Any] = []  # torch forgets an operator when the library that defined it is collected


def need(name: str) -> Any:
    """The library ``name``, imported; raises MansardError where it is missing or broken."""
    forbid_telemetry()  # PyTorch's exporters may import ONNX Runtime by themselves
    try:
        if name in {"torchvision", "transformers"}:
            _prepare_torchvision()  # transformers imports it too, where it is installed
        return import_runtime() if name == "onnxruntime" else import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise _broken(name, error) from error
        fix = "install the torchvision that belongs to this torch"
        if name != "torchvision":
            fix = install_command("export") + _INSTEAD.get(name, "")
        raise MansardError(f"this needs {name}, which is not installed", fix=fix) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> MansardError:
    said = f"{type(error).__name__}: {error}"
    return MansardError(
        f"{name} is installed but does not import ({said})",
        fix="install versions that belong together",
    )


def go_offline() -> None:
    """Forbid downloads in this process; before transformers is imported."""
    for variable in _OFFLINE:
        os.environ[variable] = "1"


def _prepare_torchvision() -> None:
    """Import torchvision, if it is there, even where its compiled operators do not load.

    A wheel built for CUDA beside a torch without it cannot load them, and then fails on
    registering the shapes of operators that it takes for granted. No classifier uses
    them: declared by name alone, they let the import succeed.
    """
    if "torchvision" in sys.modules or find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    else:
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    _declare_operators()
    import_module("torchvision")


def _declare_operators() -> None:
    torch = import_module("torch")
    library = torch.library.Library("torchvision", "FRAGMENT")
    _kept.append(library)
    for name in registered_operators():
        if not hasattr(torch.ops.torchvision, name):
            library.define(_NMS if name == "nms" else f"{name}(Tensor tensor) -> Tensor")


def registered_operators() -> list[str]:
    """The operators whose shapes torchvision registers without asking whether they loaded."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return []
    source = Path(spec.origin).parent / "_meta_registrations.py"
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    return re.findall(r'register_fake\("torchvision::(\w+)"\)', text)


class Input(msgspec.Struct, frozen=True):
    """One argument of ``forward``, and what to fill it with.

    Integers are drawn from ``0 … high − 1``; booleans and masks are ones.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: Literal["random", "ones"] = "random"
    high: int = 2  # every table has two rows
    symbols: Mapping[int, str] = {}  # axes that are symbols by default, beside the batch


class Network(msgspec.Struct, frozen=True):
    """``module`` is a torch.nn.Module in evaluation mode on the CPU."""

    name: str
    module: Any
    inputs: tuple[Input, ...]
    notes: tuple[str, ...] = ()


@contextmanager
def foreign_code(what: str) -> Iterator[None]:
    """Whatever the user's code or a library raises becomes one ModelError; what it prints
    goes to stderr, because stdout is for data."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except MansardError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{what} raised {described(error)}") from error


def described(error: BaseException) -> str:
    """Type and first line of the first error in a chain, for messages."""
    deepest = error
    for _ in range(20):
        cause = deepest.__cause__
        if cause is None:
            break
        deepest = cause
    lines = [line.strip() for line in str(deepest).splitlines() if line.strip()]
    return f"{type(deepest).__name__}: {lines[0][:300]}" if lines else type(deepest).__name__


def forward_parameters(module: Any) -> tuple[dict[str, inspect.Parameter], bool]:
    """The named arguments of ``forward``, and whether it takes others by keyword."""
    parameters = inspect.signature(module.forward).parameters
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {
        name: parameter for name, parameter in parameters.items() if parameter.kind not in variable
    }
    takes_more = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    return named, takes_more


def refuse_unknown(what: str, name: str, offered: Sequence[str]) -> NoReturn:
    """Raise UsageError for ``name``, with the closest of the names ``offered``."""
    close = get_close_matches(name, offered, n=5) or sorted(offered)[:12]
    fix = f"use one of: {', '.join(close)}" if close else None
    raise UsageError(f"{what} {name!r} is not there", fix=fix)


# Tensors to trace and check a network with: the same every time.


_SEED = 0


def example_tensors(
    inputs: Sequence[Input], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """One tensor for each input: floats from N(0, 1), integers and ones as specified."""
    torch = need("torch")
    generator = torch.Generator().manual_seed(_SEED)
    return {
        source.name: _tensor(torch, source, shapes[source.name], generator) for source in inputs
    }


def _tensor(torch: Any, source: Input, shape: tuple[int, ...], generator: Any) -> Any:
    dtype = getattr(torch, source.dtype)
    if source.fill == "ones":
        return torch.ones(shape, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, source.high, shape, generator=generator).to(dtype)


def flat_tensors(outputs: Any) -> list[Any]:
    """The tensors in what ``forward`` returned, in the order in which exporters write them."""
    torch = need("torch")
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


# Guesses the input of a network from its forward signature and first layer.


TOKENS = 16
IMAGE = 224  # pixels; what classifiers are trained on (ImageNet)
_LENGTHS = {"Conv1d": (256,), "Conv2d": (IMAGE, IMAGE), "Conv3d": (TOKENS, 112, 112)}
_TOKEN_NAMES = ("input_ids", "token_type_ids", "position_ids", "decoder_input_ids")
_MASK_NAMES = ("attention_mask", "decoder_attention_mask")


def inputs_from_specs(
    module: Any, specs: Sequence[ExportInput], usual: Sequence[Input] = ()
) -> tuple[Input, ...]:
    """The inputs that ``--input`` gives, in the order of ``forward``; raises UsageError.

    ``usual``: what the network takes when nothing is said. Types, fillings and symbols
    are taken from there, for the inputs that are given; the others are left out.
    """
    named, takes_more = forward_parameters(module)
    by_name = {spec.name: spec for spec in specs}
    if len(by_name) < len(specs):
        raise UsageError("--input gives one name twice", fix="give each input once")
    for name in by_name:
        if name not in named and not takes_more:
            refuse_unknown("forward's argument", name, list(named))
    missing = [name for name in required(named) if name not in by_name]
    if missing:
        raise UsageError(
            f"forward also needs {', '.join(missing)}", fix=f"add --input {missing[0]}=1x3x224x224"
        )
    order = [name for name in named if name in by_name]
    order += [name for name in by_name if name not in named]
    usual_by_name = {source.name: source for source in usual}
    floating = float_type(module)
    return tuple(_from_spec(by_name[name], usual_by_name.get(name), floating) for name in order)


def _from_spec(spec: ExportInput, usual: Input | None, floating: str) -> Input:
    if usual is not None and spec.dtype in (None, usual.dtype):
        return msgspec.structs.replace(usual, shape=spec.shape)
    is_integer = spec.name in (*_TOKEN_NAMES, *_MASK_NAMES)
    dtype = spec.dtype or ("int64" if is_integer else floating)
    is_mask = spec.name in _MASK_NAMES or dtype == "bool"
    return Input(spec.name, spec.shape, dtype, "ones" if is_mask else "random")


def required(named: dict[str, inspect.Parameter]) -> list[str]:
    """The arguments without a default."""
    return [
        name for name, parameter in named.items() if parameter.default is inspect.Parameter.empty
    ]


def float_type(module: Any) -> str:
    """The element type of the first floating parameter, else float32."""
    for parameter in module.parameters():
        if parameter.dtype.is_floating_point:
            return str(parameter.dtype).removeprefix("torch.")
    return "float32"


def guess_inputs(module: Any) -> tuple[tuple[Input, ...], str]:
    """Guessed inputs, and one line on what was assumed; raises UsageError."""
    named, _ = forward_parameters(module)
    needed = required(named)
    if needed and all(name in (*_TOKEN_NAMES, *_MASK_NAMES) for name in needed):
        inputs = tuple(
            _from_spec(ExportInput(name, (1, TOKENS)), None, "float32") for name in needed
        )
        return inputs, f"assumed {TOKENS} tokens; --input {needed[0]}=1x128 gives others"
    shape_dtype = _first_layer(module) if len(needed) == 1 else None
    if shape_dtype is None:
        usual = getattr(module, "main_input_name", next(iter(named), "x"))
        names = ", ".join(needed) or usual
        first = needed[0] if needed else usual
        raise UsageError(
            f"cannot tell the shapes of forward's arguments ({names})",
            fix=f"add --input {first}=1x3x224x224, and so for each",
        )
    shape, dtype = shape_dtype
    shown = "x".join(map(str, shape))
    note = f"assumed an input of {shown} from the first layer; --input {needed[0]}=… gives another"
    return (Input(needed[0], shape, dtype),), note


def _first_layer(module: Any) -> tuple[tuple[int, ...], str] | None:
    """Shape and type of an input for the first layer with weights; None if unknown."""
    for layer in module.modules():
        is_leaf = next(layer.children(), None) is None
        if is_leaf and next(layer.parameters(), None) is not None:
            shape = _taken_shape(layer)
            dtype = "int64" if type(layer).__name__ == "Embedding" else float_type(module)
            return (shape, dtype) if shape is not None else None
    return None


def _taken_shape(layer: Any) -> tuple[int, ...] | None:
    name = type(layer).__name__
    if name in _LENGTHS:
        return (1, layer.in_channels, *_LENGTHS[name])
    if name == "Linear":
        return (1, layer.in_features)
    if name == "Embedding":
        return (1, TOKENS)
    if name in ("LSTM", "GRU", "RNN"):
        return (*((1, TOKENS) if layer.batch_first else (TOKENS, 1)), layer.input_size)
    return None
