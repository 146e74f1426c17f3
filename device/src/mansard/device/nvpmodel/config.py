"""nvpmodel.conf and the output of ``nvpmodel -p --verbose``, read into sections and settings.

The grammar of the file::

    < PARAM TYPE=FILE|CLOCK NAME=name >      then lines  ARGUMENT path
    < PARAM TYPE=HWMON NAME=name >           then lines  ARGUMENT folder file
    < POWER_MODEL ID=number NAME=name >      then lines  PARAMETER ARGUMENT value
    < PM_CONFIG DEFAULT=number >
    < FAN_CONFIG DEFAULT=profile >           not read
    # comments, anywhere

Source: the head of every configuration file that NVIDIA ships describes it so. Files also
leave out spaces (<PARAM TYPE=CLOCK NAME=EMC >), and the path of an argument for a newer
kernel stands under the same name with _KNEXT.

The dump of the tool is the same configuration in other words: every line begins with
``NVPM VERB:``; headers have no angle brackets, ``POWER_MODEL:`` and ``PM_CONFIG:`` have a colon,
and the default is written ``MODE_30W(2)``.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mansard.core.errors import DeviceError, InputError
from mansard.device.nvpmodel.sections import Config, ConfigLine, assemble
from mansard.device.system import read_start

_MAX_CHARACTERS = 1 << 18  # twelve times the longest file that NVIDIA ships
MAX_LINE = 1000  # characters; a path on a board has a hundred
_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE_ENDS = ("\n", "\r")
_PIECE = re.compile(r"<[^<>]*>?|[^<>]+|>")  # headers, and the text between them
_HEADER = re.compile(r"<\s*(\w*)([^<>]*)>?")


def parse_config(text: str, where: str) -> Config:
    """The configuration that ``text``, the file ``where``, holds.

    Lines that are no part of the grammar are kept in ``ignored``; a header that is none
    takes the lines below it along, and a mode that is in doubt stands in ``refused``. Raises
    InputError for a text without any sure mode, for one too large or binary, and where two
    modes have one number or one name: setting one of them could set the other.
    """
    return assemble(_lines(text, where), where, is_whole=text.endswith(_LINE_ENDS))


def text_lines(text: str, where: str) -> Iterator[tuple[int, str]]:
    """Number and stripped content of each line that has any; raises InputError."""
    if len(text) > _MAX_CHARACTERS:
        raise InputError(
            f"has {len(text):,} characters, no configuration of power modes is that long",
            where=where,
        )
    if "\0" in text:
        raise InputError("is a binary file, not a configuration of power modes", where=where)
    for number, raw in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), start=1):
        line = raw.strip()
        if line:
            yield number, line


def _lines(text: str, where: str) -> Iterator[ConfigLine]:
    """Headers and bodies, also where a line holds several of them."""
    for number, raw in text_lines(text, where):
        code, mark, _ = raw.partition("#")
        # A comment that begins inside a word hides the rest of the word.
        is_cut = bool(mark) and code[-1:].strip() not in {"", ">"}
        is_readable = not is_cut and len(code) <= MAX_LINE
        for piece in _PIECE.findall(code if is_readable else code[:MAX_LINE]):
            if not (words := piece.strip()):
                continue
            header = _HEADER.fullmatch(words)
            if header is not None:
                rest = header[2] if is_readable else ""
                yield ConfigLine(number, raw, header[1], rest)
            else:
                yield ConfigLine(number, raw, None, words if is_readable else "")


_PREFIX = re.compile(r"NVPM VERB:\s*")
_COMPLAINT = re.compile(r"NVPM (?!VERB)[A-Z]+\b")
_NAMES = re.compile(r"\b[A-Z0-9]+_[A-Z0-9_]+\b")  # of settings; not in a prompt
_BEGINNING = re.compile(r"(?=NVPM [A-Z]+:)")
_START = re.compile(r"^\s*NVPM VERB:", re.MULTILINE)
_DUMP_HEADER = re.compile(r"(PARAM|POWER_MODEL|PM_CONFIG|FAN_[A-Z]+)\b:?(.*)")
# The tool's messages before and after the dump.
_CHATTER = re.compile(r"Config file:|parsing done for|succeed to parse|\W*$|#")


def parse_verbose(text: str, where: str) -> Config:
    """The configuration in a dump; raises InputError as ``parse_config`` does.

    A dump shows the paths of the kernel that runs alone, not the ``_KNEXT`` ones beside them.
    """
    return assemble(_dump_lines(text, where), where, is_whole=text.endswith(_LINE_ENDS))


def is_verbose(text: str) -> bool:
    """Whether ``text`` is such a dump rather than a configuration file."""
    return _START.search(text) is not None


def _dump_lines(text: str, where: str) -> Iterator[ConfigLine]:
    for number, raw in text_lines(text, where):
        is_readable = len(raw) <= MAX_LINE
        for piece in _BEGINNING.split(raw if is_readable else raw[:MAX_LINE]):
            prefix = _PREFIX.match(piece)
            content = piece[prefix.end() :] if prefix else piece
            header = _DUMP_HEADER.match(content)
            if not content.strip() or _CHATTER.match(content):
                continue
            if header is not None:
                yield ConfigLine(number, raw, header[1], header[2] if is_readable else "")
            elif _COMPLAINT.match(piece) or (prefix is None and not _NAMES.search(content)):
                yield ConfigLine(number, raw, None, "", is_foreign=True)
            else:
                is_sure = prefix is not None and is_readable and "#" not in content
                yield ConfigLine(number, raw, None, content if is_sure else "")


CONFIG_PATH = "/etc/nvpmodel.conf"
# A query with --verbose compares the present mode with the kernel, a line for each setting.
_ANSWER = re.compile(r"^[^#\n]*(?:NV Power Mode\s*:|REAL_VAL:.*CONF_VAL:)", re.MULTILINE)
_MAX_BYTES = 1 << 22
_MAX_LINKS = 8


def read_config(root: Path) -> tuple[Config, str]:
    """The board's configuration and its file; raises DeviceError or InputError."""
    path = _follow(root)
    text = _read(path, "a Jetson has it from the package nvidia-l4t-nvpmodel; other machines none")
    return parse_config(text, str(path)), str(path)


