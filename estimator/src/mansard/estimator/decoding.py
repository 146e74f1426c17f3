"""A decoder's two phases: prefill reads a prompt, decode generates one token from a cache.

Both are the same network with other dimensions. Which dimension is the new tokens and
which the cached ones follows from its inputs: the caches that the graph extends
(``caches``), else those with the name of one; tokens or their embeddings; masks and
positions by their axes. A cache of fixed length is a buffer: there the inputs that say
how much of it is valid get their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from mansard.core.errors import UsageError
from mansard.estimator.caches import (
    ATTENTION,
    CROSS_NAME,
    Caches,
    DecoderCache,
    is_buffer,
    is_ring,
    node_of,
    same_numbers,
)
from mansard.estimator.model import NOTHING_GIVEN, Given, Model, ModelInput, Value
from mansard.estimator.scoring import Loaded, naming_model
from mansard.estimator.shape_inference.dimensions import (
    InputDimension,
    find_dimensions,
)

_ANY_CACHE = re.compile(r"past|cache|(?<![a-z])p?kv(?![a-z])", re.IGNORECASE)
_MASK = re.compile(r"mask", re.IGNORECASE)
_TOKENS = re.compile(r"ids|token|embeds|embeddings", re.IGNORECASE)
_POSITIONS = re.compile(r"position|(?<![a-z])pos(?![a-z])", re.IGNORECASE)
_INDIRECTION = re.compile(r"indirection", re.IGNORECASE)
_SLIDING = re.compile(r"sliding|window|local", re.IGNORECASE)
_PAST_LENGTH = re.compile(r"past.*len|cached?_?len|start_?pos", re.IGNORECASE)
_TOTAL_LENGTH = re.compile(r"total.*len", re.IGNORECASE)
_USES_CACHE = re.compile(r"use_?cache", re.IGNORECASE)
_LENGTH_NAME = re.compile(r"past|seq|len|cache|total|ctx|context|step|time", re.IGNORECASE)
_FLAGS = frozenset({"bool", "int32", "int64"})


class Stage(msgspec.Struct, frozen=True):
    """One call of a decoder: it reads ``n_new`` tokens after ``n_cached`` earlier ones."""

    n_new: int
    n_cached: int

    @property
    def n_all(self) -> int:
        return self.n_new + self.n_cached

    @property
    def title(self) -> str:
        """How it is called behind the name of its network."""
        return f"decode {self.n_cached}" if self.n_cached else f"prefill {self.n_new}"

    @property
    def option(self) -> str:
        return f"--decode {self.n_cached}" if self.n_cached else f"--prefill {self.n_new}"


# What a language model is asked for where nobody says it: a prompt, and a token behind it.
USUAL_STAGES = (Stage(512, 0), Stage(1, 512))


def stage_name(network: str, stage: Stage) -> str:
    """How a stage of a network is called, as a window of a program is: ``llama [decode 512]``."""
    return f"{network} [{stage.title}]"


def with_stage(loaded: Loaded, given: Given, stage: Stage) -> tuple[Given, tuple[str, ...]]:
    """``given`` with the sizes and values of ``stage``, and notes where ``given`` differs.

    ``given`` takes precedence. Inputs from an encoder have lengths of their own, which stay open.
    Raises UsageError where the network does not look like a decoder with a cache.
    """
    with naming_model(loaded.where):
        roles = _Roles(loaded.model, loaded.caches)
        dims, values = roles.sizes(stage), roles.values(stage, given.batch or 1)
    notes = [
        f"{name!r} is given as {given.dims[name]}, where {stage.option} has {size}"
        for name, size in dims.items()
        if given.dims.get(name, size) != size
    ]
    changed = msgspec.structs.replace(
        given,
        dims=dims | dict(given.dims),
        values=values | dict(given.values),
        batch_names=given.batch_names | roles.batch,
    )
    return changed, tuple(notes)


class _Roles:
    """Which dimensions of a decoder's inputs hold new tokens, cached ones, both, or the batch."""

    def __init__(self, model: Model, caches: Caches) -> None:
        self._model, self._caches = model, caches
        self._dimensions = find_dimensions(model, NOTHING_GIVEN)
        self._computed = self._dimensions.expressions()
        self.batch: frozenset[str] = frozenset()
        self._new: set[str] = set()
        self._masked: set[str] = set()
        self._cached: dict[str, DecoderCache | None] = {}
        self._fixed_new: dict[str, int] = {}
        self._fixed_caches: dict[str, tuple[int, DecoderCache]] = {}
        for source in model.inputs:
            if not CROSS_NAME.search(source.name):
                self._sort(source, self._dimensions.by_input.get(source.name, ()))
        self._check()

    def sizes(self, stage: Stage) -> dict[str, int]:
        """Sizes of the open dimensions by name; raises UsageError where fixed ones differ."""
        for name, size in self._fixed_new.items():
            if size != stage.n_new:
                raise UsageError(
                    f"input {name!r} reads {size} token(s) a call, not {stage.n_new}",
                    fix="leave out " + ("--decode" if stage.n_cached else "--prefill"),
                )
        for name, (room, buffer) in self._fixed_caches.items():
            n_rows = stage.n_all if is_buffer(self._model, buffer) else stage.n_cached
            window = self._window(buffer)
            n_rows = n_rows if window is None else min(n_rows, window)
            if (room < n_rows) if is_buffer(self._model, buffer) else (room != n_rows):
                raise UsageError(
                    f"the cache {name!r} has a fixed length of {room} tokens, which does not "
                    f"go with {stage.option}",
                    fix="export the model with a dynamic or a longer cache",
                )
        sizes = dict.fromkeys(self._new, stage.n_new)
        for symbol, cache in self._cached.items():
            length = self._cached_size(symbol, cache, stage)
            if length is not None:
                sizes[symbol] = length
        others = self._masked - self._new - self._cached.keys()
        return sizes | dict.fromkeys(others, stage.n_all)

    def values(self, stage: Stage, batch: int) -> dict[str, Value]:
        """The values of inputs that say how many keys there are."""
        meanings = {
            "past": stage.n_cached,
            "total": stage.n_all,
            "total of each": stage.n_all,
            "last of each": stage.n_all - 1,
        }
        inputs: dict[str, int] = {}
        for source in self._model.inputs:
            rank = len(source.dimensions or ()) if source.dimensions is not None else 9
            if source.dtype is None or source.dtype.name not in _FLAGS or rank > 1:
                continue
            if source.dtype.name == "bool" and _USES_CACHE.search(source.name):
                inputs[source.name] = int(stage.n_cached > 0)
            elif _TOTAL_LENGTH.search(source.name):
                inputs[source.name] = stage.n_all
            elif _PAST_LENGTH.search(source.name):
                inputs[source.name] = stage.n_cached
        inputs |= {name: meanings[what] for name, what in _length_inputs(self._model).items()}
        ranks = {source.name: source.dimensions or () for source in self._model.inputs}
        # A single number would give an open list of lengths one element.
        return {
            name: (value,) * batch
            if any(not isinstance(size, int) for size in ranks[name])
            else value
            for name, value in inputs.items()
        }

    def _sort(self, source: ModelInput, dims: tuple[InputDimension, ...]) -> None:
        is_whole = source.dtype is not None and source.dtype.name in _FLAGS
        cache = self._caches.of(source.name)
        if cache is not None:
            self._sort_cache(source, dims, cache)
        elif _MASK.search(source.name):
            self._note_batch(dims[:1] if len(dims) > 1 else ())
            self._masked |= self._open(dims[-1:])
            self._new |= self._open(dims[-2:-1]) if len(dims) > 2 else set()
        elif is_whole and _INDIRECTION.search(source.name):
            self._note_batch(dims[:1])
            self._cached |= dict.fromkeys(self._open(dims[-1:]))
        elif is_whole and _POSITIONS.search(source.name):
            self._note_batch(dims[-2:-1])
            self._new |= self._open(dims[-1:])
        elif len(dims) > 2 and not is_whole and _ANY_CACHE.search(source.name):
            if not self._caches.caches:
                self._sort_cache(source, dims, None)
        elif dims and _TOKENS.search(source.name) and not _ANY_CACHE.search(source.name):
            self._sort_tokens(source, dims)

    def _sort_tokens(self, source: ModelInput, dims: tuple[InputDimension, ...]) -> None:
        is_whole = source.dtype is not None and source.dtype.name in _FLAGS
        at = len(dims) - 1 if is_whole else max(len(dims) - 2, 0)
        self._note_batch(dims[:1] if at else ())
        self._new |= self._open(dims[at : at + 1])
        if (size := dims[at].fixed) is not None:
            self._fixed_new[source.name] = size

    def _sort_cache(
        self, source: ModelInput, dims: tuple[InputDimension, ...], cache: DecoderCache | None
    ) -> None:
        """The length of a cache: the axis along which the graph extends it, else what is open."""
        self._note_batch(dims[1:2] if dims[0].fixed == 2 and len(dims) == 5 else dims[:1])
        if cache is not None and cache.axis is not None:
            dim = dims[cache.axis]
            if dim.fixed is not None and dim.fixed > 0:
                self._fixed_caches[source.name] = dim.fixed, cache
            self._cached |= dict.fromkeys(self._open((dim,)), cache)
            return
        lengths = [dim for dim in dims if self._open((dim,))]
        # Where two are open, the last axis is the size of a head, as ONNX Runtime GenAI
        # leaves it open: kv_cache_dim, after past_sequence_length.
        if len(lengths) > 1 and lengths[-1].axis == len(dims) - 1:
            del lengths[-1]
        named = [dim for dim in lengths if _LENGTH_NAME.search(dim.symbol)]
        self._cached |= dict.fromkeys((dim.symbol for dim in named or lengths), cache)

    def _note_batch(self, dims: Iterable[InputDimension]) -> None:
        self.batch |= {dim.symbol for dim in dims if dim.fixed is None} - self._computed.keys()

    def _open(self, dims: Iterable[InputDimension]) -> set[str]:
        """Symbols that are open, not the batch, and not expressions of others."""
        batch = self.batch | (
            frozenset() if self._dimensions.is_batch_guessed else self._dimensions.batch_symbols
        )
        return {
            dim.symbol
            for dim in dims
            if dim.fixed is None and dim.symbol not in self._computed and dim.symbol not in batch
        }

    def _check(self) -> None:
        self.batch -= self._new | self._masked
        new = self._new - self._cached.keys() or self._fixed_new
        cached = self._cached or self._fixed_caches
        missing = [what for what, is_found in (("cached", cached), ("new", new)) if not is_found]
        if missing:
            raise UsageError(
                "the network does not look like a decoder: no dimension of "
                f"{' or '.join(missing)} tokens was found in its inputs",
                fix="set its dimensions by name with --dim",
            )
        self._new -= self._cached.keys()

    def _cached_size(self, symbol: str, cache: DecoderCache | None, stage: Stage) -> int | None:
        """The length of a cache; None where its window is not in the file."""
        if cache is None:
            return None if _SLIDING.search(symbol) else stage.n_cached
        n_rows = stage.n_all if is_buffer(self._model, cache) else stage.n_cached
        window = self._window(cache)
        if window is None and _SLIDING.search(symbol):
            return None
        return n_rows if window is None else min(n_rows, window)

    def _window(self, cache: DecoderCache) -> int | None:
        """The most rows that a cache keeps; None where it keeps all, or the file does not say."""
        node = node_of(self._model, cache)
        names = {dim.symbol for dim in self._dimensions.by_input[cache.past]}
        if is_ring(node) or any(map(_SLIDING.search, names)):
            stated = node.attributes.get("local_window_size")
            if isinstance(stated, int) and stated > 0:
                return stated
        return cache.window


def _length_inputs(model: Model) -> Mapping[str, str]:
    """Inputs of the network with an attention's number of keys, and what each counts."""
    shown = same_numbers(model)
    lengths: dict[str, str] = {}
    for node in model.nodes:
        places = ATTENTION.get((node.domain, node.op_type))
        for what, position in places.lengths.items() if places is not None else ():
            name = node.inputs[position] if position < len(node.inputs) else ""
            if name in shown:
                lengths[shown[name]] = what
    return lengths
