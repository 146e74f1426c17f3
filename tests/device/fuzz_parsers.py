"""Coverage-guided fuzzing of the board's texts; optional: ``pip install atheris`` first.

    python tests/device/fuzz_parsers.py nvpmodel|dump|answer|tegrastats [-max_total_time=60]

Whatever the bytes, a parser returns or raises an error of ours; anything else is a crash, and
its input is kept. The Hypothesis tests check the same with fewer and better aimed examples.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

with atheris.instrument_imports(include=["mansard.device"]):
    from mansard.core.errors import MansardError
    from mansard.device.nvpmodel.grammar import Config, parse_config
    from mansard.device.nvpmodel.modes import board_modes
    from mansard.device.nvpmodel.tool import parse_query, parse_status
    from mansard.device.nvpmodel.verbose import parse_verbose
    from mansard.device.tegrastats.parse import parse_line


def _modes(parse: Callable[[str, str], Config], text: str) -> None:
    board_modes(parse(text, "fuzzed"), "fuzzed")


TARGETS: dict[str, Callable[[str], object]] = {
    "nvpmodel": lambda text: _modes(parse_config, text),
    "dump": lambda text: _modes(parse_verbose, text),
    "answer": lambda text: (parse_query(text), parse_status(text)),
    "tegrastats": parse_line,
}


def main(arguments: list[str]) -> None:
    """Fuzz the target that is named first; the other arguments are libFuzzer's."""
    if len(arguments) < 2 or arguments[1] not in TARGETS:
        sys.exit(f"usage: {Path(arguments[0]).name} {'|'.join(TARGETS)} [libFuzzer's options]")
    target = TARGETS[arguments[1]]

    def test_one(data: bytes) -> None:
        with suppress(MansardError):
            target(data.decode("utf-8", "replace"))

    atheris.Setup([arguments[0], *arguments[2:]], test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
