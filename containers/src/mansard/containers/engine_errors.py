"""Errors of the container engine as one line each, with what to do about it.

The engine answers in prose that changes between versions: a few words of each answer are
looked for. Sources: answers of Docker 20.10 that were seen, messages in the sources of moby
and of NVIDIA's container toolkit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException

import msgspec

from mansard.core.errors import ContainerError, MansardError, StorageError, UsageError
from mansard.core.text import masked

TOOLKIT = (
    "install nvidia-container-toolkit, run 'sudo nvidia-ctk runtime configure --runtime=docker' "
    "and 'sudo systemctl restart docker'"
)
SPECIFICATION = (
    "run 'sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml'; "
    'Docker 25 to 27 also need "features": {"cdi": true} in /etc/docker/daemon.json'
)
START_ENGINE = "start it ('sudo systemctl start docker'), or measure without it: LOCAL=1"
BUILD_IMAGE = "run 'mansard image build'"
_SHOWN_CHARACTERS = 300


class Remedy(msgspec.Struct, frozen=True):
    """Words of an engine's answer, what they mean, and what helps."""

    words: str  # a regular expression, looked for without regard to case
    what: str
    fix: str
    kind: type[MansardError] = ContainerError


REMEDIES = (
    Remedy(
        r"unknown runtime specified|unknown or invalid runtime name",
        "the engine has no runtime called nvidia",
        TOOLKIT,
    ),
    Remedy(
        r'could not select device driver "?cdi',
        "the engine does not know CDI, or it is switched off",
        "use Docker 25 or newer; " + SPECIFICATION,
    ),
    Remedy(r"could not select device driver", "the engine cannot hand a GPU on", TOOLKIT),
    Remedy(
        r"cdi device injection failed|unresolvable cdi device",
        "the engine finds no CDI description of the GPU",
        SPECIFICATION,
    ),
    Remedy(
        r"driver/library version mismatch",
        "the NVIDIA driver was updated while the old one is still loaded",
        "reboot the machine",
    ),
    Remedy(
        r"unsatisfied condition: cuda|nvidia driver .{0,40}(too old|insufficient)",
        "the NVIDIA driver is too old for the CUDA of the image",
        "update the driver, or name an image with an older CUDA in images.toml",
    ),
    Remedy(
        r"nvidia-container-cli|libnvidia-ml\.so|nvidia-container-runtime",
        "NVIDIA's container runtime found no GPU that works",
        "look whether 'nvidia-smi' (a board: 'tegrastats') answers on the host, then " + TOOLKIT,
    ),
    Remedy(
        r"no such image|image not known|image .{0,200} not found",
        "the image is not on this machine",
        BUILD_IMAGE,
    ),
    Remedy(
        r"bind source path does not exist",
        "the folder to be mounted is not there",
        "check the board's root in hosts.toml",
        UsageError,
    ),
    Remedy(
        r"no space left on device",
        "the disk of the container engine is full",
        "free some space: 'docker system df' says what takes it, 'docker system prune' helps",
        StorageError,
    ),
    Remedy(
        r"exec format error|does not match the detected host platform",
        "the image is for another kind of processor",
        BUILD_IMAGE,
    ),
    Remedy(
        r"docker-init|container-init binary",
        "the engine lacks the small program that hands signals on in a container",
        "install it: Docker's comes with docker.io, podman's is the package catatonit",
    ),
    Remedy(
        r"executable file not found|no such file or directory.{0,20}unknown$",
        "the image lacks the program that is to run in it",
        BUILD_IMAGE,
    ),
    Remedy(
        r"oci runtime|failed to create (shim )?task",
        "the engine cannot start the container",
        "look at its log ('journalctl -u docker'), or measure without it: LOCAL=1",
    ),
    Remedy(
        r"client version .{0,20} is too (new|old)|minimum supported API version",
        "the engine and the Docker SDK are too far apart in age",
        "update the engine: Docker 20.10 (December 2020) or newer",
    ),
    Remedy(
        r"\[errno 13\]|permissionerror",
        "this user may not talk to the container engine",
        "'sudo usermod -aG docker $USER' and log in again, or run with sudo",
    ),
    Remedy(r"connection refused", "no container engine answers there", START_ENGINE),
    Remedy(
        r"\[errno 2\]|filenotfounderror|no such file or directory'?\)",
        "there is no container engine",
        "install one (Debian, Ubuntu: 'sudo apt-get install docker.io') or set DOCKER_HOST; "
        "LOCAL=1 measures without one",
    ),
    Remedy(
        r"timed out|timeout",
        "the container engine does not answer in time",
        "look at its log ('journalctl -u docker'), or restart it",
    ),
    Remedy(
        r"connection aborted|remotedisconnected|connection reset|broken pipe|not a socket|"
        r"protocol error|protocol wrong type|badstatusline|invalid response from docker|"
        r"fetching server api version",
        "the server there is not a container engine, or it went away",
        START_ENGINE,
    ),
)


def explain(error: BaseException, where: str) -> MansardError:
    """``error`` of the Docker SDK, or of the system below it, as one line with its remedy."""
    from docker.errors import DockerException
    from urllib3.exceptions import HTTPError

    # All others come up where an answer lacks a field, has one of another kind, or is too deep
    # or too large to be read. What requests raises is an OSError.
    if not isinstance(error, DockerException | HTTPError | HTTPException | OSError):
        kind = type(error).__name__
        return no_engine(where, f": its answer cannot be read ({kind}: {short(message_of(error))})")
    said = message_of(error)
    for remedy in REMEDIES:
        if re.search(remedy.words, said, re.IGNORECASE):
            return remedy.kind(f"{remedy.what}: {short(said)}", where=where, fix=remedy.fix)
    return ContainerError(
        f"the container engine refuses: {short(said)}",
        where=where,
        fix="look at its log ('journalctl -u docker'), or measure without it: LOCAL=1",
    )


def no_engine(where: str, why: str = "") -> ContainerError:
    """The error for another program that listens at ``where``."""
    what = f"the server there is not a container engine{why}"
    return ContainerError(what, where=where, fix=START_ENGINE)


def message_of(error: BaseException) -> str:
    """What the engine said; the SDK's and the HTTP library's own words around it left out."""
    said = getattr(error, "explanation", None)  # of docker.errors.APIError
    if isinstance(said, bytes):
        said = said.decode("utf-8", "replace")
    return masked(str(said or error or type(error).__name__))


@contextmanager
def explained(
    where: str, told: Callable[[Exception, str], MansardError] = explain
) -> Iterator[None]:
    """Errors of the engine, and of reading its answers, are raised as what ``told`` returns.

    Any other error inside would be taken for one of these.
    """
    try:
        yield
    except MansardError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, MansardError):  # the SDK wraps those of its first request
            raise error.__cause__ from error
        raise told(error, where) from error


def short(said: str) -> str:
    """``said`` on one line, its beginning."""
    line = " ".join(said.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
