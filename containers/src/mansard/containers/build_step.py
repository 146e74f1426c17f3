"""One run of the engine's builder: the classic one, which needs nothing but the engine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

from mansard.containers.build_errors import explain_build
from mansard.containers.context import Step, write_tar
from mansard.containers.engine import Engine
from mansard.containers.engine_errors import explained
from mansard.containers.engine_http import answer, messages
from mansard.core.errors import MansardError
from mansard.core.files import storage_error

SILENCE_S = 1800.0  # pip says nothing while it downloads; a slow line takes its time
_KEPT_LINES = 200
_BUILD_STAGE = "mansard.stage=build"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Arguments that every Dockerfile has, and that leave no trace in the image.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_NOTHING: Mapping[str, Path] = MappingProxyType({})
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


def run_step(
    engine: Engine,
    step: Step,
    *,
    network: str,
    tell: Callable[[str], None],
    large: Mapping[str, Path] = _NOTHING,
    labels: Mapping[str, str] = _NO_LABELS,
) -> None:
    """Build one image; raises ContainerError or StorageError.

    ``large`` are files for the context that are not read into memory. Whatever ends the
    build early ends the engine's part as well: it sees that nobody listens, removes its
    container, and gives no name.
    """
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    tell(f"building {step.tag}")
    parameters = {
        "t": step.tag,
        "buildargs": json.dumps({**_proxies(network), **step.arguments}),
        "labels": json.dumps({"mansard.content": step.content, **labels}),
        "networkmode": network,
        "rm": "1",
        "forcerm": "1",  # a build that fails leaves no container
    }
    with (
        _context(step, large) as context,
        _build_errors(step.tag, said),
        answer(
            engine, "POST", "/build", parameters=parameters, content=context, timeout_s=SILENCE_S
        ) as response,
    ):
        for message in messages(response):
            for line in _COLOUR.sub("", str(message.get("stream") or "")).splitlines():
                if line.strip():
                    said.append(line)
                    tell(line.rstrip())
            if message.get("error"):
                raise explain_build(str(message["error"]), step.tag, tuple(said))


def remove_build_stage(engine: Engine) -> None:
    """Remove what only served a build: wheels, pip, and what they were unpacked to."""
    with explained(engine.address):
        engine.client.images.prune(filters={"dangling": True, "label": _BUILD_STAGE})


def _proxies(network: str) -> dict[str, str]:
    """The proxies of this process: a build on the host's network goes through them as well."""
    if network == "none":
        return {}
    return {name: os.environ[name] for name in _PROXIES if name in os.environ}


@contextlib.contextmanager
def _context(step: Step, large: Mapping[str, Path]) -> Iterator[IO[bytes]]:
    """The tar as a temporary file without a name: it is gone whatever happens."""
    is_written = False
    try:
        with tempfile.TemporaryFile(prefix="mansard-context-") as stream:
            write_tar(stream, step.files, large)
            stream.seek(0)
            is_written = True
            yield stream
    except OSError as error:
        if is_written:  # it is the caller's own
            raise
        raise storage_error(error, Path(tempfile.gettempdir())) from error


@contextlib.contextmanager
def _build_errors(where: str, said: Sequence[str]) -> Iterator[None]:
    """Errors of the engine and of the line to it, in words."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except MansardError:
        raise
    except (DockerException, RequestException, HTTPError, OSError, json.JSONDecodeError) as error:
        raise explain_build(error, where, tuple(said)) from error
