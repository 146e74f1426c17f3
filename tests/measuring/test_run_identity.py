"""Variables of the environment as part of what is measured."""

from __future__ import annotations

import os

import pytest

from mansard.core.errors import MeasurementError, UsageError
from mansard.measuring.identity import (
    changed_variables,
    read_environment,
    set_environment,
    shown_value,
    variable_marks,
)

MADE_UP = "hf_0123456789abcdef"  # made up
SECRET = {"HF_TOKEN": MADE_UP, "ORT_LEVEL": "2"}


def test_secrets_are_hashed_and_their_hash_counts() -> None:
    read = read_environment(["HF_TOKEN", "ORT_LEVEL"], environment=SECRET)
    assert read["ORT_LEVEL"] == "2"
    assert read["HF_TOKEN"].startswith("*** ")
    assert "0123456789" not in read["HF_TOKEN"]
    other = read_environment(["HF_TOKEN"], environment=SECRET | {"HF_TOKEN": "hf_another"})
    assert other["HF_TOKEN"] != read["HF_TOKEN"]


@pytest.mark.parametrize("name", ["", "A B", "1A", "A=1", "A\0", "x" * 300, "ä"])
def test_what_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a variable"):
        read_environment([name])


def test_another_process_gets_plain_values_and_refuses_hashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MANSARD_TRY", "before")
    set_environment({"MANSARD_TRY": "3"})
    assert os.environ["MANSARD_TRY"] == "3"
    monkeypatch.setenv("HF_TOKEN", MADE_UP)
    shown = shown_value("HF_TOKEN", MADE_UP)
    set_environment({"HF_TOKEN": shown})  # it is the one that is set here
    assert os.environ["HF_TOKEN"] == MADE_UP
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    for name, value in (("HF_TOKEN", shown), ("LONG", shown_value("LONG", "x" * 5000))):
        with pytest.raises(MeasurementError, match=f"the value of {name} is a secret, or long"):
            set_environment({name: value})


def test_a_variable_that_changed_is_named() -> None:
    before = {"NAP": "0.1", "HOME": "/root", "PWD": "/a", "OMP_NUM_THREADS": "1", **SECRET}
    marks = variable_marks({"OMP_NUM_THREADS"}, before)
    # Neither what is part of the identity, nor secrets, nor where the shell is.
    assert marks.keys() == {"NAP", "HOME", "ORT_LEVEL"}
    assert all(len(mark) == 4 for mark in marks.values())
    now = {**before, "NAP": "0.5", "PWD": "/b", "HF_TOKEN": "hf_another", "NEW": "1"}
    assert changed_variables(marks, {"OMP_NUM_THREADS"}, now) == ("NAP", "NEW")
    assert changed_variables(marks, {"OMP_NUM_THREADS"}, before) == ()
    assert changed_variables({}, (), now) == ()  # rows of before they were recorded
