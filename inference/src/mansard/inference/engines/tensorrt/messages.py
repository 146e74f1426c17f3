"""TensorRT's messages, collected instead of printed, and the progress of a build.

A process has one logger: TensorRT keeps the first that it is given, and ignores all others. So
builders, parsers and runtimes take this one. Where TensorRT fails it returns None instead of
raising; the reason is in its log, between messages that follow from it, and becomes one line.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
import warnings as python_warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mansard.core.errors import MeasurementError, TransientError
from mansard.core.text import first_of
from mansard.inference.engines.tensorrt.versions import Version
from mansard.inference.plan import BUILDING_S

# Between two announcements, so that the channel is not filled.
PAUSE_S = 2.0


@dataclass
class _Phase:
    parent: str | None
    n_steps: int
    n_done: int = 0


class BuildProgress:
    """Phases within phases, as one fraction that never falls; TensorRT calls from its threads.

    ``stopped``: what a callback raised. Nothing may be raised through TensorRT, so the build is
    cancelled, and the caller of the builder raises this.
    """

    def __init__(
        self,
        title: str,
        announce: Callable[[str, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stopped: BaseException | None = None
        self._title, self._announce, self._clock = title, announce, clock
        self._lock = threading.Lock()
        self._phases: dict[str, _Phase] = {}
        self._fraction = 0.0
        self._told_s = clock()

    def start(self, name: str, parent: str | None, n_steps: int) -> None:
        """A phase begins."""
        with self._lock:
            self._phases[name] = _Phase(parent, max(n_steps, 1))

    def step(self, name: str) -> bool:
        """One step of a phase is done; False cancels the build."""
        with self._lock:
            if (phase := self._phases.get(name)) is not None:
                phase.n_done += 1
            try:
                self._report(name)
            except BaseException as error:
                self.stopped = self.stopped or error
            return self.stopped is None

    def finish(self, name: str) -> None:
        """A phase ends; not all of its steps may have been done."""
        with self._lock:
            self._phases.pop(name, None)

    @property
    def fraction(self) -> float:
        """From 0 to 1: finished steps of the outermost phase, plus the current step's share."""
        within: dict[str, float] = {}
        for name, phase in reversed(self._phases.items()):
            done = min((phase.n_done + within.get(name, 0.0)) / phase.n_steps, 1.0)
            if phase.parent is None:
                self._fraction = max(self._fraction, done)
            else:
                within[phase.parent] = max(within.get(phase.parent, 0.0), done)
        return self._fraction

    def _report(self, name: str) -> None:
        fraction, now_s = self.fraction, self._clock()
        if now_s - self._told_s >= PAUSE_S:
            self._told_s = now_s
            self._announce(f"{self._title}: {name}, {fraction:.0%}", BUILDING_S)


def monitor(bindings: Any, progress: BuildProgress) -> Any:
    """A progress monitor for ``progress``; the caller keeps a reference during the build."""

    class Monitor(bindings.IProgressMonitor):  # type: ignore[misc]
        """Passes each phase and step to ``progress``."""

        def __init__(self) -> None:
            bindings.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            progress.start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:  # noqa: ARG002
            return progress.step(phase_name)

        def phase_finish(self, phase_name: str) -> None:
            progress.finish(phase_name)

    return Monitor()


_ERROR, _WARNING = 1, 2  # ILogger.Severity; 0 is an internal error
_MOST_KEPT = 200


