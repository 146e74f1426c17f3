"""The check of a machine with an NVIDIA card: prepare, run there, report here."""

from __future__ import annotations

from typing import Literal, get_args

Software = Literal["h100", "slow", "broken"]  # physics of a card in software
SOFTWARE: tuple[Software, ...] = get_args(Software)
