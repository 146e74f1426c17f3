"""Which boards ``HOST=`` and ``HOSTS=`` mean.

``user@board``, an alias of ssh_config, ``unix:///path/docker.sock`` (an engine on this machine),
or names from a file::

    [boards.orin-1]
    docker = "nvidia@10.0.0.7"        # as above
    image = "l4t-r36.4"               # instead of the one that fits
    modes = "15W,30W"                 # where --mode is not given

    [boards.bench]
    docker = "unix:///run/docker.sock"
    root = "/srv/boards/agx-orin"     # a simulated board's folder over there
    python = "/opt/venv/bin/python3"  # that measures programs, in place of python3
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from mansard.core.errors import InputError, MansardError, UsageError, moved
from mansard.core.hashing import content_hash
from mansard.core.storage.documents import read_toml, settings_file
from mansard.core.text import printable

HOSTS_FILE = "hosts.toml"  # in the user's folder of settings
DOCKER_SOCKET = "/var/run/docker.sock"
PYTHON = "python3"  # as the PATH of the user who logs in has it
_MOST_HOSTS = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# No name begins with a dash, which ssh would take for an option, and none has characters that
# a shell in a ProxyCommand of ssh_config would act on.
_SSH = re.compile(
    r"(?:ssh://)?(?P<destination>(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,63}@)?"
    r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9]{1,15})?\]))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_SOCKET = re.compile(r"unix://(/[^\0:]{1,106})")
_GRAMMAR = (
    "write user@board without a password, unix:///path/docker.sock, or a name from hosts.toml"
)


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One board: how its container engine is reached, and which folder is its root there."""

    name: str  # as it was given; errors and progress call it so
    ssh: str | None = None  # where ssh goes; None: the engine listens on this machine
    port: int | None = None  # of ssh, where it is not the configured one
    socket: str = DOCKER_SOCKET  # of the engine, on its own machine
    root: PurePosixPath = PurePosixPath("/")  # any other is a simulated board's
    image: str | None = None  # by its name, instead of the one that fits
    python: str = PYTHON  # that measures programs and servers there
    modes: str | None = None  # to measure where none are asked for, as --mode takes them

    @property
    def board_option(self) -> tuple[str, ...]:
        """The option with a simulated board's root, for modules that run on the host."""
        return ("--board", str(self.root)) if self.is_simulated else ()

    @property
    def is_simulated(self) -> bool:
        """Whether it is a folder on the host rather than the host itself."""
        return self.root != PurePosixPath("/")

    @property
    def login(self) -> str:
        """The command that logs in there, to be shown."""
        return f"ssh {'' if self.port is None else f'-p {self.port} '}{self.ssh}"

    @property
    def folder(self) -> str:
        """A name for a folder or a container: like ``name``, and no two hosts' are the same."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.name).strip("-.")[:48]
        return self.name if plain == self.name else f"{plain}-{content_hash(self.name)[:8]}"


# Commands in the quotes of a remedy that must run on the board.
_BOARD_COMMAND = re.compile(
    r"'((?:sudo|systemctl|journalctl|dmesg|docker system|nvidia-smi|tegrastats|nvpmodel)\b[^']*)'"
)
_WITHOUT_CONTAINER = re.compile(
    r"(?:, or|:? use Docker, or|;)? ?(?:measure without (?:it|a container): LOCAL=1"
    r"|LOCAL=1 measures without one)"
)
_BUILD = "run 'mansard data image build'"
_Told = TypeVar("_Told", bound=MansardError)


def on_board(error: _Told, host: Host) -> _Told:
    """``error`` with ssh in front of those commands of its remedy that must run on the board."""
    if host.ssh is None or error.fix is None:
        return error
    fix = _WITHOUT_CONTAINER.sub("", error.fix)
    fix = _BOARD_COMMAND.sub(lambda command: f"'{_over_ssh(command[1], host)}'", fix)
    fix = fix.replace("'mansard board restore'", f"'mansard board restore --host {host.name}'")
    fix = fix.replace(_BUILD, "run the same command without OFFLINE=1: it builds the image there")
    return moved(error, where=error.where, fix=fix)


def _over_ssh(command: str, host: Host) -> str:
    """``command`` over ssh, to be typed here; sudo needs a terminal to ask for a password."""
    login = host.login.replace("ssh", "ssh -t", 1) if command.startswith("sudo") else host.login
    quoted = command.replace("$", "\\$")  # for the shell over there
    return f"{login} {quoted}"


class _HostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of one board in the file."""

    docker: str
    root: str = "/"
    socket: str | None = None
    image: str | None = None
    python: str = PYTHON
    modes: str | None = None


