"""Widths, wrapped sentences, colours, ``-q`` and ``-v``."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mansard.cli.__main__ import run
from mansard.cli.console import take_verbosity
from mansard.cli.terminal import columns, has_colours, painted, tone_of, wrapped
from tests.analytics.factory import write_two_modes
from tests.cli.in_process import mansard, streams, wide_rows


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_a_shell_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_pipe_has_80_columns_and_what_is_asked_for_counts_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert columns(io.StringIO()) == 80
    assert columns(Terminal()) == 80  # no terminal behind it can be asked
    monkeypatch.setenv("COLUMNS", "123")
    assert columns(io.StringIO()) == columns(Terminal()) == 123
    for nonsense, width in (("0", 80), ("wide", 80), ("-5", 80), ("3", 20), ("999999", 1000)):
        monkeypatch.setenv("COLUMNS", nonsense)
        assert columns(io.StringIO()) == width


@pytest.mark.parametrize(
    ("settings", "in_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),  # no-color.org: an empty one does not count
        ({"TERM": "dumb"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_where_colours_are(
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    in_terminal: bool,
    in_pipe: bool,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert (has_colours(Terminal()), has_colours(io.StringIO())) == (in_terminal, in_pipe)


def test_the_word_says_what_its_colour_does() -> None:
    words = ("ok", "missing", "broken: no", "worse: lower", "better: higher", "oklahoma", "")
    assert [tone_of(word) for word in words] == [
        "good",
        "warning",
        "bad",
        "bad",
        "good",
        None,
        None,
    ]
    assert painted(" ok  ", "good") == " \x1b[32mok\x1b[0m  "


def test_doctor_in_colours_says_the_same_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = mansard("doctor").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = mansard("doctor").stdout
    assert "\x1b[32mok\x1b[0m" in coloured
    changing = re.compile(r"[0-9.]+")
    assert changing.sub("0", re.sub(r"\x1b\[[0-9]+m", "", coloured)) == changing.sub("0", plain)


def test_a_sentence_is_one_line_in_a_pipe_and_wraps_on_a_terminal(tmp_path: Path) -> None:
    words = ("recommend", "alexnet", "--runs", write_two_modes(tmp_path / "runs"), "-v")
    piped = mansard(*words).stdout
    (note,) = (line for line in piped.splitlines() if line.startswith("  note: energy is known"))
    assert len(note) > 200
    with streams(60) as printed:
        assert run([str(word) for word in words]) == 0
    out, _ = printed.texts()
    # Commands are whole, and a path that is too long stands alone.
    sentences = [line for line in out.splitlines() if "set:" not in line and " " in line.strip()]
    assert max(map(len, sentences)) <= 60
    # The lines after the first stand further in.
    assert " ".join(note.split()) in " ".join(out.split())
    assert re.search(r"^  note: energy is known .*\n    \S", out, re.MULTILINE)


def test_a_table_that_is_too_wide_is_found() -> None:
    assert wide_rows("a" * 90) == []
    assert wide_rows(f"{'a ' * 45}\n") == []
    assert wide_rows(f"short\nname{' ' * 80}value\n") == [f"name{' ' * 80}value"]


@pytest.mark.parametrize(
    ("given_words", "left", "quiet", "verbose"),
    [
        ("-q modes", "modes", True, False),
        ("modes --quiet --json", "modes --json", True, False),
        ("-v modes", "modes", False, True),
        ("modes -q -v", "modes", False, True),
        ("measure -- program -q", "measure -- program -q", False, False),
    ],
)
def test_quiet_and_verbose_stand_before_the_command_or_behind_it(
    given_words: str, left: str, quiet: bool, verbose: bool
) -> None:
    from mansard.cli import console

    assert take_verbosity(given_words.split()) == left.split()
    assert (console._verbosity.is_quiet, console._verbosity.is_verbose) == (quiet, verbose)
    take_verbosity([])


@pytest.mark.parametrize(
    ("given_words", "tells_files"),
    [("-v", False), ("-q -v", False), ("-v modes -v", True), ("-vv", True), ("-vv -q", False)],
)
def test_files_are_told_with_the_second_v(given_words: str, tells_files: bool) -> None:
    from mansard.cli import console

    take_verbosity(given_words.split())
    assert console._verbosity.tells_files is tells_files
    take_verbosity([])


def test_a_quiet_command_prints_results_and_errors_alone(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path / "runs")
    words = ("batch", "alexnet", "--runs", runs, "--batch", "1,2")
    usual, quiet = mansard(*words), mansard("-q", *words)
    assert "note: " in usual.stderr
    assert (quiet.stdout, quiet.stderr) == (usual.stdout, "")
    failed = mansard("report", "--runs", tmp_path / "none", "-q")
    assert failed.returncode == 1
    assert failed.stderr.startswith("mansard: ")


def test_a_verbose_command_names_files_and_times(tmp_path: Path) -> None:
    write_two_modes(tmp_path / "runs")
    told = mansard("report", "-vv", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "writes runs/report.html" in told.stderr
    assert re.search(r"^took [0-9.]+ s in all$", told.stderr, re.MULTILINE)
    assert "took" not in mansard("report", cwd=tmp_path).stderr


TEXT = st.text(st.sampled_from("ab .;日本\u00a0\u0301"), max_size=80)


@given(TEXT, st.integers(8, 60), st.sampled_from(["", "  ", "note: "]))
def test_wrapped_text_keeps_its_words_and_its_width(text: str, width: int, first: str) -> None:
    lines = wrapped(text, width, first, "  ")
    assert all(cell_len(line) <= width or len(line.split()) == 1 for line in lines)
    found = [word for line in lines for word in line.replace("\u00a0", " ").split()]
    given_words = [*first.split(), *text.replace("\u00a0", " ").split()]
    assert found == given_words
