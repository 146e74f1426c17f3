"""Reading a model and scoring it: one row of work and traffic for each node.

Scores, measurements and predictions of a network must have the same dimensions, so all of them use
the defaults of this module: the usual dimensions of the zoo's networks, and a batch of 1.
"""

from __future__ import annotations

import difflib
import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.core.formats.onnx import is_language_file, model_name, split_tags
from mansard.core.hashing import file_hash
from mansard.core.precision import parse_precision
from mansard.core.records import KvCacheUpdate, ModelScore, Optimizer, Phase
from mansard.estimator import zoo
from mansard.estimator.caches import Caches, find_caches
from mansard.estimator.layers import ConstantRows, main_precision, score_layers
from mansard.estimator.missing_sizes import (
    FullCaches,
    advise_shapes,
    advise_sizes,
    find_full_caches,
    with_head_widths,
)
from mansard.estimator.model import Given, Model, Value, all_nodes, always_run
from mansard.estimator.reading import read_model, read_source
from mansard.estimator.score_context import Settings, UnknownShapesError, check_operators
from mansard.estimator.shape_inference.batch import check_batch, find_batch, settle_batch
from mansard.estimator.shape_inference.binding import Binding, MissingDimensionsError, bind
from mansard.estimator.shape_inference.dimensions import (
    check_batch_given,
    with_open_batch,
    with_usual,
)
from mansard.estimator.shape_inference.inference import (
    InferredNetwork,
    Prepared,
    infer_shapes,
    prepare,
)
from mansard.estimator.summary import score_notes, unknown_fields
from mansard.estimator.tensors import Node, Shape, walk

if TYPE_CHECKING:
    from mansard.estimator.language.models import LanguageModels
    from mansard.estimator.zoo import Entry


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector: the objects of a score live until it is done.

    The collector would traverse all of them whenever their number has grown by a quarter.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def naming_model(where: str) -> Iterator[None]:
    """Prefix errors raised inside the block with ``where``, the name of the model."""
    try:
        yield
    except (ModelError, UsageError) as error:
        is_named = error.where in (None, "", where)
        what = error.what if is_named else f"{error.where}: {error.what}"
        raise type(error)(what, where=where, fix=error.fix) from error


IMAGES = "images"  # the dimension of a vision-language model's encoder
LANGUAGE_MODEL = b'{"language_model":'  # how the data of one begins: no ONNX file does


class Loaded(msgspec.Struct, frozen=True, eq=False):
    """A model that was read once, to be scored any number of times."""

    name: str
    where: str  # its name in errors: the path as it was given, or the model's name
    model_hash: str
    model: Model
    prepared: Prepared  # what depends on the file alone, not on dimensions
    constant_rows: ConstantRows
    caches: Caches  # the inputs and outputs that hold keys and values of earlier tokens
    usual: Mapping[str, int] = {}  # default dimensions of a network of the zoo
    drawn: bytes = b""  # of a language model: what its network is drawn of


class Skeleton(msgspec.Struct, frozen=True, eq=False):
    """A file without its weights: small, and enough to score it, also on another machine."""

    name: str
    where: str  # as in Loaded
    model_hash: str
    data: bytes
    usual: dict[str, int] = {}  # as in Loaded


def read_skeleton(
    source: Path | str | bytes, name: str | None = None, usual: Mapping[str, int] | None = None
) -> Skeleton:
    """A model's file without its weights; raises ModelError or StorageError."""
    if isinstance(source, str):
        source = Path(source)
    if isinstance(source, Path):
        name = name or model_name(source)
        where = str(source)
    else:
        name = name or "model"
        where = f"model {name!r}"
    with naming_model(where):
        data, digest = read_source(source)
    return Skeleton(name, where, digest, data, dict(usual or {}))


def load(source: Path | str | bytes | Skeleton, name: str | None = None) -> Loaded:
    """Read a model, from a path, its bytes or its skeleton; raises ModelError or StorageError."""
    read = source if isinstance(source, Skeleton) else read_skeleton(source, name)
    with naming_model(read.where), _paused_collector():
        is_drawn = read.data.startswith(LANGUAGE_MODEL)
        model = _language_models().draw(read.data) if is_drawn else read_model(read.data)
        prepared = prepare(model)
        caches = find_caches(model, prepared.tensors)
        rows = ConstantRows()
        return Loaded(
            *(read.name, read.where, read.model_hash, model, prepared, rows, caches, read.usual),
            drawn=read.data if is_drawn else b"",
        )


