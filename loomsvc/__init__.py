"""loomsvc: Looms of Code and agents on one ledger."""

from apps.core.version import VERSION as __version__

__all__ = ["__version__"]
