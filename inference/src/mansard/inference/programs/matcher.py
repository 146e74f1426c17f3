"""The process that looks for a metric in what a program prints; it imports nothing of Mansard.

Arguments: the expression, and the CPU time of one search in seconds. Standard input: pieces of
whole lines, each after its length in 8 bytes. Standard output: one byte when it is ready, then at
the end of the input the last match as JSON, with the text right before and after its group.

An expression that backtracks can search for years, and Python handles no signal meanwhile. Here
the timer's signal ends the process, because nothing handles it.
"""

from __future__ import annotations

import json
import re
import signal
import sys

_BESIDE = 8  # characters on each side of the group


def main(pattern: str, limit_s: float) -> None:
    """Search each piece, and print the last match at the end."""
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    compiled = re.compile(pattern, re.MULTILINE)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    stdout.write(b"r")
    stdout.flush()
    last: tuple[str, str, str] | None = None
    while len(size := stdin.read(8)) == 8:
        text = stdin.read(int.from_bytes(size, "big")).decode("utf-8", "replace")
        text = text.replace("\r", "\n")
        signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
        for match in compiled.finditer(text):
            start, end = match.span(1)
            before = text[max(0, start - _BESIDE) : max(0, start)].rpartition("\n")[2]
            after = text[end : end + _BESIDE].partition("\n")[0] if end >= 0 else ""
            last = before, match[1] or "", after
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    stdout.write(json.dumps(last).encode())


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