def is_language_model(source: Path | str) -> bool:
    """Whether a path or a name is that of a language model, which has to be drawn."""
    if isinstance(source, Path):
        return is_language_file(source)
    is_of_zoo = zoo.has(source) or bool(zoo.family(source))
    return not is_of_zoo and _language_models().is_public(split_tags(source)[0])


def known_network(name: str) -> Entry:
    """What the zoo knows of a network; UsageError for a name that neither it nor a model has."""
    if zoo.has(name):
        return zoo.entry(name)
    known = (*zoo.names(), *zoo.FAMILIES, *_language_models().names())
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UsageError(
        f"no network or language model is called {name!r}",
        fix=f"{hint}'mansard models list' shows their names",
    )


def known_language_models() -> tuple[Entry, ...]:
    """Public language models as the zoo shows its networks, in alphabetical order."""
    return tuple(map(_language_entry, sorted(_language_models().names())))


def _language_entry(name: str) -> Entry:
    page, n_parameters, context = _language_models().published(name)
    return zoo.Entry(
        name=name,
        title=page.rpartition("/")[2],
        task="generating text",
        input=f"up to {context:,} tokens" if context else "tokens",
        dims=(),
        published_macs=None,
        published_parameters=n_parameters,
        source=f"config.json and index of weights, {page}",
        unknown={"published_macs": "it depends on the tokens"},
    )


def _language_models() -> type[LanguageModels]:
    """Imported where one is meant: other networks are scored without all of this."""
    from mansard.estimator.language.models import LanguageModels

    return LanguageModels


def read_network(source: Path | str) -> Skeleton:
    """An ONNX file or language model by its path, or a network by its name, without weights.

    Raises ModelError, StorageError or UsageError.
    """
    if is_language_model(source):
        name = model_name(source) if isinstance(source, Path) else source
        with naming_model(str(source)):
            data, has_encoder = _language_models().read(source)
        usual = {IMAGES: 0} if has_encoder else {}
        return Skeleton(name, str(source), file_hash(data), data, usual)
    if isinstance(source, Path):
        return read_skeleton(source)
    usual = {name: size for name, size in known_network(source).dims if name != "batch"}
    return read_skeleton(zoo.read(source), source, usual)


def load_network(source: Path | str) -> Loaded:
    """As ``read_network``, ready to be scored any number of times."""
    return load(read_network(source))


def with_defaults(loaded: Loaded, given: Given, *, is_guessed_too: bool = True) -> Given:
    """``given`` with defaults: the usual dimensions where none are given, then the batch.

    ``is_guessed_too``: as for ``with_open_batch``. Raises UsageError where the batch is given
    twice.
    """
    with naming_model(loaded.where):
        check_batch_given(loaded.model, given)
        given = with_usual(loaded.model, given, loaded.usual)
        return with_open_batch(loaded.model, given, is_guessed_too=is_guessed_too)


