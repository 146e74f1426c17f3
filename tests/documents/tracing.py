"""Runs a command of ours and counts what it enters: ``python tracing.py UNTIL word …``.

The last line on stderr is JSON: ``files`` of ours in which a function was called and ``functions``
that were, as far as UNTIL, the end of ``room/file.py:function``, or - for the whole command; and
``way``: the functions that were open there. Bodies of classes and comprehensions are no functions.
Other processes of the command are not counted.
"""

from __future__ import annotations

import json
import os
import sys
from inspect import CO_NEWLOCALS, CO_OPTIMIZED
from types import FrameType
from typing import Any

_IS_FUNCTION = CO_NEWLOCALS | CO_OPTIMIZED


def _place(code: Any) -> str | None:
    """``room/file.py:name`` of a function of ours."""
    _, mark, path = code.co_filename.partition("/src/mansard/")
    is_function = code.co_flags & _IS_FUNCTION == _IS_FUNCTION and code.co_name[0] != "<"
    return f"{path}:{code.co_name}" if mark and is_function else None


def main(until: str, words: list[str]) -> None:
    """Run the command and count."""
    places: dict[Any, str | None] = {}

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code in places:
            return
        place = places[frame.f_code] = _place(frame.f_code)
        if place is not None and place.endswith(until):
            tell(frame)
            os._exit(0)

    def tell(frame: FrameType | None = None) -> None:
        sys.setprofile(None)
        functions = {code for code, place in places.items() if place}
        files = {code.co_filename for code in functions}
        way: list[str] = []
        while frame is not None:
            if place := _place(frame.f_code):
                way.insert(0, place)
            frame = frame.f_back
        result = {"files": len(files), "functions": len(functions), "way": way}
        sys.stderr.write(f"\n{json.dumps(result)}\n")
        sys.stderr.flush()

    sys.setprofile(count)
    from mansard.cli.__main__ import run

    code = run(words)
    tell()
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
