"""Measures a job in a container, and probes what a container can measure with.

A job goes in as one line, events come out as lines. That a container was started says nothing:
podman leaves GPUs out in silence, and NVML counts a GPU on a Jetson that then answers no question.
What counts is what CUDA answers inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from mansard.containers.engine import Access, ContainerEngine, EngineFacts
from mansard.containers.engine_errors import BUILD_IMAGE, SPECIFICATION, TOOLKIT
from mansard.containers.launch import launched, shown_image
from mansard.containers.settings import BOARD, BUILT, FILES, OUTPUTS, ContainerLaunch
from mansard.core.errors import ContainerError
from mansard.core.processes.line_channel import DECODE_ERRORS, HEARTBEAT_S
from mansard.core.records import Processor
from mansard.core.text import printable
from mansard.core.version import VERSION
from mansard.inference.engines.engine import EngineProbe
from mansard.inference.plan import BUILDING_S
from mansard.measuring.events import SILENCE_S, Aborted, Done, Event, Lengthy, event_decoder
from mansard.measuring.kind import Job, encode_job, find_kind
from mansard.microbench.plan import Probe

# Six signs of life in a row are missed: the engine, or the way to it, is gone.
HEARTBEAT_OPTION = ("--heartbeat", str(6 * HEARTBEAT_S))
_SHOWN_CHARACTERS = 200
_LINES = 1000  # far more events than a measurement has beside those of its trials


@dataclass(frozen=True)
class ContainerMeasurer:
    """A measurer that runs each job in a new container.

    The command of ``launch`` is the Python of the image alone. ``check`` raises when the
    measurement is to end, say because the board's controller is gone.
    """

    engine: ContainerEngine
    launch: ContainerLaunch
    silence_s: float = SILENCE_S
    check: Callable[[], object] = lambda: None

    def __call__(self, job: Job) -> Iterator[Event]:
        """Do the job; closing the iterator ends the container. Raises ContainerError.

        What goes wrong inside arrives as the event ``Aborted``.
        """
        launch = msgspec.structs.replace(
            with_arguments(
                self.launch, "mansard.measuring", *HEARTBEAT_OPTION, *_places(self.launch)
            ),
            run=job.plan.run_id,
        )
        kind = find_kind(job.plan.kind)
        message, decoder = encode_job(job), event_decoder(kind.row_type)
        most_lines = _LINES + kind.most_events * len(job.plan.trials)
        with launched(self.engine, launch, message) as container:
            patience_s = self.silence_s
            lines = container.lines(lambda: patience_s, self.check)
            for n_lines, line in enumerate(lines):
                if n_lines > most_lines:
                    raise ContainerError(
                        "the container reports more events than its job can have",
                        where=launch.image,
                        fix=f"{BUILD_IMAGE}; what was measured is kept",
                    )
                event = decode_event(line, decoder)
                announced_s = event.at_most_s if isinstance(event, Lengthy) else 0.0
                patience_s = max(self.silence_s, min(announced_s, BUILDING_S))
                yield event
                if isinstance(event, Done | Aborted):
                    return
        raise ContainerError(
            "the container ended well, but before the measurement was through",
            fix=f"{BUILD_IMAGE}; what was measured is kept",
        )


def with_arguments(launch: ContainerLaunch, module: str, *arguments: str) -> ContainerLaunch:
    """``launch`` for a module of ours as the program, with these arguments."""
    return msgspec.structs.replace(launch, command=(*launch.command, "-m", module, *arguments))


def decode_event(line: bytes, decoder: msgspec.json.Decoder[Event]) -> Event:
    """One line of a measuring process; raises ContainerError for one that is not an event."""
    try:
        return decoder.decode(line)
    except DECODE_ERRORS as error:
        shown = printable(line[:_SHOWN_CHARACTERS].decode("utf-8", "replace"))
        raise ContainerError(
            f"the container wrote a line that is not an event ({error}): {shown}",
            fix=f"it may hold another version: {BUILD_IMAGE}; what was measured is kept",
        ) from error


def _places(launch: ContainerLaunch) -> tuple[str, ...]:
    """The paths of the mounts inside the container."""
    board = () if launch.board is None else ("--board", str(BOARD))
    files = () if launch.files is None else ("--files", str(FILES))
    outputs = () if launch.outputs is None else ("--outputs", str(OUTPUTS / BUILT))
    return (*board, *files, *outputs)


# CUDA's start on a small board that was just switched on, and a first compilation.
ANSWER_S = 180.0
_MAX_LINES = 1000  # that libraries may print before the answer
ProbeT = TypeVar("ProbeT", Probe, EngineProbe)


def probe_in_container(
    engine: ContainerEngine, launch: ContainerLaunch, processor: Processor
) -> Probe:
    """What the image can measure ``processor`` with on this machine.

    Raises ContainerError where the image holds another version of Mansard, or where a GPU
    is asked for and there is none that works.
    """
    probe = ask(engine, launch, processor)
    check_version(probe, shown_image(launch.image))
    if processor == "gpu" and probe.gpu is None:
        raise ContainerError(
            f"no GPU in the container: {probe.unknown['gpu']}",
            where=shown_image(launch.image),
            fix=gpu_remedy(launch.access, engine.facts),
        )
    return probe


def ask(engine: ContainerEngine, launch: ContainerLaunch, processor: Processor) -> Probe:
    """The raw answer; raises ContainerError without one."""
    return _ask(engine, with_arguments(launch, "mansard.microbench", "--probe", processor), Probe)


def engine_probe_in_container(
    engine: ContainerEngine, launch: ContainerLaunch, name: str
) -> EngineProbe:
    """What the image can run networks with on this machine, on the engine ``name``.

    Raises ContainerError where there is no answer, or one of another version of Mansard.
    """
    return _ask(engine, with_arguments(launch, "mansard.inference", "--probe", name), EngineProbe)


def _ask(engine: ContainerEngine, launch: ContainerLaunch, kind: type[ProbeT]) -> ProbeT:
    asked = msgspec.structs.replace(launch, run="probe")
    last = b""
    with launched(engine, asked) as container:
        for number, line in enumerate(container.lines(lambda: ANSWER_S)):
            last = line
            if number > _MAX_LINES:
                break
    try:
        return msgspec.json.decode(last, type=kind)
    except DECODE_ERRORS as error:
        shown = printable(last[:_SHOWN_CHARACTERS].decode("utf-8", "replace"))
        raise ContainerError(
            f"the container's answer cannot be read ({error}): {shown}",
            where=shown_image(launch.image),
            fix=f"it may hold another version of Mansard: {BUILD_IMAGE}",
        ) from error


def check_version(probe: Probe, image: str) -> None:
    """Refuse an image with another Mansard: its kernels and records may differ."""
    inside = probe.versions.get("mansard", "an unknown version")
    if inside != VERSION:
        raise ContainerError(
            f"holds Mansard {inside}, this is {VERSION}", where=image, fix=BUILD_IMAGE
        )


def gpu_remedy(access: Access, facts: EngineFacts) -> str:
    """The likely remedy for a started container that sees no GPU."""
    if facts.is_podman:
        return (
            "podman's Docker API silently leaves GPUs out (seen up to 4.9): "
            "use Docker, or measure without a container: LOCAL=1"
        )
    if access.kind == "none":
        return "the container was started without a GPU; report this"
    if access.kind == "cdi":
        return SPECIFICATION
    return f"look whether 'nvidia-smi' (a board: 'tegrastats') answers on the host, then {TOOLKIT}"
