"""An engine of a plain user is known as one, whichever way it says so."""

from __future__ import annotations

from typing import Any

import pytest

from mansard.containers.engine import read_facts
from tests.containers.stand_in_engine import PODMAN


@pytest.mark.parametrize(
    ("said", "is_rootless"),
    [
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, True),  # Docker, podman 4.9
        ({"SecurityOptions": ["name=seccomp"], "Rootless": True}, True),  # podman 4.3
        ({"SecurityOptions": ["name=seccomp"]}, False),  # podman 4.3 of root
    ],
)
def test_a_rootless_engine_is_known(said: dict[str, Any], is_rootless: bool) -> None:
    assert read_facts(PODMAN["/version"][1], said).is_rootless is is_rootless
