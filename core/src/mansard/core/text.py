"""Text that came from outside, made safe to show: on one line, without secrets.

Passwords, tokens and keys become three stars: by the name before a value (``--token X``,
``PASSWORD=X``, ``Authorization: X``), by the place in a URL, and by the form that services give
their keys. A word may be masked by mistake, a secret may not be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

MAX_SHOWN_CHARACTERS = 2000
_NAME_PART = re.compile(r"([^0-9]*)([0-9]{0,18})")
_CUT = re.compile(r"… \(\d+ characters\)")
_MARGIN_CHARACTERS = 2048  # a password that crosses a cut must still be seen as one


def cpu_list(cpus: Sequence[int]) -> str:
    """CPUs in the kernel's list format: ``0-3,6``."""
    parts = []
    for _, run in groupby(enumerate(cpus), lambda pair: pair[1] - pair[0]):
        numbers = [cpu for _, cpu in run]
        parts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(parts)


def printable(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """``text`` on one line, with control and direction-changing characters escaped.

    A model's or node's name comes out of a file that may be hostile: without this a
    name could move the cursor, clear the screen or reverse the reading order. Secrets
    are masked: whatever is shown or kept in a message goes through here.
    """
    safe = masked(text[: limit + _MARGIN_CHARACTERS])[:limit]
    shown = safe if safe.isprintable() else "".join(map(_escape, safe))
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def uncounted(text: str) -> str:
    """``printable`` text without the numbers of characters: a cut text ends in its ellipsis."""
    return _CUT.sub("…", text)


def is_utf8(text: str) -> bool:
    """Whether ``text`` can be written: a word of a command line may hold bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def natural_key(name: str) -> tuple[tuple[str, int], ...]:
    """Sorts numbers in names by their size: ``decode 4096`` comes before ``decode 16384``."""
    parts = _NAME_PART.findall(name)
    return (*((text, int(digits or -1)) for text, digits in parts), (name, 0))


def capitalized(text: str) -> str:
    """``text`` with a capital first letter; the others stay."""
    return text[:1].upper() + text[1:]


def listed(words: Sequence[str], last: str = "and") -> str:
    """``a, b and c``; empty of none."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def first_of(words: Sequence[str], limit: int) -> str:
    """The first ``limit`` words, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return ", ".join(words[:limit]) + more


_NUMBER = r"\b\d+(?:\.\d+)?\b"


def without_numbers(text: str) -> str:
    """``text`` with ``#`` for each number: equal for texts that ``with_ranges`` joins."""
    return re.sub(_NUMBER, "#", text)


def with_ranges(texts: Sequence[str]) -> str:
    """Texts that differ only in their numbers as one: ``fell to 300 to 500 MHz``."""
    columns = zip(*(re.findall(_NUMBER, text) for text in texts), strict=True)
    ends = ((min(column, key=float), max(column, key=float)) for column in columns)
    ranges = iter([low if low == high else f"{low} to {high}" for low, high in ends])
    return re.sub(_NUMBER, lambda _: next(ranges), texts[0])


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


MASK = "***"
# Each pattern below needs one of these, in small letters. To compile the patterns takes as long as
# to score a small network, and most texts have none of these.
_SIGNS = (
    *("://", "pass", "pw", "secret", "credential", "bearer", "basic", "jwt", "cookie", "key"),
    *("token", "auth", "pat", "akia", "asia", "abia", "acca", "ghp_", "gho_", "ghu_", "ghs_"),
    *("ghr_", "glrt-", "gldt-", "hf_", "api_org_", "sk-", "xox", "aiza", "ya29.", "nvapi-"),
    *("npm_", "pypi-", "eyj"),
)
# The part of a URL before the host (RFC 3986, 3.2.1), as people write it: a password may hold an @,
# a / or a quote. A path may be masked by mistake, a password may not be shown. The name of an image
# with a digest is left as it is.
_USER_INFO = r"""(?x)(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://
    (?:[^/\s:@]*:\S*|(?P<user>[^/\s?\#]*))@(?!sha256:)"""
_OF_URL = r"""(?xi)
    (?P<name>[?&;\#][\w.-]*(?:token|secret|key|passw|pwd|sig|auth|cred|session|jwt)[\w.-]*)
    =[^\s&;'"\#<>]+"""
# Names of values that are secret, whatever stands before and after: DB_PASSWORD, --hf-token. In
# this field a token is also a piece of text: --max-tokens, tokenizer and n_token hold a number.
_KEYS = "api|access|private|account|encryption|auth|signing|secret|license"
_PIECES = "max|num|min|new|eos|bos|pad|per|n"
_NAME = rf"""(?:[A-Za-z0-9_.-]*
      (?:passw(?:or)?d|passphrase|passcode|pwd|secret|credentials?|bearer|jwt|cookie
        |(?:{_KEYS})[_-]?keys?)[A-Za-z0-9_.-]*
    |(?![_.-]*(?:[A-Za-z0-9]+[_.-])*(?:{_PIECES})[_-]token)(?:[A-Za-z0-9_.-]*[_.-])?
      (?:token|auth|authorization|authkey|pass|pat|pw)(?:[_.-](?:value|string|hex))?)"""
_NAMED = rf"(?xi)(?P<name>{_NAME})(?![A-Za-z0-9_-])"
_OPTION = (
    rf"""(?xi)(?P<before>(?<![\w-])--?{_NAME}(?:=|\s+))(?P<value>"[^"]*"|'[^']*'|[^\s'"-][^\s]*)"""
)
_ASSIGNED = (
    rf"""(?xi)(?P<before>(?<![\w-]){_NAME}["']?\]?\s*=\s*)(?P<value>"[^"]*"|'[^']*'|[^\s'",;&]+)"""
)
_HEADER = r"""(?xi)(?P<before>\b(?:(?:proxy-)?authorization|x-[a-z-]*(?:key|token|auth|secret)
        |private-token|(?:set-)?cookie)\s*:\s*)
    (?P<value>[^'"\r\n]+)"""
_JSON = rf"""(?xi)(?P<before>["']{_NAME}["']\s*:\s*)(?P<value>"[^"]*"|'[^']*')"""
_BEARER = r"(?i)(?P<before>\b(?:bearer|basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})"
# Forms of keys: AWS, GitHub, GitLab, Hugging Face, OpenAI and others, Slack, Google, NVIDIA, npm,
# PyPI, Weights & Biases; JSON web tokens; the body of a key in PEM.
_FORMS = r"""(?x)\b(?:(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|gh[pousr]_[A-Za-z0-9]{8,}
    |github_pat_\w{8,}|gl(?:pat|rt|dt)-[\w-]{8,}|hf_[A-Za-z0-9]{8,}|api_org_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{12,}|xox[a-z]-[\w-]{8,}|AIza[\w-]{20,}|ya29\.[\w-]{10,}
    |nvapi-[\w-]{8,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{8,}
    |eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?)
    |(?<=PRIVATE\ KEY-----)[^-]+"""
_PAIR = r"[^\s:/]+:[^\s]+"
_LOGIN_OPTIONS = frozenset({"-u", "--user", "--userpwd", "--proxy-user", "-U", "--login"})
# Programs that take a password in a one-letter option, by their manuals. In other programs the
# letter means a port, a path or a priority.
_BY_LETTER = {
    **dict.fromkeys(("docker login", "podman login", "helm login"), "-p"),
    **dict.fromkeys(("sshpass", "mysql", "mysqldump", "mysqladmin", "mariadb", "mongosh"), "-p"),
    **dict.fromkeys(("ldapsearch", "ldapmodify"), "-w"),
    "redis-cli": "-a",
}


def masked(text: str) -> str:
    """``text`` with passwords, tokens and keys replaced by three stars.

    A user's name stays where no password is with it and it is no token: ``ssh://user@board``.
    """
    if text.isascii() and not any(map(text.lower().__contains__, _SIGNS)):
        return text
    if "://" in text:
        text = re.sub(_OF_URL, rf"\g<name>={MASK}", re.sub(_USER_INFO, _mask_user, text))
    for pattern in (_HEADER, _JSON, _OPTION, _ASSIGNED, _BEARER):
        text = re.sub(pattern, _mask_value, text)
    return re.sub(_FORMS, MASK, text)


def is_secret_name(name: str) -> bool:
    """Whether a variable or an option of this name holds a secret."""
    return re.fullmatch(_NAMED, name.lstrip("-")) is not None


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line, masked; each by itself and by the word before it."""
    return tuple(_masked_words(words))


def _masked_words(words: Sequence[str]) -> Iterator[str]:
    letter = _password_letter(words)
    for before, word in pairwise(("", *words)):
        is_named = before.startswith("-") and "=" not in before and is_secret_name(before)
        is_named |= before == letter != ""
        if is_named and (not word.startswith("-") or len(word) > 1):
            yield MASK
        elif letter and word.startswith(letter) and word != letter:
            yield f"{letter}{MASK}"
        elif before in _LOGIN_OPTIONS and re.fullmatch(_PAIR, word):
            yield f"{word.partition(':')[0]}:{MASK}"
        else:
            yield _masked_assignment(word)


def _password_letter(words: Sequence[str]) -> str:
    """The one-letter option that takes a password in this command line; "" if there is none."""
    for at, word in enumerate(words):
        program = word.rpartition("/")[2]
        subcommand = next((later for later in words[at + 1 :] if not later.startswith("-")), "")
        for name in (program, f"{program} {subcommand}"):
            if name in _BY_LETTER:
                return _BY_LETTER[name]
    return ""


def _masked_assignment(word: str) -> str:
    """One word, masked behind the first ``=`` of a secret name, blanks and quotes included."""
    name, equals, value = word.partition("=")
    if equals and value and is_secret_name(name):
        return f"{name}={MASK}"
    return masked(word)


def _mask_value(match: re.Match[str]) -> str:
    value = match["value"]
    if value.startswith(MASK):
        return match[0]
    quote = value[0] if value[0] in "'\"" else ""
    return f"{match['before']}{quote}{MASK}{quote}"


def _mask_user(match: re.Match[str]) -> str:
    user = match["user"]
    is_name = match["scheme"].lower() == "ssh" and user is not None and ":" not in user
    return match[0] if is_name else f"{match['scheme']}://{MASK}@"
