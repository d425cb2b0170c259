"""A lifetime of the service, as a value."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instance:
    """One service instance: opened when the service is started, not when one of its processes is."""

    id: uuid.UUID
    opened_at: dt.datetime
    version: str
