"""Measures a job in a container: the job goes in as one line, events come out as lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import msgspec

from mansard.containers.engine import Access, Engine, EngineFacts
from mansard.containers.engine_errors import BUILD_IMAGE, SPECIFICATION, TOOLKIT
from mansard.containers.launch import SILENCE_S, launched, shown_image
from mansard.containers.settings import BOARD, Launch
from mansard.core.errors import ContainerError
from mansard.core.line_channel import DECODE_ERRORS, HEARTBEAT_S, encode_line
from mansard.core.records import Processor
from mansard.core.text import printable
from mansard.core.version import VERSION
from mansard.microbench.events import Done, Event, Failed, Job
from mansard.microbench.probing import Probe

PROGRAM = ("-m", "mansard.microbench")
# Six signs of life in a row are missed: the engine, or the way to it, is gone.
_HEARTBEAT = ("--heartbeat", str(6 * HEARTBEAT_S))
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class ContainerMeasurer:
    """A measurer whose work is done in a container of its own for each job.

    The command of ``launch`` is the Python of the image alone.
    """

    engine: Engine
    launch: Launch
    silence_s: float = SILENCE_S

    def __call__(self, job: Job) -> Iterator[Event]:
        """Do the job; closing the iterator ends the container. Raises ContainerError.

        What goes wrong inside arrives as the event ``Failed``.
        """
        launch = msgspec.structs.replace(
            with_arguments(self.launch, "--job", *_HEARTBEAT, *_board(self.launch)),
            run=job.plan.run_id,
        )
        message = encode_line(job)
        with launched(self.engine, launch, message) as container:
            for line in container.lines(self.silence_s):
                event = decode_event(line)
                yield event
                if isinstance(event, Done | Failed):
                    return
        raise ContainerError(
            "the container ended well, but before the measurement was through",
            fix=f"{BUILD_IMAGE}; what was measured is kept",
        )


def with_arguments(launch: Launch, *arguments: str) -> Launch:
    """``launch`` for the measuring program with these arguments."""
    return msgspec.structs.replace(launch, command=(*launch.command, *PROGRAM, *arguments))


def decode_event(line: bytes) -> Event:
    """One line of a measuring process; raises ContainerError for one that is no event."""
    try:
        return _decoder().decode(line)
    except DECODE_ERRORS as error:
        shown = printable(line[:_SHOWN_CHARACTERS].decode("utf-8", "replace"))
        raise ContainerError(
            f"the container wrote what is no event ({error}): {shown}",
            fix=f"it may hold another version: {BUILD_IMAGE}; what was measured is kept",
        ) from error


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(Event)


def _board(launch: Launch) -> tuple[str, ...]:
    return () if launch.board is None else ("--board", str(BOARD))


# Asks a container what it can measure with, before anything is planned or measured.
#
# That a container was started says nothing: podman leaves GPUs out in silence, and NVML counts
# a GPU on a Jetson that then answers no question. What counts is what CUDA answers inside.


# CUDA's start on a small board that was just switched on, and a first compilation.
SILENCE_S = 180.0
_MAX_LINES = 1000  # of what libraries print before the answer


def probe_in_container(engine: Engine, launch: Launch, processor: Processor) -> Probe:
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


def ask(engine: Engine, launch: Launch, processor: Processor) -> Probe:
    """The answer itself, whatever it says; raises ContainerError where there is none."""
    asked = msgspec.structs.replace(with_arguments(launch, "--probe", processor), run="probe")
    last = b""
    with launched(engine, asked) as container:
        for number, line in enumerate(container.lines(SILENCE_S)):
            last = line
            if number > _MAX_LINES:
                break
    try:
        return msgspec.json.decode(last, type=Probe)
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
    """What most likely helps where a container was started, but sees no GPU."""
    if facts.is_podman:
        return (
            "podman's Docker API leaves GPUs out without a word (seen up to 4.9): "
            "use Docker, or measure without a container: LOCAL=1"
        )
    if access.kind == "none":
        return "the container was started without a GPU; report this"
    if access.kind == "cdi":
        return SPECIFICATION
    return f"look whether 'nvidia-smi' (a board: 'tegrastats') answers on the host, then {TOOLKIT}"
