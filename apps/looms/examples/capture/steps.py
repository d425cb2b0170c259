"""The one Step of Capture."""

from loomsvc.authoring import CodeStep

from .schemas import Note


def file_note(step: CodeStep[None, Note]) -> str:
    """Append the note as a Record that carries the Run's id, so trying again changes nothing."""
    note = {"text": step.input.text, "tags": step.input.tags}
    step.append_record(note, record_id=f"note-{step.run_id}")
    return "kept"
