"""The answers of ``mansard recommend`` to many questions, word for word, as a user reads them.

``MANSARD_REWRITE=1 pytest tests/cli/test_cli_recommendations.py`` writes the file anew; every
changed line is to be read before it is committed: is it true, and does it help?
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.decide_runs import answer
from tests.cli.recommendation_questions import QUESTIONS, Question

ANSWERS = Path(__file__).with_name("recommendations.txt")
_RULE = "=" * 100


def block(question: Question, code: int, out: str, err: str) -> str:
    """A question with its answer, without spaces at the ends of lines."""
    command = " ".join(["mansard recommend", question.ask])
    printed = "\n".join(line.rstrip() for line in f"{err}{out}".splitlines())
    printed = printed.replace("\u00a0", " ")
    failed = f"(exit code {code})\n" if code else ""
    return f"{question.name}\n{question.tells}\n$ {command}\n\n{printed}\n{failed}"


def expected() -> dict[str, str]:
    """The blocks of the file by the names of their questions."""
    if not ANSWERS.exists():
        return {}
    blocks = ANSWERS.read_text(encoding="utf-8").split(f"{_RULE}\n")[1:]
    return {each.partition("\n")[0]: each for each in blocks}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_the_answer_is_what_was_read(
    question: Question,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    question.lay(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = block(question, *answer(capsys, *question.arguments()))
    if os.environ.get("MANSARD_REWRITE"):
        _write(question.name, found)
    assert found == expected()[question.name]


def _write(name: str, text: str) -> None:
    blocks = expected() | {name: text}
    known = [each.name for each in QUESTIONS if each.name in blocks]
    ANSWERS.write_text("".join(f"{_RULE}\n{blocks[each]}" for each in known), encoding="utf-8")


def test_every_answer_belongs_to_a_question() -> None:
    assert list(expected()) == [each.name for each in QUESTIONS]
