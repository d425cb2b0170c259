"""What an agent is told when it is sent back."""

KEPT = 10
MAX_NOTE = 4000


def with_note(notes: list[str], note: str) -> list[str]:
    """The notes with one more, the newest last; old ones make room."""
    return [*notes, note[:MAX_NOTE]][-KEPT:]
