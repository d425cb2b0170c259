"""What the reviewer is asked and shown."""

import difflib
import re

from loomsvc.authoring import Option, Question

from .editing import HOW_TO
from .measuring import find, measure
from .schemas import Request, Review

#: Rounds that there may be: `max_visits` of the Step `ask`.
ROUNDS = 10
SHOWN = 300

VERDICTS = [
    Option("as_it_is", "Good as it is"),
    Option("with_edits", "Good with my edits"),
    Option("not_yet", "Not to be published", "Say why in the notes."),
]
STARTS = [
    Option("proposal", "The text as it now stands", "Skip for this."),
    Option("original", "The text as it first was", "All edits so far are thrown away."),
]
YES_OR_NO = [Option("yes", "Yes"), Option("no", "No")]


def questions(request: Request, review: Review) -> list[Question]:
    """The questions of a round.  From the second on, what was said before stays unless it is said anew."""
    said = review.said
    asked = [
        Question(
            "verdict",
            f"Round {review.round} of {ROUNDS}: what shall become of “{request.title}”?",
            description=_situation(request, review),
            options=VERDICTS,
        ),
        Question(
            "point",
            "What is the one thing that a reader will remember?",
            is_skippable=said is not None,
            description=_kept(said.point) if said else "In your words. The author sees whether that was meant.",
        ),
    ]
    for number, question in enumerate(request.checks):
        before = said.checks[number].answer if said else None
        description = _kept(before) if before else "Skip what you did not look at."
        asked.append(Question(f"check_{number + 1}", question, True, description, YES_OR_NO))
    if review.text != request.text:
        asked.append(Question("start_from", "Which text do you go on from?", True, options=STARTS))
    asked.append(Question("edits", "What shall be changed?", True, HOW_TO))
    asked.append(Question("notes", "Anything else that the author should know?", True))
    return asked


def _situation(request: Request, review: Review) -> str:
    lines = [f"You said of the last proposal: {review.feedback}"] if review.feedback else []
    if review.problems:
        lines += ["Nothing of the last round was carried out:", *(f"- {problem}" for problem in review.problems)]
    if request.audience:
        lines.append(f"It is for: {request.audience}")
    lines += [numbers(review.text), *(f"- {finding}" for finding in find(review.text, request))]
    return "\n".join([*lines, "", review.text])


def numbers(text: str) -> str:
    found = measure(text)
    return f"Words: {found.words}, sentences: {found.sentences}, minutes to read: {found.minutes}."


def proposal(request: Request, review: Review) -> str:
    """Markdown: what would be filed, and what changed."""
    said = review.answers()
    labels = {option.id: option.label for option in VERDICTS}
    lines = [
        f"# {escaped(request.title)}",
        f"Round {review.round} of {ROUNDS}. **{labels[said.verdict]}**. {numbers(review.text)}",
        f"A reader will remember: {escaped(_short(said.point))}",
        *(f"- {escaped(check.question)} {escaped(_short(check.answer or 'not looked at'))}" for check in said.checks),
        *(f"- Note: {escaped(_short(note))}" for note in review.notes),
        *(f"- To look at: {escaped(finding)}" for finding in find(review.text, request)),
        fenced(changes(request.text, review.text), "diff") if review.text != request.text else "The text is unchanged.",
        "No leads back to the questions; say there what is wrong.",
    ]
    return "\n\n".join(lines)


def changes(before: str, after: str) -> str:
    """What differs, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "as it was", "as reviewed", n=1, lineterm="")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Text as one line of Markdown that looks like itself."""
    return re.sub(r"([\\`*_~\[\]<>#!|&])", r"\\\1", " ".join(text.split()))


def fenced(text: str, language: str) -> str:
    """Text in a fence that nothing in it closes."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _kept(answer: str) -> str:
    return f"Skip to keep: {_short(answer)}"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"
