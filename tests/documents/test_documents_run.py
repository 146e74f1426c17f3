"""Every block of commands in README and docs runs, in the order of its page, as pasted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.simulator import create_board, running
from tests.documents.pages import ROOT, blocks, pages, shown_files, unnamed_commands
from tests.documents.running import Commands, Page, command_server

_MOST_LEFT_OUT = 55
_MOST_THAT_MAY_FAIL = 5
_BLOCKS = {page: blocks(page) for page in pages()}
_RUN = [page for page, found in _BLOCKS.items() if any(each.commands for each in found)]


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with command_server() as served:
        yield served


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with every simulated board that a block names; all of them are on."""
    folder = tmp_path_factory.mktemp("boards")
    names = {each.board for found in _BLOCKS.values() for each in found if each.board}
    with contextlib.ExitStack() as stack:
        for name in sorted(names):
            stack.enter_context(running(create_board(name, folder)))
        yield folder


def _run(
    path: Path, folder: Path, commands: Commands, boards: Path, *, with_long: bool = False
) -> None:
    page = Page(folder, commands, boards, shown_files(path))
    found = [each for each in _BLOCKS[path] if each.commands and (with_long or not each.is_long)]
    try:
        ran = [page.run(each, number) for number, each in enumerate(found)]
    finally:
        page.close()
    if failures := [str(each) for each in ran if each]:
        pytest.fail("\n".join(failures), pytrace=False)


@pytest.mark.parametrize("page", _RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, commands: Commands, boards: Path
) -> None:
    _run(page, tmp_path, commands, boards)


@pytest.mark.documents
@pytest.mark.parametrize("page", _RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_all_blocks_of_a_page_run(
    page: Path, tmp_path: Path, commands: Commands, boards: Path
) -> None:
    _run(page, tmp_path, commands, boards, with_long=True)


def test_what_is_not_run_has_a_reason() -> None:
    left_out = [
        f"{each.where}{f' ({part})' if part else ''}: {reason}"
        for found in _BLOCKS.values()
        for each in found
        for part, reason in each.left_out.items()
    ]
    may_fail = [
        f"{each.where}: {each.may_fail}"
        for found in _BLOCKS.values()
        for each in found
        if each.may_fail
    ]
    print("not run:", *left_out, "may fail:", *may_fail, sep="\n  ")  # noqa: T201 - to be read
    assert len(may_fail) <= _MOST_THAT_MAY_FAIL
    assert len(left_out) <= _MOST_LEFT_OUT


def test_blocks_of_commands_name_their_language() -> None:
    assert [place for page in pages() for place in unnamed_commands(page)] == []


def test_what_fails_is_noticed_and_the_next_block_runs(tmp_path: Path, commands: Commands) -> None:
    text = """\
```sh
mansard models write . squeezenet1_1
x=7
```
```sh
mansard score squeezenet1_1.onnx | head -1
mansard nonsense
touch never
```
```python
x = 1
```
```python
x += missing
```
```python
print(x)
```
<!-- exits: 1 -->
```sh
test -e never
```
"""
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    started = Page(tmp_path, commands, tmp_path, {})
    try:
        ran = [started.run(each, number) for number, each in enumerate(blocks(page))]
    finally:
        started.close()
    wrong = {each.block.line: each.what for each in ran if each}
    assert wrong == {5: "exit code 2, not 0", 13: "exit code 1, not 0"}
    assert "failed: mansard nonsense" in str(ran[1])
