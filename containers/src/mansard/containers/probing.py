"""Asks a container what it can measure with, before anything is planned or measured.

That a container was started says nothing: podman leaves GPUs out in silence, and NVML counts
a GPU on a Jetson that then answers no question. What counts is what CUDA answers inside.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from mansard.containers.engine import Access, ContainerEngine, EngineFacts
from mansard.containers.engine_errors import BUILD_IMAGE, SPECIFICATION, TOOLKIT
from mansard.containers.launch import launched, shown_image
from mansard.containers.measurer import with_arguments
from mansard.containers.settings import ContainerLaunch
from mansard.core.errors import ContainerError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.records import Processor
from mansard.core.text import printable
from mansard.core.version import VERSION
from mansard.inference.engines.engine import EngineProbe
from mansard.microbench.planning import Probe

# CUDA's start on a small board that was just switched on, and a first compilation.
SILENCE_S = 180.0
_MAX_LINES = 1000  # of what libraries print before the answer
_SHOWN_CHARACTERS = 200
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
    """The answer itself, whatever it says; raises ContainerError where there is none."""
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
        for number, line in enumerate(container.lines(lambda: SILENCE_S)):
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
