"""How a container ended, asked of the engine's events: one that is removed tells it no more."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec

from mansard.containers.engine_errors import BUILD_IMAGE
from mansard.core.errors import ContainerError

_AGAIN = "what was measured is kept: the same command resumes"
_KILLED, _CRASHED = 137, 139  # 128 and the number of the signal
_STOPPED = frozenset({130, 143})  # our own program's code, and that of one without a handler
_NOT_RUN = frozenset({126, 127})  # the shell's and the init program's codes
_WAIT_S = 10
_DIED = frozenset({"die", "died"})  # as Docker and podman call it
_TAIL_CHARACTERS = 400


class Ending(msgspec.Struct, frozen=True):
    """How a container ended; None where the engine has not told."""

    exit_code: int | None
    was_out_of_memory: bool


def engine_time_s(client: Any) -> int:
    """Now, by the engine's clock, in seconds since 1970; raises what the SDK raises."""
    text = str(client.info().get("SystemTime") or "")
    try:
        # Nanoseconds are more than Python 3.10 reads. Docker tells UTC, podman local time.
        now = datetime.fromisoformat(text[:19] + _zone(text))
    except ValueError:
        now = datetime.now(timezone.utc)
    return int(now.timestamp())


def how_it_ended(client: Any, container: str, since_s: int) -> Ending:
    """Wait for the events of a container whose streams have ended; raises what the SDK raises."""
    was_out_of_memory = False
    until_s = engine_time_s(client) + _WAIT_S
    events = client.events(
        since=since_s, until=until_s, filters={"container": container}, decode=True
    )
    try:
        for event in events:
            action = event.get("Action") or event.get("status")
            was_out_of_memory |= action == "oom"
            if action in _DIED:
                attributes = (event.get("Actor") or {}).get("Attributes") or {}
                code = str(attributes.get("exitCode") or attributes.get("containerExitCode") or "")
                return Ending(int(code) if code.isdecimal() else None, was_out_of_memory)
    finally:
        events.close()
    return Ending(None, was_out_of_memory)


def explain_ending(ending: Ending, last_words: str, where: str) -> ContainerError:
    """Why a container ended before it was through, and what to do."""
    code = ending.exit_code
    said = " ".join(last_words.split())[-_TAIL_CHARACTERS:]
    if ending.was_out_of_memory:
        what, fix = "the memory ran out, and the kernel killed the container", _free_memory()
    elif code == _KILLED:
        what = "the container was killed, from outside or because the memory ran out"
        fix = f"look into 'dmesg' for the latter; {_AGAIN}"
    elif code in _STOPPED:
        what, fix, said = "the container was stopped from outside", _AGAIN, ""
    elif code == _CRASHED:
        what, fix = "the program in the container crashed (SIGSEGV)", f"report this; {_AGAIN}"
    elif code in _NOT_RUN or "No module named" in said:
        what, fix = "the image lacks what is to run in it", BUILD_IMAGE
    elif code is None:
        what, fix = "the container ended, and the engine does not say how", _AGAIN
    else:
        what, fix = f"the container ended early with exit code {code}", _AGAIN
    return ContainerError(f"{what}: {said}" if said else what, where=where, fix=fix)


def _free_memory() -> str:
    return f"end other programs, the desktop first; {_AGAIN}"


def _zone(text: str) -> str:
    if text.endswith("Z"):
        return "+00:00"
    return text[-6:] if text[-6:-5] in {"+", "-"} else "+00:00"
