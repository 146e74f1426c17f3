from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.simulator import create_board
from mansard.simulator.boards import BOARDS
from mansard.simulator.boards.spec import BoardSpec
from mansard.simulator.clocks import BoardLoad, RunningClocks
from mansard.simulator.daemon import board_of
from mansard.simulator.kernel import SimulatedKernel, set_text
from mansard.simulator.tools.board import format_list, parse_list
from mansard.simulator.tools.nvpmodel import parse

WRITTEN = st.one_of(
    st.binary(max_size=30),
    st.integers(-(10**20), 10**20).map(lambda value: str(value).encode()),
    st.sampled_from([b"", b"0", b"1", b"0\n", b"1\n", b"\xc2\xb2", b"9" * 5000, b"408000000\n"]),
)


@pytest.fixture(scope="module", params=BOARDS, ids=lambda board: board.name)
def kernel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SimulatedKernel:
    board: BoardSpec = request.param
    return SimulatedKernel(board, create_board(board.name, tmp_path_factory.mktemp("kernel")))


@given(data=st.data())
def test_whatever_is_written_the_board_stays_a_board(
    data: st.DataObject, kernel: SimulatedKernel
) -> None:
    paths = [path for path in kernel.watched if path.exists()]
    for _ in range(5):
        path = data.draw(st.sampled_from(paths))
        path.write_bytes(data.draw(WRITTEN))
        kernel.written(path)
        for limits in (*kernel.cpu.values(), *kernel.gpu, *kernel.memory):
            assert limits.table[0] <= limits.low <= limits.high <= limits.table[-1]
        assert kernel.on <= set(kernel.board.cpus)
        assert 0 < kernel.memory_cap_hz() <= kernel.board.emc_hz[-1]
        assert 0 <= kernel.active_tpcs() <= 1
        kept = kernel.kept(path)
        if kept is not None:
            set_text(path, kept)  # what was accepted last is accepted again
            assert kernel.written(path) is None
            assert kernel.kept(path) == kept


def test_a_rate_is_kept_until_its_lock_is_noticed(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    board = board_of(root)
    kernel, clocks = SimulatedKernel(board, root), RunningClocks(board, root)
    idle, busy = (BoardLoad(cpus={}, gpu=0.0, memory=share) for share in (0.0, 1.0))
    clocks.run(kernel, idle, throttled=False)
    shown = kernel.rate.read_text().strip()
    assert shown == str(board.emc_hz[0])
    # Another locks the rate that is shown; the memory's load rises before the event comes.
    kernel.rate.write_text(f"{shown}\n")
    kernel.lock.write_text("1\n")
    clocks.run(kernel, busy, throttled=False)
    kernel.written(kernel.lock)
    assert kernel.locked_hz == board.emc_hz[0]
    kernel.lock.write_text("0\n")
    kernel.written(kernel.lock)
    clocks.run(kernel, busy, throttled=False)
    assert kernel.rate.read_text().strip() == str(board.emc_hz[-1])


@given(st.sets(st.integers(0, 200)))
def test_lists_of_cores_are_read_back(cpus: set[int]) -> None:
    assert parse_list(format_list(list(cpus))) == sorted(cpus)


def test_lists_of_cores_have_the_kernel_s_form() -> None:
    assert format_list([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert format_list([]) == ""


@given(st.text())
def test_any_text_is_a_configuration_or_has_errors(text: str) -> None:
    conf = parse(text)
    assert all(line.startswith("NVPM ERROR: Error parsing line ") for line in conf.errors)
