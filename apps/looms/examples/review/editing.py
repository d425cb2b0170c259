"""Edits as a reviewer writes them: ``old → new``, one a line, or in one line with ``;;`` between."""

import re

from .schemas import MAX_TEXT

MAX_EDITS = 200
HOW_TO = (
    "One edit a line, or `;;` between them. `old -> new` changes the one place where `old` stands, `old => new` all "
    "of them. Nothing after the arrow takes it out. → and ⇒ do as well."
)
_ARROW = re.compile("→|->|⇒|=>")
_EVERYWHERE = ("⇒", "=>")


def apply(edits: str, text: str) -> tuple[str, list[str]]:
    """The text with the edits, and what is wrong with them; then the text is not to be used."""
    written = [edit for edit in re.split(r"\r?\n|;;", edits) if edit.strip()]
    if len(written) > MAX_EDITS:
        return text, [f"These are {len(written)} edits; send at most {MAX_EDITS} in a round."]
    problems = []
    for number, edit in enumerate(written, 1):
        text, problem = _apply_one(edit, text)
        if problem:
            problems.append(f"Edit {number}: {problem}")
    return text, problems


def _apply_one(edit: str, text: str) -> tuple[str, str | None]:
    arrow = _ARROW.search(edit)
    if arrow is None:
        return text, "it has no arrow. Write `old -> new`."
    old, new = edit[: arrow.start()].strip(), edit[arrow.end() :].strip()
    if not old:
        return text, "nothing stands before the arrow. Write what to replace."
    times = text.count(old)
    if not times:
        return text, f"the text has no “{old}”. Copy it as it stands there."
    if times > 1 and arrow[0] not in _EVERYWHERE:
        return text, f"“{old}” is there {times} times. Copy more around it, or write `=>` for all of them."
    if len(text) + times * (len(new) - len(old)) > MAX_TEXT:
        return text, f"the text would be longer than {MAX_TEXT:,} characters."
    # What is taken out takes the space after it along.
    return re.sub(re.escape(old) + ("" if new else " ?"), lambda _: new, text), None
