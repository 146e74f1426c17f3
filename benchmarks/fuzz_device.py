"""Coverage-guided fuzzing of what the device room reads: tegrastats' lines, nvpmodel's files.

    PYTHONPATH=. python benchmarks/fuzz_device.py tegrastats|nvpmodel|answer [atheris' options]

Any input must be read, or refused with one of Mansard's own errors; every number of a line
that was read must come back from it. Atheris (``pip install atheris``) is optional: it is not
available for every Python, and the tests do the same with Hypothesis.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from contextlib import suppress

_NO_ATHERIS = (
    "atheris is not installed: pip install atheris, where your Python has it; "
    "tests/device/test_tegrastats_laws.py and test_nvpmodel_fuzz.py do without"
)


def main() -> int:
    """Fuzz the target that the command line names; the exit code."""
    targets = {"tegrastats": _tegrastats, "nvpmodel": _nvpmodel, "answer": _answer}
    if len(sys.argv) < 2 or sys.argv[1] not in targets:
        print(f"name a target: {' or '.join(targets)}", file=sys.stderr)
        return 2
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        print(_NO_ATHERIS, file=sys.stderr)
        return 1
    with atheris.instrument_imports():
        importlib.import_module("mansard.device.tegrastats")
        importlib.import_module("mansard.device.nvpmodel.modes")
        importlib.import_module("mansard.device.nvpmodel.tool")
        importlib.import_module("mansard.device.nvpmodel.config")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], targets[sys.argv[1]]())
    atheris.Fuzz()
    return 0


def _tegrastats() -> Callable[[bytes], None]:
    from mansard.device.tegrastats import Parser
    from mansard.device.tegrastats.sessions import time_of
    from tests.device.tegrastats_render import render

    parser = Parser()  # one for all: layouts learnt from one input must not mislead the next

    def read(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        time_of(text)
        for line in text.split("\n"):
            sample = parser.read(line)
            if sample is not None and _numbers(render(sample)) != _numbers(line):
                raise AssertionError(f"{line!r} came back as {render(sample)!r}")

    return read


def _nvpmodel() -> Callable[[bytes], None]:
    from mansard.core.errors import MansardError
    from mansard.device.nvpmodel.config import parse_config, parse_verbose
    from mansard.device.nvpmodel.modes import board_modes

    def read(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        for parse in (parse_config, parse_verbose):
            with suppress(MansardError):
                board_modes(parse(text, "fuzz"), "fuzz")

    return read


def _answer() -> Callable[[bytes], None]:
    from mansard.core.errors import MansardError
    from mansard.device.nvpmodel.tool import parse_query, parse_status

    def read(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        with suppress(MansardError):
            parse_query(text)
        with suppress(MansardError):
            parse_status(text)

    return read


def _numbers(text: str) -> list[str]:
    """The numbers of a line without zeros that say nothing."""
    found = re.findall(r"[0-9]+(?:\.[0-9]+)?", text)
    return [re.sub(r"\.0*$|(\.[0-9]*?)0+$", r"\1", each).lstrip("0") for each in found]


if __name__ == "__main__":
    sys.exit(main())
