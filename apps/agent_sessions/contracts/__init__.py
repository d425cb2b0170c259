"""Shapes of the background agent Tools; on the wire they are snake_case (contract section 10)."""

from __future__ import annotations

from pydantic import ConfigDict

from apps.core.contracts import Contract


class SnakeContract(Contract):
    """A wire shape whose members are named as Python names them."""

    model_config = ConfigDict(alias_generator=None)
