"""Reading SASS: instructions, and the innermost loops that they form."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_LINE = re.compile(r"/\*([0-9a-f]+)\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")


@dataclass(frozen=True)
class Instruction:
    """One instruction. ``target`` is the address that a branch goes to."""

    address: int
    opcode: str  # with all modifiers, such as LDG.E.128.STRONG.GPU
    target: int | None

    def is_a(self, name: str) -> bool:
        """Whether its operation, without modifiers, is ``name``."""
        return self.opcode.split(".")[0] == name


def parse_sass(text: str) -> tuple[Instruction, ...]:
    """All instructions of one raw disassembly."""
    found = []
    for address, _, opcode, operands in _LINE.findall(text):
        target = re.search(r"0x([0-9a-f]+)\s*$", operands) if opcode.startswith("BRA") else None
        place = int(target.group(1), 16) if target else None
        found.append(Instruction(int(address, 16), opcode, place))
    assert found, "no instruction read"
    return tuple(found)


def innermost_loops(code: tuple[Instruction, ...]) -> list[tuple[Instruction, ...]]:
    """Bodies of the loops without another loop in them: from a backward branch's target to it.

    A branch to itself, which fills up the end of the code, is no loop.
    """
    spans = [(i.target, i.address) for i in code if i.target is not None and i.target < i.address]
    inner = [
        (low, high)
        for low, high in spans
        if not any(low <= a and b <= high and (a, b) != (low, high) for a, b in spans)
    ]
    return [tuple(i for i in code if low <= i.address <= high) for low, high in inner]


def hottest_loop(
    code: tuple[Instruction, ...], wanted: Callable[[Instruction], bool]
) -> tuple[Instruction, ...]:
    """The innermost loop with most of the wanted instructions."""
    loops = innermost_loops(code)
    assert loops, "no loop"
    return max(loops, key=lambda body: sum(map(wanted, body)))


def share(body: tuple[Instruction, ...], name: str) -> float:
    """Part of the instructions of a loop whose operation is ``name``."""
    return sum(i.is_a(name) for i in body) / len(body)
