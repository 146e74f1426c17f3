"""Whether networks fit into the memory of a machine, and what fits instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mansard.analytics.decisions.fitting import (
    BuildFit,
    MemoryFit,
    certainty,
    largest,
    limited,
    need_ends,
    with_less,
)
from mansard.api.inputs import Networks, as_list
from mansard.core.errors import DeviceError, MansardError, ModelError, UsageError
from mansard.core.formats.onnx import model_files, named, split_tags
from mansard.core.hardware.memory import MemoryCapacity, module_memory
from mansard.core.precision import parse_precision
from mansard.core.records import ModelScore
from mansard.device.cards import read_card_memory
from mansard.device.identity import identify
from mansard.device.system import SYSTEM_ROOT
from mansard.device.topology import available_memory_bytes
from mansard.estimator.decoding import Stage, with_stage
from mansard.estimator.engine_memory import (
    MemoryNeed,
    build_needs,
    find_engine_memory,
    memory_needs,
)
from mansard.estimator.language.models import LanguageModels
from mansard.estimator.model import Given
from mansard.estimator.score_context import Settings
from mansard.estimator.scoring import Loaded, load_network, score_loaded, with_defaults
from mansard.sweeps.reporter import SILENT, Reporter

_CONTEXT = 4096  # tokens, where nothing is asked: what Ollama gives a model by default
_STEP = 256  # tokens: caches of llama.cpp are multiples of it
_MOST_TOKENS = 1 << 20  # where a file does not say for how many a model was trained
_MOST_BATCH = 1 << 14
# From the most bytes to the least, by who reads them.
_FORMATS = {
    "llama.cpp": (
        *("Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "IQ4_XS", "Q3_K_L", "Q3_K_M"),
        *("IQ3_M", "Q3_K_S", "IQ3_XS", "IQ3_XXS", "Q2_K", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS"),
    ),
    "vllm": ("FP8", "AWQ", "NVFP4"),
    "tensorrt": ("FP8", "AWQ", "NVFP4"),
    "ort": ("FP8", "AWQ"),
}
_HALF_CACHE = ":kv=fp16"
_PRECISIONS = ("fp16", "int8")


def fit(
    models: Networks,
    *,
    board: Path | str | None = None,
    context: int | None = None,
    batch: int = 1,
    engine: str | None = None,
    reporter: Reporter = SILENT,
) -> tuple[MemoryFit, ...]:
    """Whether each of ``models`` fits, the parts of what it needs, and the most that fits.

    ``models``: ONNX files, GGUF files, folders of Hugging Face models, or names. ``board``: the
    root folder of a board, or a module's name such as "orin-nano-8gb"; None: this machine.
    ``context``: tokens of a language model, 4096 by default. ``engine``: llama.cpp, vllm, tensorrt
    or ort; by default llama.cpp for a language model, else TensorRT on a Jetson and ONNX Runtime
    elsewhere. Nothing is executed. Raises UsageError, ModelError, StorageError and DeviceError.
    """
    machine = _machine(board)
    sources: list[Path | str] = []
    for model in as_list(models):
        files = model_files(str(model))
        sources += [named(model)] if files is None else files
    if len(sources) == 1:
        return (_ModelMemory(sources[0], machine, engine).answer(context, batch),)
    answers = []
    with reporter.progress("Fitting") as progress:
        for number, source in enumerate(sources):
            progress.update(number, len(sources), None, str(source))
            answers.append(_ModelMemory(source, machine, engine).answer(context, batch))
        progress.update(len(sources), len(sources), None, "done")
    return tuple(answers)


class _Machine(msgspec.Struct, frozen=True):
    capacity: MemoryCapacity
    has_gpu: bool
    is_jetson: bool


def _machine(board: Path | str | None) -> _Machine:
    """What a machine can give; raises UsageError for a name, DeviceError where it does not say."""
    if board is not None and not Path(board).is_dir():
        return _Machine(module_memory(str(board)), has_gpu=True, is_jetson=True)
    root = SYSTEM_ROOT if board is None else Path(board)
    machine = identify(root)
    if machine.kind == "gpu":
        free, total = read_card_memory()
        name = machine.accelerators[0] if machine.accelerators else machine.name
        capacity = MemoryCapacity(
            name=name,
            low_bytes=free,
            high_bytes=free,
            total_bytes=total,
            source="free memory of the card, by NVML",
        )
        return _Machine(capacity, has_gpu=True, is_jetson=False)
    available = available_memory_bytes(root)
    if available is None:
        raise DeviceError(
            "/proc/meminfo has no MemAvailable", where=str(root), fix="name a module with --board"
        )
    capacity = MemoryCapacity(
        name=machine.name,
        low_bytes=available,
        high_bytes=available,
        total_bytes=machine.memory_bytes or available,
        source="MemAvailable of /proc/meminfo, now",
    )
    is_jetson = machine.kind == "jetson"
    return _Machine(capacity, has_gpu=is_jetson, is_jetson=is_jetson)


class _ModelMemory:
    """One model on one machine; each case is scored once."""

    def __init__(self, source: Path | str, machine: _Machine, engine: str | None) -> None:
        self._source, self._machine = source, machine
        self._loaded = load_network(source)
        self._is_decoder = self._loaded.drawn or bool(self._loaded.caches.caches)
        self.engine = engine or self._usual_engine()
        if self.engine in ("llama.cpp", "vllm") and not self._loaded.drawn:
            raise UsageError(
                f"{self.engine} runs language models",
                where=str(source),
                fix="use --engine tensorrt or ort",
            )
        if self.engine == "llama.cpp":
            self._loaded = _with_half_cache(source, self._loaded)
        self._memory = find_engine_memory(self.engine)
        self._capacity = limited(machine.capacity, self._memory.share)
        facts = LanguageModels.facts(self._loaded.drawn) if self._loaded.drawn else (0, None)
        self._vocabulary, self._most_tokens = facts
        self._scores: dict[tuple[int | None, int], ModelScore] = {}

    def _usual_engine(self) -> str:
        if self._loaded.drawn:
            return "llama.cpp"
        return "tensorrt" if self._machine.is_jetson else "ort"

    def answer(self, context: int | None, batch: int) -> MemoryFit:
        """The whole answer; raises UsageError for what the model does not have."""
        if context is not None and not self._is_decoder:
            raise UsageError(
                "--context is for language models", where=self._loaded.where, fix="leave it out"
            )
        most = self._most_tokens or _MOST_TOKENS
        if self._is_decoder and context is None:
            context = largest(self._has_length, min(_CONTEXT, most), min(_STEP, most))
        if context is not None and context > most:
            raise UsageError(
                f"the model was trained for {most:,} tokens, not {context:,}",
                where=self._loaded.where,
                fix=f"give at most --context {most}",
            )
        needs = self._needs(context, batch)
        longest = largest(lambda n: self._fits(n, batch), most, _STEP) if context else None
        largest_batch = largest(lambda n: self._fits(context, n), _MOST_BATCH)
        low, high = need_ends(needs)
        certain = certainty(needs, self._capacity)
        verdict, less = with_less(certain, (context, batch), longest, largest_batch)
        return MemoryFit(
            model=self._loaded.name,
            engine=self.engine,
            precision=self._score(context, 1).precision,
            context=context,
            batch=batch,
            verdict=verdict,
            needs=needs,
            low_bytes=low,
            high_bytes=high,
            capacity=self._capacity,
            longest_context=longest,
            largest_batch=largest_batch,
            less=less,
            smaller=None if certain == "fits" else self._smaller(context, batch),
            build=self._build(context) if self.engine == "tensorrt" else None,
            notes=self._notes(most if self._is_decoder else None),
        )

    def _fits(self, context: int | None, batch: int) -> bool:
        try:
            return certainty(self._needs(context, batch), self._capacity) == "fits"
        except (ModelError, UsageError):
            return False  # the file has a batch, or a longest length

    def _has_length(self, context: int) -> bool:
        try:
            return bool(self._score(context, 1).layers)
        except ModelError:
            return False  # positions were learned up to a length

    def _needs(self, context: int | None, batch: int) -> tuple[MemoryNeed, ...]:
        # llama.cpp and vLLM compute so many tokens at once whatever the number of sequences.
        is_joined = self._memory.n_new is not None
        return memory_needs(
            self._score(context, 1 if is_joined else batch),
            self._memory,
            n_sequences=batch if is_joined else 1,
            vocabulary=self._vocabulary,
            has_gpu=self._machine.has_gpu,
        )

    def _score(self, context: int | None, batch: int) -> ModelScore:
        key = context, batch
        if key not in self._scores:
            self._scores[key] = score_case(self._loaded, context, batch, self._memory.n_new)
        return self._scores[key]

    def _build(self, context: int | None) -> BuildFit:
        needs = build_needs(self._score(context, 1), is_language_model=bool(self._loaded.drawn))
        low, high = need_ends(needs)
        verdict = certainty(needs, self._machine.capacity)
        return BuildFit(verdict=verdict, needs=needs, low_bytes=low, high_bytes=high)

    def _smaller(self, context: int | None, batch: int) -> str | None:
        """The next smaller format, or precision of an ONNX file, that surely fits."""
        now = _weights(self._needs(context, batch))
        if not self._loaded.drawn:
            return self._smaller_precision(context, batch, now)
        plain, tags = split_tags(str(self._source))
        cache = "".join(f":{tag}" for tag in tags if "=" in tag)
        for name in _FORMATS[self.engine]:
            text = f"{plain}:{name}{cache}"
            source = Path(text) if isinstance(self._source, Path) else text
            try:
                other = _ModelMemory(source, self._machine, self.engine)
                is_smaller = _weights(other._needs(context, batch)) < now
            except MansardError:
                continue  # rows that are not whole blocks of this format
            if is_smaller and other._fits(context, batch):
                return name
        return None

    def _smaller_precision(self, context: int | None, batch: int, now: int) -> str | None:
        for name in _PRECISIONS:
            score = score_case(self._loaded, context, batch, self._memory.n_new, name)
            needs = memory_needs(score, self._memory, has_gpu=self._machine.has_gpu)
            if _weights(needs) < now and certainty(needs, self._capacity) == "fits":
                return name
        return None

    def _notes(self, most: int | None) -> tuple[str, ...]:
        notes = []
        if self._memory.share is not None:
            notes.append(
                f"vLLM may have {self._memory.share:.0%} of all memory "
                "(vLLM --gpu-memory-utilization), and counts the page cache of a Jetson as used: "
                "drop it before a start"
            )
        if self.engine == "llama.cpp" and self._is_decoder:
            notes.append(
                "llama.cpp's server keeps past prompts in memory, by default up to 8 GiB "
                "(llama-server --cache-ram 0): that is not counted"
            )
        if self._is_decoder and self._most_tokens is None and most is not None:
            notes.append("the file does not say how many tokens the model was trained for")
        return tuple(notes)


def _with_half_cache(source: Path | str, loaded: Loaded) -> Loaded:
    """A model as llama.cpp runs it: the cache is fp16 in whatever the weights are stored."""
    if any("=" in tag for tag in split_tags(str(source))[1]):
        return loaded
    text = f"{source}{_HALF_CACHE}"
    half = load_network(Path(text) if isinstance(source, Path) else text)
    return msgspec.structs.replace(half, name=loaded.name, where=loaded.where)


def _weights(needs: Sequence[MemoryNeed]) -> int:
    return next(need.low_bytes for need in needs if need.part == "weights")


def score_case(
    loaded: Loaded,
    context: int | None,
    batch: int,
    n_new: int | None,
    precision: str | None = None,
) -> ModelScore:
    """The score of the call that needs most: the last part of a prompt as long as the context."""
    given = Given(batch=batch)
    counted = None if precision is None else parse_precision(precision)
    settings = Settings(given, counted, allow_unknown=True)
    if context is not None:
        n_last = min(context, n_new or context)
        given, _ = with_stage(loaded, given, Stage(n_last, context - n_last))
        settings = msgspec.structs.replace(settings, kv_cache="in-place")
    given = with_defaults(loaded, given)
    return score_loaded(loaded, msgspec.structs.replace(settings, given=given))