def read_hosts(texts: Sequence[str], file: Path | None = None) -> tuple[Host, ...]:
    """The boards that ``HOST=`` or ``HOSTS=`` names, separated by commas, in their order.

    ``file`` holds names; without one it is ``hosts.toml`` of the user's settings, if there is one.
    That of the present folder does not count: the folder may be another person's. Raises
    UsageError (what is named), InputError (the file) or StorageError.
    """
    names = [name.strip() for text in texts for name in text.split(",")]
    if not names or not all(names):
        raise UsageError("a board's name is empty", fix=_GRAMMAR)
    if len(names) > _MOST_HOSTS:
        raise UsageError(f"{len(names)} boards are too many", fix=f"name {_MOST_HOSTS} at most")
    known = _read_file(file)
    hosts = tuple(known[name] if name in known else _parse(name, name) for name in names)
    _check_distinct(hosts)
    return hosts


def _parse(name: str, address: str) -> Host:
    socket = _SOCKET.fullmatch(address)
    if socket is not None:
        return Host(name=name, socket=socket[1])
    match = _SSH.fullmatch(address)
    port = int(match["port"]) if match is not None and match["port"] else None
    if match is None or port == 0 or (port or 0) > 65535:
        raise UsageError(f"{_without_password(address)!r} does not name a board", fix=_GRAMMAR)
    return Host(name=name, ssh=match["destination"].replace("[", "").replace("]", ""), port=port)


def _without_password(address: str) -> str:
    """An address without its password, to be shown."""
    scheme = "" if "://" in address else "ssh://"
    return printable(f"{scheme}{address}", 120).removeprefix(scheme)


def _check_distinct(hosts: Sequence[Host]) -> None:
    """Refuse a board that is named twice; two names of one machine are found by ``Claims``."""
    seen: dict[tuple[object, ...], Host] = {}
    for host in hosts:
        place = (host.ssh, host.port, host.socket, host.root)
        other = seen.setdefault(place, host)
        if other is not host or [named.name for named in hosts].count(host.name) > 1:
            both = host.name if other.name == host.name else f"{other.name} and {host.name}"
            raise UsageError(f"{both}: the same board twice", fix="name each board once")


def _read_file(file: Path | None) -> dict[str, Host]:
    path = file or settings_file(HOSTS_FILE)
    if path is None:
        return {}
    content = read_toml(path, "a list of boards")
    boards = content.pop("boards", {})
    if content or not isinstance(boards, dict):
        wrong = printable(next(iter(content), "boards"), 60)
        raise InputError(
            f"{wrong!r} is nothing that a list of boards has",
            where=str(path),
            fix="each board begins with [boards.NAME]",
        )
    return {name: _read_board(name, lines, path) for name, lines in boards.items()}


def _read_board(name: str, lines: object, path: Path) -> Host:
    where = f"{path}: board {printable(name, 64)!r}"
    if not _NAME.fullmatch(name):
        raise InputError(
            "is not a name for a board",
            where=where,
            fix="begin with a letter or digit, go on with those, '.', '-' and '_'",
        )
    try:
        given = msgspec.convert(lines, _HostEntry)
        host = _parse(name, given.docker)
    except msgspec.ValidationError as error:
        raise InputError(
            str(error),
            where=where,
            fix="it has docker, and may have root, socket, image, python and modes",
        ) from error
    except UsageError as error:
        raise InputError(error.what, where=where, fix=error.fix) from error
    root = PurePosixPath(given.root)
    if not root.is_absolute() or ".." in root.parts or "\0" in given.root:
        raise InputError(
            "root is not an absolute path", where=where, fix='write root = "/srv/board"'
        )
    if not given.python.strip() or not given.python.isprintable():
        raise InputError(
            "python is not the name of a program",
            where=where,
            fix='write python = "/opt/venv/bin/python3"',
        )
    if given.modes is not None and not (given.modes.strip() and given.modes.isprintable()):
        raise InputError(
            "modes is not a list of power modes", where=where, fix='write modes = "15W,30W"'
        )
    if given.socket is not None and _SOCKET.fullmatch(f"unix://{given.socket}") is None:
        raise InputError(
            "socket is not an absolute path of a socket",
            where=where,
            fix=f'write socket = "{DOCKER_SOCKET}"',
        )
    return msgspec.structs.replace(
        host,
        socket=given.socket or host.socket,
        root=root,
        image=given.image,
        python=given.python,
        modes=given.modes,
    )