def score(  # noqa: PLR0913 - one keyword for each thing a user can state
    source: Path | str | bytes,
    *,
    name: str | None = None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    trips: Mapping[str, int] | None = None,
    values: Mapping[str, Value] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    types: Mapping[str, str] | None = None,
    upper: bool = False,
    precision: str | None = None,
    phase: Phase = "inference",
    optimizer: Optimizer = "sgd",
    recompute: bool = False,
    cache_bytes: int | None = None,
    allow_unknown: bool = False,
    kv_cache: KvCacheUpdate | None = None,
) -> ModelScore:
    """Work and traffic of every node of an ONNX model; nothing is executed.

    ``source``: a path, or the bytes of a model. ``name`` is the file's stem by default.

    ``batch`` sets the batch dimension, ``dims`` dimensions by name or, as
    ``tensor[axis]``, by position, those that depend on data too; of these a name with ``*``
    is a pattern. ``trips``: how often a loop runs whose count depends on data, by the name of
    its node. ``values``: numbers that inputs hold where shapes or branches depend on them.
    ``shapes``: whole shapes of inputs that have none in the file, and of what operators without
    a shape rule write; ``types`` their element types. ``upper``: sizes and counts that depend
    on data and are not given are set to their upper bounds: the score is one too (``bounds``).

    ``precision`` counts floating tensors at another width (None: as the file has them).
    ``phase``: ``inference`` or ``training``, one step with ``optimizer`` (``none``,
    ``sgd``, ``momentum``, ``adam``); with ``recompute`` its backward pass computes
    activations again instead of keeping them. ``cache_bytes``: the last-level cache for
    the cache-aware traffic, bytes; None leaves that unknown.

    With ``allow_unknown`` an operator without a formula, and whatever has no shape
    because of it, becomes a row of unknown counts; without it, all of them are one
    ModelError.

    ``kv_cache``: ``in-place`` counts a decoder's cache as runtimes for language models keep it:
    a step reads it once and writes its new rows. ``copied``, the default, counts the file as it
    is written.

    Raises ModelError, UsageError or StorageError, and nothing else.
    """
    if phase not in get_args(Phase):
        raise UsageError(f"unknown phase {phase!r}", fix=f"use {' or '.join(get_args(Phase))}")
    if optimizer not in get_args(Optimizer):
        optimizers = ", ".join(get_args(Optimizer))
        raise UsageError(f"unknown optimizer {optimizer!r}", fix=f"use one of {optimizers}")
    if cache_bytes is not None and cache_bytes < 0:
        raise UsageError(f"a cache of {cache_bytes} bytes", fix="give 0 or more")
    settings = Settings(
        Given(batch, dims or {}, trips or {}, values or {}, shapes or {}, types or {}, upper=upper),
        parse_precision(precision) if precision is not None else None,
        phase,
        optimizer,
        recompute,
        cache_bytes,
        allow_unknown,
        kv_cache,
    )
    return score_loaded(load(source, name), settings)


def score_loaded(loaded: Loaded, settings: Settings) -> ModelScore:
    """Score a model that was read before; raises ModelError or UsageError.

    A language model keeps its weights as they are stored, whatever precision it is counted in.
    """
    with naming_model(loaded.where), _paused_collector():
        if loaded.drawn and settings.phase == "training":
            raise UsageError(
                "training is not counted from a header or a configuration",
                fix="export the model to ONNX, with torch.onnx.export, and score the file",
            )
        if loaded.drawn and settings.precision is not None:
            loaded = _in_precision(loaded, settings.precision.name)
            settings = msgspec.structs.replace(settings, precision=None)
        return _score(loaded, settings)


def _in_precision(loaded: Loaded, precision: str) -> Loaded:
    """A language model that computes in ``precision``, whatever its weights are stored in."""
    model = _language_models().draw(loaded.drawn, precision)
    prepared = prepare(model)
    return msgspec.structs.replace(
        loaded,
        model=model,
        prepared=prepared,
        constant_rows=ConstantRows(),
        caches=find_caches(model, prepared.tensors),
    )


def settled(loaded: Loaded, given: Given) -> Given:
    """``given`` with the sizes of caches and the batch that follow from the network.

    Raises UsageError where they contradict it.
    """
    given = with_head_widths(loaded.model, loaded.caches, given)
    return settle_batch(loaded.model, given, loaded.prepared)


