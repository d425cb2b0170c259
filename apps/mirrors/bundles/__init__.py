"""The Mirror format as files: writing, reading and checking bundles (contract section 9).

Nothing here knows Django or the ledger.  ``docs/reference/mirror-format.md`` describes the format for others.
"""
