"""Answers of a controller over a container's streams: however frames are cut, none is lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.containers.board_controller import ContainerChannel
from mansard.containers.engine import ContainerEngine
from mansard.containers.stream import Attached
from mansard.core.errors import ControllerLost, MansardError
from mansard.device.controller.messages import Lines, PutBack
from mansard.device.controller.remote import QuestionLine
from tests.containers.test_fleet_image import ORIN


class Peer:
    """The engine's end of a container's streams."""

    def __init__(self) -> None:
        ours, self._theirs = socket.socketpair()
        self.channel = ContainerChannel(
            ContainerEngine("unix:///none", None, ORIN), "0", Attached(ours), end_s=1
        )

    def say(self, *frames: tuple[int, bytes]) -> None:
        """Frames of stdout (1) and stderr (2), all at once."""
        self._theirs.sendall(
            b"".join(bytes([to, 0, 0, 0]) + len(text).to_bytes(4, "big") + text
                     for to, text in frames)
        )  # fmt: skip

    def heard(self) -> bytes:
        return self._theirs.recv(4096)

    def end(self) -> None:
        self._theirs.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    started = Peer()
    yield started
    started.end()
    started.channel.close()


def test_lines_are_had_one_by_one_whatever_came_together(peer: Peer) -> None:
    peer.say((1, b"one\ntwo\nth"), (2, b"a word "), (1, b"ree\n"), (2, b"aside"))
    assert [peer.channel.receive(60) for _ in range(3)] == [b"one", b"two", b"three"]
    peer.channel.send(b"four?\n")
    peer.say((1, b"four\n"))
    assert peer.channel.receive(60) == b"four"
    assert peer.heard() == b"four?\n"
    peer.end()
    assert peer.channel.receive(60) == b""
    assert peer.channel.receive(60) == b""
    assert peer.channel.close() == "a word aside"
    assert peer.channel.close() == "a word aside"  # once more does no harm
    with pytest.raises(OSError, match="the board controller has ended"):
        peer.channel.send(b"five?\n")


def test_a_sign_of_life_keeps_an_answer_that_comes_late(peer: Peer) -> None:
    peer.say((1, b"late"))
    peer.channel.beat()
    assert peer.heard() == b"\n"
    peer.say((1, b"r\n"))
    assert peer.channel.receive(60) == b"later"


def test_the_end_may_be_asked_for_by_another_thread(peer: Peer) -> None:
    peer.channel.end()
    assert peer.heard() == b""
    peer.say((1, b"put back\n"))  # what it still says is heard
    assert peer.channel.receive(60) == b"put back"


@given(
    st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b".") + b"x"), max_size=6),
    st.lists(st.integers(1, 7), min_size=1, max_size=30),
)
def test_no_cut_loses_a_byte(lines: list[bytes], sizes: list[int]) -> None:
    peer = Peer()
    data, frames = b"".join(line + b"\n" for line in lines), []
    for size in sizes:
        frames += [(1, data[:size]), (2, b"!")]
        data = data[size:]
    peer.say(*frames, (1, data))
    assert [peer.channel.receive(60) for _ in lines] == lines
    peer.end()
    assert peer.channel.receive(60) == b""
    assert peer.channel.close() == "!" * len(sizes)


def flood(peer: Peer, frame: bytes) -> None:
    """Have the controller say ``frame`` again and again until nobody listens."""

    def talk() -> None:
        with suppress(OSError):
            while True:
                peer.say((1, frame), (2, b"word "))

    threading.Thread(target=talk, daemon=True).start()


def test_one_that_answers_unasked_is_ended(peer: Peer) -> None:
    flood(peer, b"{}\n" * 50)
    line = QuestionLine(peer.channel, "bench")
    over = threading.Event()
    line.beat_until(over, 0.001)  # it ends by itself
    with pytest.raises(ControllerLost, match="bench: its board controller has ended"):
        line.check()


def test_one_that_talks_and_gives_no_answer_is_not_waited_for(peer: Peer) -> None:
    flood(peer, b"")
    line = QuestionLine(peer.channel, "bench")
    with pytest.raises(ControllerLost, match="its board controller has ended"):
        line.ask(PutBack(), Lines, timeout_s=0.2)


def test_answers_to_other_questions_are_not_waited_on_without_end(peer: Peer) -> None:
    flood(peer, b'{"number":7,"answer":{"answer":"lines","lines":[]}}\n')
    line = QuestionLine(peer.channel, "bench")
    with pytest.raises(MansardError, match="bench"):
        line.ask(PutBack(), Lines, timeout_s=0.2)
