"""Which failures of a network the same command tries again."""

from __future__ import annotations

import signal

import pytest

from mansard.core.processes.programs import how_it_ended
from mansard.inference.rows import is_for_now


@pytest.mark.parametrize(
    ("number", "is_tried_again"),
    [
        (signal.SIGKILL, True),
        (signal.SIGTERM, True),
        (signal.SIGHUP, True),
        (signal.SIGXCPU, True),
        (signal.SIGSEGV, False),
        (signal.SIGABRT, False),
        (signal.SIGBUS, False),
    ],
)
def test_a_process_that_was_killed_is_no_lasting_failure(
    number: int, *, is_tried_again: bool
) -> None:
    said = f"the process that ran it {how_it_ended(-number)}: last words"
    assert is_for_now(said) == is_tried_again


@pytest.mark.parametrize(
    ("failure", "is_tried_again"),
    [
        (None, False),
        ("it could not be built: MyOp has no plugin", False),
        # An engine file that could not be built is the builder's matter, whatever it says.
        ("it could not be built: too little memory", False),
        ("it could not be built now: too little memory", True),
        ("too little memory", True),
        ("too little memory: it asks for 123 bytes at once", True),
        ("resnet18 on gpu: its process was killed, as it is where the memory runs out", True),
        ("resnet18 on gpu: its process was killed, as where the memory runs out", True),  # before
        ("trtexec was ended by signal 9", True),
        ("the process that ran it was killed, as it said nothing for 900 s", True),
        ("MyOp: not implemented", False),
        ("the process that ran it ended with code 3", False),
    ],
)
def test_the_reason_may_be_gone(failure: str | None, *, is_tried_again: bool) -> None:
    assert is_for_now(failure) == is_tried_again
