"""GGUF files that were cut, or whose headers were changed: read, or one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from mansard.estimator.language.reading import read_language_model
from tests.estimator.language.gguf_files import write
from tests.estimator.language.small_configs import config

_SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("gguf") / "a.gguf", config("llama")).read_bytes()


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return tmp_path / "broken.gguf"


@_SHARED
@given(data=st.data())
def test_every_cut_is_one_line(whole: bytes, broken: Path, data: st.DataObject) -> None:
    # The last tensor, output.weight, ends with the file: 96 rows of 144 bytes are whole.
    broken.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ModelError) as caught:
        read_language_model(broken)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(broken))


@_SHARED
@given(data=st.data())
def test_a_changed_header_is_read_or_refused(
    whole: bytes, broken: Path, data: st.DataObject
) -> None:
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, 3500))] = data.draw(st.integers(0, 255))
    broken.write_bytes(changed)
    try:
        read_language_model(broken)
    except ModelError as error:
        assert "\n" not in str(error)  # noqa: PT017 - a header may also be changed for no harm