def _score(loaded: Loaded, settings: Settings) -> ModelScore:
    if settings.phase != "training":
        settings = msgspec.structs.replace(settings, optimizer="none", recompute=False)
    given = settled(loaded, settings.given)
    settings = msgspec.structs.replace(settings, given=given)
    binding, network, full = _infer(loaded, settings)
    check_batch(loaded.model, binding, network)
    batch = find_batch(loaded.model, binding, network)
    inputs = tuple(binding.tensors.values())
    outputs = frozenset(output.name for output in loaded.model.outputs)
    try:
        scored = score_layers(
            network.nodes, inputs, outputs, settings, loaded.constant_rows, loaded.caches
        )
    except UnknownShapesError as error:
        raise advise_shapes(error, loaded.model, given, loaded.prepared, network) from error
    layers, memory = scored.layers, scored.memory
    # With multiply-adds the layers say the precision: quantised ones keep theirs, whatever is
    # requested. Without, the requested one is shown.
    requested = None if any(layer.macs for layer in layers) else settings.precision
    return ModelScore(
        model=loaded.name,
        model_hash=loaded.model_hash,
        source="modelled",
        phase=settings.phase,
        batch=batch.size,
        precision=main_precision(layers, bool(loaded.drawn))
        if requested is None
        else requested.name,
        dimensions={**binding.named, **network.filled},
        bounds={**network.bounds, **full.bounds},
        trips=_trips(network.nodes),
        optimizer=settings.optimizer,
        recompute=settings.recompute,
        cache_bytes=settings.cache_bytes,
        peak_activation_bytes=memory.peak_activation_bytes,
        in_place_peak_bytes=memory.in_place_peak_bytes,
        fused_peak_bytes=memory.fused_peak_bytes,
        kv_cache_bytes=memory.kv_cache_bytes,
        optimizer_state_bytes=scored.state_bytes,
        layers=layers,
        notes=(
            *loaded.model.notes,
            *network.notes,
            *full.notes,
            *score_notes(network, layers, settings, memory.kv_cache_update),
            *filter(None, (batch.note,)),
        ),
        alternatives=scored.alternatives,
        unknown=unknown_fields(memory, batch.size, settings.cache_bytes),
        kv_cache_update=memory.kv_cache_update,
    )


def _infer(loaded: Loaded, settings: Settings) -> tuple[Binding, InferredNetwork, FullCaches]:
    """The network with all shapes; the sizes of ``settings.given`` are settled.

    Raises ModelError, with advice where sizes are missing.
    """
    given = settings.given
    try:
        binding = bind(loaded.model, given)
    except ModelError as error:
        if not settings.allow_unknown:
            # Dimensions do not help if an operator is unknown.
            asked = error.flags.values() if isinstance(error, MissingDimensionsError) else ()
            without_shape = _unstated(loaded.model, settings.given)
            check_operators(always_run(loaded.model.nodes), without_shape, tuple(asked))
        if isinstance(error, MissingDimensionsError):
            raise advise_sizes(error, loaded.model, settings.given, loaded.prepared) from error
        raise
    network = infer_shapes(loaded.model, binding, loaded.prepared)
    full = find_full_caches(loaded.model, loaded.caches, network)
    if full.values:
        filled = msgspec.structs.replace(binding.given, values={**full.values, **given.values})
        binding = bind(loaded.model, filled)
        network = infer_shapes(loaded.model, binding, loaded.prepared)
    return binding, network, full


def shaped_nodes(loaded: Loaded, settings: Settings) -> tuple[Node, ...]:
    """The nodes that ``score_loaded`` counts, with their tensors; raises what that raises."""
    with naming_model(loaded.where), _paused_collector():
        if loaded.drawn and settings.precision is not None:
            loaded = _in_precision(loaded, settings.precision.name)
        given = settled(loaded, settings.given)
        return _infer(loaded, msgspec.structs.replace(settings, given=given))[1].nodes


def _unstated(model: Model, given: Given) -> set[str]:
    """The tensors whose shapes neither the file nor the caller states."""
    declared = {name for name, (_, sizes) in model.stated.items() if sizes is not None}
    declared |= {output.name for output in model.outputs if output.dimensions is not None}
    written = {name for node in all_nodes(model.nodes) for name in node.outputs if name}
    return written - declared - given.shapes.keys()


def _trips(nodes: Iterable[Node]) -> dict[str, int]:
    """The total number of runs of each loop's body, by the loop's name."""
    trips: dict[str, int] = {}
    for instance in walk(nodes):
        loop = instance.node
        if not loop.bodies or loop.op_type not in ("Loop", "Scan") or not instance.is_taken:
            continue
        count = sum(run.times for body in loop.bodies for run in body.passes)
        name = loop.name or next((output for output in loop.output_names if output), "loop")
        trips[name] = trips.get(name, 0) + instance.runs * count
    return trips
