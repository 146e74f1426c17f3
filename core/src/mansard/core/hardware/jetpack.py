"""Which JetPack a release of L4T belongs to.

Source: NVIDIA's JetPack archive, as public tools and projects repeat it (jetson_stats,
jetson-containers, jetpack-nixos); where several name a release they agree, 28.2 comes from
jetson_stats alone. A release that is not here stays unknown: it is never taken for its
neighbour.
"""

from __future__ import annotations

from types import MappingProxyType

# Without trailing ".0": 36.3.0 is "36.3". DP: developer preview.
_JETPACKS = MappingProxyType(
    {
        "28.1": "3.1",
        "28.2": "3.2",
        "28.4": "3.3.3",
        "31.1": "4.1.1",
        "32.1": "4.2",
        "32.2": "4.2.1",
        "32.2.1": "4.2.2",
        "32.2.3": "4.2.3",
        "32.3.1": "4.3",
        "32.4.2": "4.4 DP",
        "32.4.3": "4.4",
        "32.4.4": "4.4.1",
        "32.5": "4.5",
        "32.5.1": "4.5.1",
        "32.5.2": "4.5.1",
        "32.6.1": "4.6",
        "32.7.1": "4.6.1",
        "32.7.2": "4.6.2",
        "32.7.3": "4.6.3",
        "32.7.4": "4.6.4",
        "32.7.5": "4.6.5",
        "32.7.6": "4.6.6",
        "34.1": "5.0 DP",
        "34.1.1": "5.0.1 DP",
        "35.1": "5.0.2",
        "35.2.1": "5.1",
        "35.3.1": "5.1.1",
        "35.4.1": "5.1.2",
        "35.5": "5.1.3",
        "35.6": "5.1.4",
        "35.6.1": "5.1.5",
        "35.6.2": "5.1.5",
        "36.2": "6.0 DP",
        "36.3": "6.0",
        "36.4": "6.1",
        "36.4.3": "6.2",
        "36.4.4": "6.2.1",
        "36.4.7": "6.2.1",
        "36.5": "6.2.2",
        "38.2": "7.0",
        "38.2.1": "7.0",
        "38.4": "7.1",
        "39.2": "7.2",
        "39.2.1": "7.2.1",
    }
)


def jetpack_of(l4t: str) -> str | None:
    """The JetPack of release ``36.4.7`` or ``36.3.0``; None where it is not known."""
    while l4t.endswith(".0"):
        l4t = l4t[:-2]
    return _JETPACKS.get(l4t)
