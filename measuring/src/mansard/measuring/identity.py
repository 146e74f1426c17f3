"""What tells runs of one plan apart: labels, and variables of the environment."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.text import MASK, is_secret_name, is_utf8, listed, masked, printable

_LONGEST_LABEL = 80  # characters
MOST_VALUE_BYTES = 4096  # a longer value is hashed
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_DIGEST = re.compile(r"[0-9]+ characters, [0-9a-f]{16}")  # instead of a long value
# Variables that change from shell to shell, and from call to call, without changing a program.
_VOLATILE = re.compile(
    r"_\w*|PWD|OLDPWD|SHLVL|COLUMNS|LINES|TERM\w*|COLORTERM|WINDOWID|PS[1-4]|PROMPT\w*|LS_COLORS"
    r"|SSH_\w+|XDG_\w+|DBUS_\w+|DISPLAY|TMUX\w*|STY|INVOCATION_ID|JOURNAL_STREAM|HIST\w+"
    r"|MANSARD_\w+|PYTEST_\w+|GITHUB_\w+|RUNNER_\w+|CI_\w+"
)
_ROUNDS = 100_000  # of PBKDF2: to guess a short password from its hash takes long


def check_label(label: str) -> str:
    """``label``; raises UsageError for what is not a short line of text."""
    is_line = label == label.strip() and printable(label, len(label)) == label
    if not is_line or not is_utf8(label) or len(label) > _LONGEST_LABEL:
        raise UsageError(
            f"--label {printable(repr(label))} is not a line of 1 to {_LONGEST_LABEL} characters",
            fix="name the build or the commit: --label v2.1",
        )
    return label


def read_environment(
    names: Sequence[str],
    is_known: Callable[[str], bool] = lambda _: False,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The variables that are set, of ``names`` and of those that ``is_known``.

    The value of a secret is replaced by a hash that is slow to guess, a long value by a fast hash.
    Raises UsageError for what is not the name of a variable.
    """
    _check_names(names)
    wanted = sorted(name for name in environment if is_known(name) or name in names)
    return {name: shown_value(name, environment[name]) for name in wanted}


def unset_notes(names: Sequence[str], environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """A line about those of ``names`` that are not set; raises as ``read_environment``."""
    _check_names(names)
    if unset := [name for name in dict.fromkeys(names) if name not in environment]:
        yield f"--env: {listed(unset)} {'is' if len(unset) == 1 else 'are'} not set"


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"--env {name!r} is not the name of a variable", fix="--env NAME")


def shown_value(name: str, value: str) -> str:
    """``value`` as plans and rows have it: itself, or a hash."""
    safe = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if is_secret_name(name) or masked(f"{name}={safe}") != f"{name}={safe}":
        return f"{MASK} {secret_hash(value)}"
    if len(safe) > MOST_VALUE_BYTES:
        digest = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return f"{len(safe)} characters, {digest}"
    return safe


def secret_hash(value: str) -> str:
    """A short hash of a secret."""
    data = value.encode("utf-8", "surrogateescape")
    return hashlib.pbkdf2_hmac("sha256", data, b"mansard program", _ROUNDS).hex()[:16]


def set_environment(environment: Mapping[str, str]) -> None:
    """Give this process the variables of a plan, before a library reads them.

    Raises MeasurementError where the plan has only the hash of a value: such a value does not leave
    the machine on which it was set.
    """
    for name, value in environment.items():
        if name in os.environ and shown_value(name, os.environ[name]) == value:
            continue
        if value.startswith(MASK) or _DIGEST.fullmatch(value):
            raise MeasurementError(
                f"the value of {name} is a secret, or long, and is not sent to another machine or "
                "container",
                fix="set it there, or measure with --local",
            )
        os.environ[name] = value


def as_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables as the options of a row: ``$NAME``."""
    return {f"${name}": value for name, value in environment.items()}


def variable_marks(
    left_out: Collection[str] = (), environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Four digits of a hash for each variable that is not ``left_out`` and may change a program.

    Secrets, and variables that change from shell to shell, have none. A value that changed has
    another mark with a probability of 65,535 in 65,536. From 16 bits no value can be recovered.
    """
    return {
        name: hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:4]
        for name, value in sorted(environment.items())
        if name not in left_out and _NAME.fullmatch(name)
        if not _VOLATILE.fullmatch(name) and not is_secret_name(name)
    }


def changed_variables(
    marks: Mapping[str, str],
    left_out: Collection[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> tuple[str, ...]:
    """Names of variables whose value differs from ``marks``, or that are new or gone.

    Earlier rows lack ``marks``: then no variable is known to have changed.
    """
    if not marks:
        return ()
    now = variable_marks(left_out, environment)
    return tuple(sorted(name for name in {*marks, *now} if marks.get(name) != now.get(name)))