@dataclass
class Messages:
    """Errors and warnings in the order in which they came, each once."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def keep(self, severity: int, text: str) -> None:
        """Store one message, unless it is informational or too many are stored."""
        if severity <= _WARNING:
            messages = self.errors if severity <= _ERROR else self.warnings
            if text not in messages and len(messages) < _MOST_KEPT:
                messages.append(text)


@contextlib.contextmanager
def collect_messages(bindings: Any) -> Iterator[tuple[Any, Messages]]:
    """Collect the messages that TensorRT logs while the block runs.

    Python's warnings of deprecated calls are silent meanwhile: the table of versions says which
    calls a version has.
    """
    logger, messages = _logger(bindings), Messages()
    before, logger.messages = logger.messages, messages
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore", DeprecationWarning)
            yield logger, messages
    finally:
        logger.messages = before


@functools.cache
def _logger(bindings: Any) -> Any:
    class Logger(bindings.ILogger):  # type: ignore[misc]
        """Stores messages in the ``Messages`` of the current block."""

        def __init__(self) -> None:
            bindings.ILogger.__init__(self)
            self.messages: Messages | None = None

        def log(self, severity: Any, text: str) -> None:  # called by TensorRT, from any thread
            if self.messages is not None:
                self.messages.keep(int(severity), text)

    return Logger()


_SHOWN = 4  # names in one line
# Around a message: a location in TensorRT's sources, the function, the kind of error.
_PLACE = re.compile(r"^(?:\d+: )?\[[^\]\s]+::[^\]]+\] |^[A-Z]\w+::\w+: |^\w+\.[ch]pp:\d+: ")
_CODE = re.compile(r"^Error Code \d+: (?P<kind>[^(]*?) ?\((?P<what>.*)\)$", re.DOTALL)
_IN_FUNCTION = re.compile(r"[.]? ?In \w+ at \S+?:\d+(?P<rest>.*)$", re.DOTALL)
# Every call of the CUDA runtime fails where there is no driver; the builder goes on.
_NO_DRIVER = re.compile(r"cudaError 35\b|CUDA initialization failure with error: 35\b")
_NO_ANSWER = "TensorRT gives no reason"
_MEMORY_FIX = "close other programs, use a smaller batch, or build it with less workspace"
# These reasons are permanent; with any other, the next build may succeed.
_IS_LASTING = re.compile(
    r"requires workspace memory|insufficient workspace|no scaling factors|HW-specific datatypes|"
    r"GPU_?fallback|falling back to GPU|Unsupported SM|target GPU SM|compute capability|"
    r"While parsing node|Failed to parse|API Usage Error",
    re.I,
)
_RULES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"OutOfMemory|out of memory|cudaErrorMemoryAllocation|std::bad_alloc", re.I),
        "too little memory",
        _MEMORY_FIX,
    ),
    (
        re.compile(r"requires workspace memory greater than|insufficient workspace", re.I),
        "the workspace is too small",
        "give the builder more workspace",
    ),
    (
        re.compile(r"[Cc]ould not find any implementation for node (?P<node>.+?)(?:\.?\)?$| due)"),
        "no kernel can run {node}: none exists in these types, or memory or workspace is short",
        _MEMORY_FIX,
    ),
    (
        re.compile(r"no scaling factors detected"),
        "there is no calibration data for int8",
        "give arrays to calibrate with, or a file with QuantizeLinear nodes",
    ),
    (
        re.compile(r"HW-specific datatypes: (?P<types>[^.]+)"),
        "this device has no {types}",
        "use another precision",
    ),
    (
        re.compile(r"GPU ?fallback|GPU_FALLBACK|falling back to GPU is not", re.I),
        "the DLA cannot run all of it alone",
        "allow the GPU for the rest: even a network whose layers the DLA has may need the GPU to "
        "convert its inputs and outputs",
    ),
    (
        re.compile(r"Unsupported SM|target GPU SM|compute capability .* not supported", re.I),
        "this TensorRT cannot build for this device",
        "use the TensorRT of its JetPack, or a newer one",
    ),
)
_UNSUPPORTED = ("UNSUPPORTED_NODE", "UNSUPPORTED_GRAPH")
_NO_PLUGIN = re.compile(r"Plugin not found|could not find plugin:? ?(?P<op>\w*)")


def explained(messages: Messages, where: str) -> MeasurementError:
    """The error, in one line about ``where``, of a build or load that failed.

    It is a TransientError where the same network may be built another time on the same device.
    """
    errors = [text for text in messages.errors if not _NO_DRIVER.search(text)]
    if not errors and messages.errors:
        return TransientError(
            "there is no NVIDIA driver that TensorRT can use",
            where=where,
            fix="build it on the device that runs it",
        )
    said = "\n".join(errors)
    kind = MeasurementError if _IS_LASTING.search(said) else TransientError
    for pattern, what, fix in _RULES:
        if (match := pattern.search(said)) is not None:
            return kind(what.format(**match.groupdict()), where=where, fix=fix)
    return kind(without_places(errors[0]) if errors else _NO_ANSWER, where=where)


def not_parsed(parser: Any, messages: Messages, version: Version, where: str) -> MeasurementError:
    """The error of a file that the parser rejects."""
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    lacking = dict.fromkeys(filter(None, (_lacking(error, version) for error in errors)))
    if lacking:
        return MeasurementError(
            f"{version.name} has no {first_of(list(lacking), _SHOWN)}",
            where=where,
            fix="use a newer TensorRT, or --engine ort",
        )
    if not errors:
        return explained(messages, where)
    lines = [line for line in str(errors[0].desc()).splitlines() if not _NO_DRIVER.search(line)]
    lines = [line for line in lines if not line.startswith("Invalid Node")] or lines
    what = without_places(lines[0]) if lines else _NO_ANSWER
    return MeasurementError(f"TensorRT cannot read it: {what}", where=where)


def without_places(text: str) -> str:
    """A message on one line, without locations in TensorRT's sources."""
    said = _PLACE.sub("", " ".join(text.split()))
    if (match := _CODE.match(said)) is not None:
        said = match["what"] or match["kind"]
    said = _IN_FUNCTION.sub(lambda match: match["rest"].strip(" )"), said)
    return said.strip() or text.strip()


def remarks(messages: Messages, most: int = 5) -> tuple[str, ...]:
    """The builder's first warnings, without those that do not concern this network."""
    said = dict.fromkeys(map(without_places, messages.warnings))
    warnings = [text for text in said if "CUDA lazy loading" not in text]
    more = [f"{len(warnings) - most} more warnings"] if len(warnings) > most else []
    return (*warnings[:most], *more)


def _lacking(error: Any, version: Version) -> str | None:
    """The operator that the parser reports as missing, and its node."""
    said, code = str(error.desc()), str(error.code()).rpartition(".")[2]
    plugin = _NO_PLUGIN.search(said)
    if plugin is None and code not in _UNSUPPORTED:
        return None
    if not version.has("parser_node_names"):
        return f"operator {plugin['op'] or 'of node'} (node {error.node()})" if plugin else None
    if not error.node_operator():
        return None
    return f"operator {error.node_operator()} ({error.node_name() or error.node()})"
