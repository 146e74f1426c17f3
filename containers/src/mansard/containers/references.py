"""Names of images, as Docker writes them: host/path:tag@digest.

Grammar: the module ``reference`` of the Distribution project, without its rare forms.
"""

from __future__ import annotations

import re

import msgspec

from mansard.core.errors import InputError
from mansard.core.text import printable

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")
_NAME = re.compile(
    rf"(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LONGEST = 512
DEFAULT_HOST = "docker.io"


class Reference(msgspec.Struct, frozen=True):
    """The parts of an image's name."""

    host: str
    path: str
    tag: str
    digest: str | None

    @property
    def repository(self) -> str:
        """The name without tag and digest."""
        return f"{self.host}/{self.path}"


def parse_reference(text: str) -> Reference | None:
    """``nvcr.io/nvidia/cuda:12.8`` in its parts; None where it is no name of an image."""
    if len(text) > _LONGEST:
        return None
    first, _, rest = text.partition("/")
    # Docker's rule: the first part is a host if it has a dot or a colon, or is localhost.
    has_host = bool(rest) and ("." in first or ":" in first or first == "localhost")
    host = first if has_host else DEFAULT_HOST
    found = _NAME.fullmatch(rest if has_host else text)
    if found is None or not _HOST.fullmatch(host):
        return None
    path = found["path"]
    if host == DEFAULT_HOST and "/" not in path:
        path = f"library/{path}"
    return Reference(host, path, found["tag"] or "latest", found["digest"])


def check_reference(text: str, where: str) -> Reference:
    """The parts of an image's name; raises InputError where it is none."""
    found = parse_reference(text)
    if found is None:
        raise InputError(
            f"{printable(text, 100)!r} is no name of an image",
            where=where,
            fix="write it as host/path:tag",
        )
    return found
