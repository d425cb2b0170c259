"""loomsvc: Looms of Code and agents on one ledger."""

__version__ = "0.1.0"
