"""One container from its start to its end: a message goes in, lines come out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mansard.containers.engine import Engine
from mansard.containers.engine_errors import explained
from mansard.containers.owners import remove_leftovers, this_process
from mansard.containers.settings import Launch, all_mounts, create_arguments
from mansard.containers.stream import Attached, attach, split_lines
from mansard.containers.watching import engine_time_s, explain_ending, how_it_ended
from mansard.core.errors import ContainerError, MansardError, UsageError

# The longest pause between two events: one trial of the full profile takes 2 minutes at most,
# and compilers on a small board as long again.
SILENCE_S = 900.0
GRACE_S = 3.0  # for the program to end by itself when its input ends
STOP_S = 2  # for it to end when it is asked to by a signal
REMOVE_S = 20  # for the engine to clear up behind it
_TAIL_BYTES = 8192
_GONE, _BEING_REMOVED = 404, 409


class Container:
    """A running container, attached."""

    def __init__(self, engine: Engine, ident: str, attached: Attached, since_s: int) -> None:
        self.ident = ident
        self._engine = engine
        self._attached = attached
        self._since_s = since_s
        self._tail = b""

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._tail.decode("utf-8", "replace").strip()

    def lines(self, silence_s: float = SILENCE_S) -> Iterator[bytes]:
        """Every line of its standard output; raises ContainerError at any end but a good one.

        A last line without an end is what a killed program left half-written: it is dropped.
        """
        lines = split_lines()
        try:
            for chunk in self._attached.receive(silence_s):
                if chunk.output == "stdout":
                    yield from lines.feed(chunk.data)
                else:
                    self._tail = (self._tail + chunk.data)[-_TAIL_BYTES:]
        except TimeoutError as error:
            raise ContainerError(
                f"the container has said nothing for {silence_s:g} s",
                where=self.ident[:12],
                fix="look at 'dmesg' for a GPU that hangs; what was measured is kept",
            ) from error
        self._check_end()

    def _check_end(self) -> None:
        try:
            with explained(self._engine.address):
                ending = how_it_ended(self._engine.client, self.ident, self._since_s)
        except MansardError as error:
            raise ContainerError(
                f"the container engine went away in the middle of a run: {error.what}",
                where=self._engine.address,
                fix="look at 'journalctl -u docker' and start it again; what was measured is "
                "kept: the same command resumes",
            ) from error
        if ending.exit_code != 0 or ending.was_out_of_memory:
            raise explain_ending(ending, self.last_words, self.ident[:12])

    def end(self) -> None:
        """End it: first by its input, then by a signal, then by force; it is removed in any case.

        Raises nothing but KeyboardInterrupt: it is the end of a run that may have failed already.
        """
        try:
            if not self._ends_by_itself():
                with suppress(MansardError), explained(self._engine.address):
                    self._engine.client.api.stop(self.ident, timeout=STOP_S)
        finally:
            self._attached.close()
            remove(self._engine, self.ident)

    def _ends_by_itself(self) -> bool:
        self._attached.close_input()
        end_s = time.monotonic() + GRACE_S
        try:
            # It must be read on: a program that waits to be read does not end.
            for _ in self._attached.receive(GRACE_S):
                if time.monotonic() > end_s:
                    return False
        except (TimeoutError, ContainerError):
            return False
        return True


@contextmanager
def launched(engine: Engine, launch: Launch, message: bytes = b"") -> Iterator[Container]:
    """A container that runs until the end of this, or its own; raises ContainerError.

    ``message`` is written to its standard input, which stays open. It is attached before it
    is started, so that nothing is missed.
    """
    shown = shown_image(launch.image)
    _check_mounts(engine, launch)
    remove_leftovers(engine)
    with explained(shown):
        since_s = engine_time_s(engine.client) - 1
        created: Any = engine.client.containers.create(**create_arguments(launch, this_process()))
    ident = str(created.id)
    try:
        with explained(shown):
            attached = attach(engine.client, ident)
    except BaseException:
        remove(engine, ident)
        raise
    container = Container(engine, ident, attached, since_s)
    attached.send(message)
    try:
        with explained(shown):
            created.start()
        yield container
    finally:
        container.end()


def shown_image(image: str) -> str:
    """An image's name for a message; of an id as much as engines show."""
    return f"image {image.removeprefix('sha256:')[:12] if image.startswith('sha256:') else image}"


def remove(engine: Engine, ident: str) -> None:
    """Remove a container, running or not, and wait until it is gone; it may be gone already."""
    from docker.errors import APIError

    api = engine.client.api
    with suppress(MansardError), explained(engine.address):
        try:
            api.remove_container(ident, force=True)
        except APIError as error:
            if error.status_code == _BEING_REMOVED:
                with suppress(APIError):  # it was faster
                    api.wait(ident, timeout=REMOVE_S, condition="removed")
            elif error.status_code != _GONE:
                raise


def _check_mounts(engine: Engine, launch: Launch) -> None:
    """A missing folder in one line; an engine elsewhere has folders that are not seen from here."""
    if not engine.facts.is_local:
        return
    for mount in all_mounts(launch):
        if not Path(mount.source).exists():
            raise UsageError("the folder to be mounted is not there", where=str(mount.source))
