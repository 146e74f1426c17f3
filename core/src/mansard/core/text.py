"""Text that came from outside, made safe to show on a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

MAX_SHOWN_CHARACTERS = 2000
MASK = "***"
_MARGIN_CHARACTERS = 2048  # a password that crosses a cut must still be seen as one
# The part of a URL before the host (RFC 3986, 3.2.1), as people write it: a password may hold an @,
# a / or a quote. A path may be masked by mistake, a password may not be shown. The name of an image
# with a digest is left as it is.
_USER_INFO = re.compile(
    r"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://
    (?:[^/\s:@]*:\S*|(?P<user>[^/\s?\#]*))@(?!sha256:)""",
    re.VERBOSE,
)
_SECRET = re.compile(
    r"""(?P<name>[?&;\#][\w.-]*(?:token|secret|key|passw|pwd|sig|auth|cred|session|jwt)[\w.-]*)
    =[^\s&;'"\#<>]+""",
    re.VERBOSE | re.IGNORECASE,
)


def cpu_list(cpus: Sequence[int]) -> str:
    """CPUs in the kernel's list format: ``0-3,6``."""
    parts = []
    for _, run in groupby(enumerate(cpus), lambda pair: pair[1] - pair[0]):
        numbers = [cpu for _, cpu in run]
        parts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(parts)


def masked(text: str) -> str:
    """``text`` with passwords and tokens in its URLs replaced by three stars.

    A user's name stays where no password is with it and it is no token: ``ssh://user@board``.
    """
    if "://" not in text:
        return text
    return _SECRET.sub(rf"\g<name>={MASK}", _USER_INFO.sub(_mask_user, text))


def _mask_user(found: re.Match[str]) -> str:
    user = found["user"]
    is_name = found["scheme"].lower() == "ssh" and user is not None and ":" not in user
    return found[0] if is_name else f"{found['scheme']}://{MASK}@"


def printable(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """``text`` on one line, with control and direction-changing characters escaped.

    A model's or node's name comes out of a file that may be hostile: without this a
    name could move the cursor, clear the screen or reverse the reading order. Credentials in
    URLs are masked: whatever is shown or kept in a message goes through here.
    """
    safe = masked(text[: limit + _MARGIN_CHARACTERS])[:limit]
    shown = safe if safe.isprintable() else "".join(map(_escape, safe))
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def is_utf8(text: str) -> bool:
    """Whether ``text`` can be written: a word of a command line may hold bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def listed(words: Sequence[str], last: str = "and") -> str:
    """``a, b and c``; empty of none."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