def load_config(path: Path) -> Config:
    """The configuration in a file, or in a dump of the tool; raises DeviceError or InputError."""
    text = _read(path, "name an nvpmodel.conf, or a dump of 'nvpmodel -p --verbose'")
    if _ANSWER.search(text):
        raise InputError(
            "is what 'nvpmodel -q' prints, which describes the present mode alone",
            where=str(path),
            fix="give the board's /etc/nvpmodel.conf, or what 'sudo nvpmodel -p --verbose' prints",
        )
    return parse_verbose(text, str(path)) if is_verbose(text) else parse_config(text, str(path))


def _follow(root: Path) -> Path:
    """The file itself: a link's absolute target lies below ``root`` too."""
    place = PurePosixPath(CONFIG_PATH)
    for _ in range(_MAX_LINKS):
        path = root.joinpath(*place.parts[1:])
        try:
            target = path.readlink()
        except OSError:  # no link: the file itself, or nothing at all
            return path
        # Nothing leads above the root, as it would not on the board.
        place = PurePosixPath(os.path.normpath(place.parent / target))
    raise DeviceError("is a loop of symbolic links", where=str(root.joinpath(*place.parts[1:])))


def _read(path: Path, fix: str) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("is not a file", where=str(path))
        data = read_start(path, _MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DeviceError(
            f"cannot be read: {reason.lower()}",
            where=str(path),
            fix=fix,
        ) from error
    if len(data) > _MAX_BYTES:
        raise InputError("is too large for a configuration of power modes", where=str(path))
    return data.decode("utf-8", "replace")
