"""A controller in another process says and does what one in this process does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import DeviceError, InputError, MansardError, StorageError, UsageError
from mansard.core.hashing import content_hash
from mansard.core.processes.line_channel import encode_line
from mansard.device.controller import LocalController
from mansard.device.controller.messages import Greeting, Identify, NumberedAsk
from mansard.device.controller.remote import remote_controller
from mansard.simulator import set_fault, snapshot
from tests.device.controller_board import controller_of, mode_of
from tests.device.controller_process import controller_process
from tests.simulator.simulator_bench import text

GRID = 'gpu = ["408MHz", "612MHz"]\ncores = [2, 4, 8]\n'


def test_both_know_the_same_of_a_board(agx_orin: Path, tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID)
    local = LocalController(agx_orin)
    with controller_of(agx_orin) as remote:
        # As hashes: a run's id is made of them, and must not hang on where the controller is.
        assert content_hash(remote.identify()) == content_hash(local.identify())
        for wanted, pick in ((None, None), ("all", None), ("gpu=612MHz,cores=4", None),
                             (str(grid), None), (str(grid), 3)):  # fmt: skip
            modes = remote.choose_modes(wanted, pick)
            assert content_hash(modes) == content_hash(local.choose_modes(wanted, pick))
            assert remote.planned_steps(modes) == local.planned_steps(modes)
        assert len(remote.choose_modes(str(grid))) == 6  # 2 × 3
        assert remote.put_back() == ()


def test_a_grid_lies_with_who_asks(agx_orin: Path, tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("gpu = 3\ncolour = 'red'\n")
    with controller_of(agx_orin) as remote:
        with pytest.raises(InputError, match=r"grid\.toml:1"):
            remote.choose_modes(str(grid))
        with pytest.raises(StorageError):  # read here: no controller could say so
            remote.choose_modes(str(tmp_path / "none.toml"))


def test_a_sweep_sets_reads_back_and_puts_back(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    with controller_of(agx_orin) as remote:
        own, board = mode_of(remote, "gpu=612MHz,cores=4"), mode_of(remote, "15W")
        with remote.hold() as held:
            assert held.left_behind == ()
            found = held.set(own)
            assert (found.gpu_hz, found.n_cpus) == (612e6, 4)
            assert held.set(board).n_cpus == 4
            assert text(agx_orin, "sys/devices/system/cpu/cpu4/online") == "0"
        assert snapshot(agx_orin) == before
        with remote.hold():  # and once more
            pass
    assert snapshot(agx_orin) == before


@pytest.mark.parametrize("place", ["here", "in another process"])
def test_modes_that_need_a_reboot_are_found(agx_orin: Path, place: str) -> None:
    set_fault(agx_orin, "reboot_modes", [1])
    with controller_of(agx_orin) as remote:
        controller = LocalController(agx_orin, settle_s=0) if place == "here" else remote
        modes = controller.choose_modes("all")
        with controller.hold() as held:
            found = held.needing_reboot(modes)
            assert held.needing_reboot(controller.choose_modes("cores=2")) == {}
    assert found.keys() == {"15W"}
    assert "Reboot required" in found["15W"]


def test_errors_arrive_as_what_they_are(agx_orin: Path, tmp_path: Path) -> None:
    with controller_of(agx_orin) as remote:
        with pytest.raises(UsageError, match="bench-1: unknown power mode '99W'") as caught:
            remote.choose_modes("99W")
        assert caught.value.exit_code == 2
        assert caught.value.fix is not None
        assert "15W" in caught.value.fix
        foreign = msgspec.structs.replace(mode_of(remote, "15W"), name="22W")
        with pytest.raises(UsageError, match="has no power mode 22W"), remote.hold() as held:
            held.set(foreign)
        with remote.hold() as held, pytest.raises(DeviceError, match="in use by another sweep"):
            LocalController(agx_orin).hold().__enter__()
        assert remote.identify().is_simulated  # it has gone on all the while
    with pytest.raises(UsageError, match="is not a simulated board"), controller_of(tmp_path):
        pass


def test_the_error_in_a_sweep_is_kept_with_that_of_putting_back(agx_orin: Path) -> None:
    with controller_of(agx_orin) as remote:
        mode = mode_of(remote, "gpu=612MHz")

        def sweep() -> None:
            with remote.hold() as held:
                held.set(mode)
                breaker = agx_orin / "sys/class/devfreq/17000000.gpu/max_freq"
                breaker.unlink()
                breaker.mkdir()
                raise DeviceError("the sensor is gone")

        with pytest.raises(DeviceError, match=r"not everything is restored.*sensor is gone"):
            sweep()


def test_another_version_is_refused(agx_orin: Path) -> None:
    with controller_process(agx_orin) as channel:
        channel.send(encode_line(NumberedAsk(1, Greeting(tool_version="0.0.1"))))
        reply = channel.receive(60)
        assert b"its caller of 0.0.1" in reply
        assert b"build the board's image again" in reply


class Recorded:
    """A controller of another time: what it would say."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = list(lines)

    def send(self, line: bytes) -> None:
        del line

    def receive(self, timeout_s: float) -> bytes:
        return self._lines.pop(0) if self._lines else b""

    def beat(self) -> None:
        pass

    def end(self) -> None:
        pass

    def close(self) -> str:
        return "Killed"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b'{"number":1,"answer":{"answer":"welcome","protocol":1,"tool_version":"0.0.1"}}\n',
         "the board controller there is of Mansard 0.0.1"),
        (b'{"number":1,"answer":{"answer":"welcome","colour":"red"}}\n', "is not of Mansard"),
        (b"exec python: no such file\n", "is not of Mansard"),
        (b'{"number":1,"answer":{"answer":"lines","lines":[]}}\n', "answers Lines to Greeting"),
        (b"", "its board controller has ended: Killed"),
    ],
)  # fmt: skip
def test_what_is_no_controller_of_ours_is_refused(said: bytes, expected: str) -> None:
    with (
        pytest.raises(MansardError, match=f"bench-1: .*{expected}") as caught,
        remote_controller(Recorded(said), "bench-1"),
    ):
        pass
    assert isinstance(caught.value, DeviceError)


def test_an_answer_that_comes_too_late_is_passed_over(agx_orin: Path) -> None:
    with controller_process(agx_orin) as channel, remote_controller(channel, "bench-1") as remote:
        channel.send(encode_line(NumberedAsk(0xFFFF, Identify())))  # who asked was interrupted
        assert remote.put_back() == ()
        assert remote.identify().is_simulated
