"""Run folders with right JSON of any shape: our errors, one line that names the file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.roofs.rates import trial_rates, unused_trials
from mansard.core.errors import MansardError
from tests.analytics.factory import manifest, trial, write_run

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 1e308, 10**400, "", "\ud800", "a" * 5000, "../x", "\0\x1b[2J"),
    *([], {}, [[]], [None], {"a": None}, [0] * 50, {"unknown": {}}, "NaN", -(10**19)),
)
DEEP = "[" * 5000 + "]" * 5000


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in list(items)[:30]:
            found += places(inner, (*path, key))
    return found


def changed(value: Any, path: tuple[Any, ...], odd: object) -> Any:
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], odd)
    return copy


@settings(max_examples=80)
@given(st.data())
def test_run_folders_of_any_shape_are_read_or_refused(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        folder = write_run(runs / "r", manifest("r"), [trial("r", "read", 1e9)])
        file = data.draw(st.sampled_from(["manifest.json", "trials.jsonl"]))
        text = (folder / file).read_text()
        head, text = text.split("\n", 1) if file == "trials.jsonl" else ("", text)
        document = json.loads(text)
        path = data.draw(st.sampled_from(places(document)))
        odd = data.draw(st.sampled_from([*ODD, "DEEP", "TWICE"]))
        written = json.dumps(changed(document, path, odd))
        written = written.replace('"DEEP"', DEEP)
        if odd == "TWICE":
            written = written.replace("{", '{"unknown": {}, ', 1)
        (folder / file).write_text(f"{head}\n{written}\n" if head else written)
        said = ""
        try:
            dataset = ingest(runs)
            trial_rates(dataset)
            unused_trials(dataset)
        except MansardError as error:
            said = str(error)
        assert not said or (said.isprintable() and f"{runs}/r" in said)
