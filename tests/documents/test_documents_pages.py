"""What the tests of the pages take for commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.pages import blocks, unnamed_commands

PAGE = """\
# A page

```console
$ mansard score a.onnx \\
    --batch 1
┌───┐
$ cat > a.toml <<END
> x = 1
> END
```

<!-- given: mine.onnx -->
<!-- exits: 1 -->
```sh
# a comment
mansard score mine.onnx  # the batch is missing
```

<!-- not run (--host): needs a board -->
1. In a list:
<!-- board: agx-orin -->
<!-- not run (--host): needs a board -->
   ```sh
   mansard board modes
   mansard board modes --host orin
   ```

<!-- not run: needs a card -->
```python
import cupy
```

```
mansard board modes
```
"""


def test_a_page_is_read_as_its_reader_types_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, "utf-8")
    console, script, listed, python = blocks(page)
    assert console.commands == [
        "mansard score a.onnx \\\n    --batch 1",
        "cat > a.toml <<END\nx = 1\nEND",
    ]
    assert script.commands == ["mansard score mine.onnx  # the batch is missing"]
    assert (script.given, script.exit_code, script.line) == (("mine.onnx",), 1, 14)
    assert (listed.commands, listed.board) == (["mansard board modes"], "agx-orin")
    assert (python.commands, python.left_out) == ([], {"": "needs a card"})


def test_a_reason_is_asked_for_and_comments_are_spelled(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run -->\n```sh\nls\n```\n", "utf-8")
    with pytest.raises(ValueError, match="or may fail has a reason"):
        blocks(page)
    page.write_text("<!-- boards: agx-orin -->\n```sh\nls\n```\n", "utf-8")
    with pytest.raises(ValueError, match="cannot be read"):
        blocks(page)


def test_commands_without_a_language_are_found() -> None:
    root = Path(__file__).resolve().parents[2]
    assert unnamed_commands(root / "LICENSE") == []
