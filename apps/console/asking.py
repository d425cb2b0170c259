"""An Action as a form, and what was filled in as its answer (H1, H2, H5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.core.errors import Issue

BOTH = "Choose an option or use your own words, not both."


@dataclass(frozen=True, slots=True)
class Field:
    """One question with what was filled in; ``name`` stands in the names of its inputs."""

    name: str
    question: str
    description: str
    options: Sequence[Mapping[str, Any]]
    is_skippable: bool
    chosen: str = ""
    own: str = ""
    is_skipped: bool = False
    error: str = ""


def fields_of(request: Sequence[Mapping[str, Any]], given: Mapping[str, str], issues: Sequence[Issue]) -> list[Field]:
    """The fields of a question list, with the words given so far and what is wrong with them."""
    wrong = _by_number(request, issues)
    return [
        Field(
            name=str(number),
            question=question["question"],
            description=question.get("description") or "",
            options=question.get("options") or (),
            is_skippable=question["isSkippable"],
            chosen=given.get(f"choice{number}", ""),
            own=given.get(f"own{number}", ""),
            is_skipped=given.get(f"skip{number}") == "yes",
            error=" ".join(wrong.get(number, ())),
        )
        for number, question in enumerate(request)
    ]


def answer_of(kind: str, request: Any, given: Mapping[str, str]) -> tuple[Any, list[Issue]]:
    """The answer in its wire form, and what says two things at once; all else is checked where it is admitted."""
    if kind == "confirmation":
        feedback = given.get("feedback", "").strip()
        said = {"yes": True, "no": False}.get(given.get("confirmed", ""))
        return {
            **({} if said is None else {"isConfirmed": said}),
            **({"feedback": feedback} if feedback else {}),
        }, []
    entries, issues = [], []
    for number, question in enumerate(request):
        chosen, own = given.get(f"choice{number}", ""), given.get(f"own{number}", "").strip()
        if given.get(f"skip{number}") == "yes" and not own:
            entries.append({"questionId": question["id"], "isSkipped": True})
            continue
        if given.get(f"skip{number}") == "yes":
            issues.append(Issue("combination", f"/answer/{number}", "Answer it or skip it, not both."))
        if chosen and own:
            issues.append(Issue("combination", f"/answer/{number}", BOTH))
        text = own or chosen
        entries.append({"questionId": question["id"], "isSkipped": False, **({"answer": text} if text else {})})
    return entries, issues


def in_words(answer: Any, request: Any = ()) -> str:
    """A stored answer on one line; with its ``request``, options by their labels, and of several the questions."""
    if isinstance(answer, list):
        asked = {question["id"]: question for question in request}
        said = [_entry_in_words(entry, asked.get(entry.get("questionId")), len(asked) > 1) for entry in answer]
    else:
        said = ["yes" if answer["isConfirmed"] else "no", *filter(None, [answer.get("feedback")])]
    text = "; ".join(" ".join(part.split()) for part in said)
    return text if len(text) <= 200 else text[:199] + "…"


def _entry_in_words(entry: Mapping[str, Any], question: Mapping[str, Any] | None, is_named: bool) -> str:
    if question is None:
        return "skipped" if entry["isSkipped"] else str(entry["answer"])
    said = "skipped" if entry["isSkipped"] else _label(question, str(entry["answer"]))
    return f"{question['question']} {said}" if is_named else said


def draft_of(kind: str, request: Any, given: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was filled in, question by question, as text to copy; what was left empty is left out."""
    if kind == "confirmation":
        entries = [("Your decision", {"yes": "Yes", "no": "No"}.get(given.get("confirmed", ""), ""))]
        entries.append(("Anything to say to it", given.get("feedback", "").strip()))
        return [(asked, said) for asked, said in entries if said]
    found = []
    for number, question in enumerate(request):
        said = [_label(question, given.get(f"choice{number}", "")), given.get(f"own{number}", "").strip()]
        if given.get(f"skip{number}") == "yes":
            said.append("skipped")
        if text := "\n".join(filter(None, said)):
            found.append((question["question"], text))
    return found


def _label(question: Mapping[str, Any], said: str) -> str:
    """What an option is called that was answered by its id; own words as they are."""
    labels: dict[str, str] = {option["id"]: option["label"] for option in question.get("options") or ()}
    return labels.get(said, said)


def _by_number(request: Sequence[Mapping[str, Any]], issues: Sequence[Issue]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for issue in issues:
        place = re.match(r"/answer/(\d+)", issue.path)
        if place:
            number = int(place[1])
            told = issue.suggestion
            if issue.code == "required":
                may_skip = number < len(request) and request[number]["isSkippable"]
                told = "Answer this one, or tick that you skip it." if may_skip else "This one needs an answer."
            found.setdefault(number, []).append(told)
    return found
