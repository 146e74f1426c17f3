"""Errors of the container engine as one line each, with what to do about it.

The engine answers in prose that changes between versions: a few words of each answer are
looked for. Sources: answers of Docker 20.10 that were seen, messages in the sources of moby
and of NVIDIA's container toolkit.

Of a build the daemon only repeats the last words of what ran in it, so what pip and apt said
before is looked at as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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
BUILD_IMAGE = "run 'mansard data image build'"
_SHOWN_CHARACTERS = 300


class Remedy(msgspec.Struct, frozen=True):
    """Words of an engine's answer, their meaning, and a remedy."""

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
    """The engine's message, without what the SDK and the HTTP library put around it."""
    said = getattr(error, "explanation", None)  # of docker.errors.APIError
    if isinstance(said, bytes):
        said = said.decode("utf-8", "replace")
    return masked(str(said or error or type(error).__name__))


@contextmanager
def explained(
    where: str, make_error: Callable[[Exception, str], MansardError] = explain
) -> Iterator[None]:
    """Turns errors of the engine, and of reading its answers, into those of ``make_error``.

    Any other error inside would be taken for one of these.
    """
    try:
        yield
    except MansardError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, MansardError):  # the SDK wraps those of its first request
            raise error.__cause__ from error
        raise make_error(error, where) from error


def short(said: str) -> str:
    """``said`` on one line, its beginning."""
    line = " ".join(said.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


_FREE = "free some space: 'docker system df' says what takes it, 'docker system prune' helps"
_OFFLINE = (
    "check the network and its proxy; without one build from a folder of wheels (--wheels), "
    "or load an image that another machine saved"
)
BUILD_REMEDIES = (
    Remedy(
        r"no space left on device|disk quota exceeded",
        "the disk of the container engine is full",
        _FREE,
        StorageError,
    ),
    Remedy(
        r"temporary failure|no such host|could not resolve|network is unreachable|"
        r"failed to establish a new connection|i/o timeout|tls handshake timeout|"
        r"no route to host|dial tcp|connection timed out|unable to connect to",
        "no network",
        _OFFLINE,
    ),
    Remedy(
        r"no matching manifest|does not match the (specified|detected)|exec format error",
        "the base image is not there for this machine's processor",
        "name another base in images.toml",
    ),
    Remedy(
        r"manifest unknown|manifest for .* not found|pull access denied|repository does not exist|"
        r"not found: manifest|name unknown|no such image",
        "the base image is not there",
        "name another base in images.toml, or 'docker login' where it is not public",
    ),
    Remedy(
        r"unauthorized|authentication required|denied: ",
        "the registry asks for a login",
        "run 'docker login' with its name",
    ),
    Remedy(
        r"no matching distribution found|could not find a version",
        "a library is not to be had for this Python and processor",
        "with --wheels: put its wheel into the folder; else the package index lacks it",
    ),
    Remedy(
        r"python3.{0,40}(not found|no such file)|no module named pip",
        "the base image has no Python with pip",
        'name another base in images.toml, or the recipe "ubuntu" or "standalone"',
    ),
    Remedy(
        r"ended prematurely|incompleteread|connection broken|connection aborted|remotedisconnected",
        "the container engine went away in the middle",
        "look at its log ('journalctl -u docker'), start it, and run the same command again",
    ),
    Remedy(
        r"returned a non-zero code: 137|\bkilled\b|cannot allocate memory",
        "the build was killed: most likely the machine ran out of memory",
        "close what else runs there, or build on another machine, save it and load it here",
    ),
)
# What pip, apt and Python begin such lines with; and pip's last of five attempts.
_CULPRIT = re.compile(r"^\s*(?:ERROR|E|Err|OSError)\b|No space left|Retry\(total=0", re.IGNORECASE)


def explain_build(
    error: BaseException | str, where: str, said: Sequence[str] = (), *, done: str = "built"
) -> MansardError:
    """The error for ``where``, which could not be ``done``, by what the engine ``said``."""
    message = masked(error) if isinstance(error, str) else message_of(error)
    # The lines that name a fault, the last one first. The remedies are in the order of causes:
    # without a network pip also says that it found no library.
    culprits = [line.strip() for line in reversed(said) if _CULPRIT.search(line)]
    for remedy in BUILD_REMEDIES:
        for text in (*culprits, message):
            if re.search(remedy.words, text, re.IGNORECASE):
                return remedy.kind(f"{remedy.what}: {short(text)}", where=where, fix=remedy.fix)
    if not isinstance(error, str):
        return explain(error, where)
    return ContainerError(
        f"the image could not be {done}: {short(culprits[0] if culprits else message)}",
        where=where,
        fix="look at the engine's log ('journalctl -u docker')",
    )
