"""The promises every record makes."""

from __future__ import annotations

import importlib
import math
import pkgutil
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mansard
from mansard.core.errors import MansardError, SchemaError, UsageError
from mansard.core.hashing import content_hash
from mansard.core.power_mode import core_count_mode, parse_modes
from mansard.core.precision import PRECISIONS, parse_precision
from mansard.core.records import (
    GenerationRun,
    PowerSample,
    Problem,
    ProgramRun,
    PublishedLayer,
    PublishedRate,
    PublishedRun,
    Record,
    Schedule,
    with_known,
)
from mansard.core.text import natural_key, printable


def test_a_none_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="without reason: \\['energy_j'\\]"):
        PowerSample(rail="a", monotonic_s=0.0, power_w=1.0, energy_j=None)


def test_a_reason_without_a_none_is_refused() -> None:
    with pytest.raises(ValueError, match="reason without None: \\['power_w'\\]"):
        PowerSample(
            rail="a", monotonic_s=0.0, power_w=1.0, energy_j=2.0, unknown={"power_w": "lost"}
        )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_cannot_hold_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="PowerSample: power_w is"):
        PowerSample(rail="a", monotonic_s=0.0, power_w=value, energy_j=2.0)


def test_a_value_that_becomes_known_loses_its_reason_alone() -> None:
    mode = core_count_mode(2)
    assert {"gpu_hz", "memory_hz"} <= mode.unknown.keys()
    known = with_known(mode, gpu_hz=1e9)
    assert known.gpu_hz == 1e9
    assert mode.unknown.keys() - known.unknown.keys() == {"gpu_hz"}


def test_records_do_not_change() -> None:
    mode = core_count_mode(2)
    with pytest.raises(AttributeError):
        mode.n_cpus = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ["4c"]),
        ("", ["4c"]),
        ("2c", ["2c"]),
        ("all", ["1c", "2c", "3c", "4c"]),
        ("3c,1c,3c", ["3c", "1c"]),
    ],
)
def test_modes_of_a_plain_machine(text: str | None, names: list[str]) -> None:
    assert [mode.name for mode in parse_modes(text, 4)] == names


@pytest.mark.parametrize("text", ["5c", "0c", "c", "MAXN", "2c;rm", "-1c", "2C", "99999c"])
def test_a_mode_that_is_not_there_names_those_that_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"unknown power mode .*1c to 4c"):
        parse_modes(text, 4)


def test_precisions_have_the_width_of_their_name() -> None:
    for name, precision in PRECISIONS.items():
        assert name.endswith(str(precision.n_bits))
    with pytest.raises(UsageError, match="unknown precision 'fp33'; use one of fp64, fp32, tf32"):
        parse_precision("fp33")


@given(st.dictionaries(st.text(), st.integers(-(2**53), 2**53)))
def test_a_hash_depends_on_content_not_on_order(content: dict[str, int]) -> None:
    turned = dict(reversed(content.items()))
    assert content_hash(turned) == content_hash(content)
    assert content_hash({**content, "more": 1.5}) != content_hash(content)


def test_a_hash_stays_what_it_is() -> None:
    # sha256 of {"a":1}: run ids of old measurements must stay valid.
    assert content_hash({"a": 1}) == "015abd7f5cc57a2d"


@given(st.text())
def test_printable_text_is_one_line_without_controls(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


def test_printable_text_escapes_and_shortens() -> None:
    assert printable("a\x1b[2Jb\n\u202ec") == "a\\x1b[2Jb\\x0a\\u202ec"
    assert printable("Größe ✓") == "Größe ✓"
    assert printable("x" * 3000) == "x" * 2000 + "… (3000 characters)"


def test_errors_say_what_where_and_what_to_do() -> None:
    error = MansardError("is broken", where="model\n.onnx", fix="mend it")
    assert str(error) == "model\\x0a.onnx: is broken; mend it"
    assert (error.exit_code, UsageError("x").exit_code, SchemaError("x").exit_code) == (1, 2, 1)


def test_records_are_read_back_equal() -> None:
    mode = core_count_mode(2)
    assert msgspec.json.decode(msgspec.json.encode(mode), type=type(mode)) == mode


@pytest.mark.parametrize(
    ("record", "name", "version"),
    [
        (PublishedLayer, "published-layer", 1),
        (PublishedRate, "published-rate", 1),
        (PublishedRun, "published-run", 3),
        (ProgramRun, "program-run", 5),
        (GenerationRun, "generation-run", 2),
        (Problem, "schedule-problem", 1),
        (Schedule, "schedule", 2),
    ],
)
def test_files_name_the_version_of_their_rows(
    record: type[Record], name: str, version: int
) -> None:
    """Files of users hold these numbers: they change with a field, and never by accident."""
    assert (record.schema.name, record.schema.version) == (name, version)


def test_records_are_made_by_name() -> None:
    """A field that comes in the middle later changes no caller."""
    for module in pkgutil.walk_packages(mansard.__path__, "mansard."):
        if module.name.startswith(("mansard.core", "mansard.device", "mansard.analytics")):
            importlib.import_module(module.name)
    ahead, kinds = [Record], []
    while ahead:
        kind = ahead.pop()
        ahead += kind.__subclasses__()
        kinds.append(kind)
    assert len(kinds) > 100
    for kind in kinds:
        with pytest.raises(TypeError, match="Extra positional arguments"):
            cast(Any, kind)(None)


def test_numbers_in_names_sort_by_their_size() -> None:
    names = ["decode 16384", "resnet18", "decode 4096", "resnet", "decode 04096", "decode 512 b"]
    assert sorted(names, key=natural_key) == [
        *("decode 512 b", "decode 04096", "decode 4096", "decode 16384", "resnet", "resnet18")
    ]
