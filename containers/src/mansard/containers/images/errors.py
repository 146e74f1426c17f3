"""What goes wrong while an image is pulled or built, as one line each with its remedy.

The daemon only repeats the last words of what ran in the build, so what pip and apt said
before is looked at as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mansard.containers.engine_errors import Remedy, explain, message_of, short
from mansard.core.errors import ContainerError, MansardError, StorageError
from mansard.core.text import masked

_FREE = "free some space: 'docker system df' says what takes it, 'docker system prune' helps"
_OFFLINE = (
    "check the network and its proxy; without one build from a folder of wheels (--wheels), "
    "or load an image that another machine saved"
)
REMEDIES = (
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
    """``error`` of what was to be ``done`` with ``where``, after the lines it had ``said``."""
    own = masked(error) if isinstance(error, str) else message_of(error)
    # The lines that name a fault, the last one first. The remedies are in the order of causes:
    # without a network pip also says that it found no library.
    culprits = [line.strip() for line in reversed(said) if _CULPRIT.search(line)]
    for remedy in REMEDIES:
        for text in (*culprits, own):
            if re.search(remedy.words, text, re.IGNORECASE):
                return remedy.kind(f"{remedy.what}: {short(text)}", where=where, fix=remedy.fix)
    if not isinstance(error, str):
        return explain(error, where)
    return ContainerError(
        f"the image could not be {done}: {short(culprits[0] if culprits else own)}",
        where=where,
        fix="look at the engine's log ('journalctl -u docker')",
    )
