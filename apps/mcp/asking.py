"""Asking a person at the terminal what a Run asks, and reading answers that were written beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from apps.mcp.terminal import plain

Action = Mapping[str, Any]


def ask(action: Action, *, console: Console, read: Callable[[str], str] = input) -> Any:
    """The answer in its wire form (H1, H2); ``None`` when the person dismisses the form (Ctrl-D)."""
    try:
        if action["kind"] == "confirmation":
            return _confirm(action["request"], console, read)
        return [_question(question, console, read) for question in action["request"]]
    except EOFError:
        console.print("")
        return None


def _confirm(request: Mapping[str, Any], console: Console, read: Callable[[str], str]) -> dict[str, Any]:
    # Addresses are shown, not hidden behind words that look harmless.
    console.print(Markdown(plain(request["context"]), hyperlinks=False))
    while (said := read("Confirm? [y/n] ").strip().lower()) not in ("y", "yes", "n", "no"):
        console.print("Say y or n; Ctrl-D leaves it unanswered.")
    feedback = read("Feedback (empty for none): ").strip()
    return {"isConfirmed": said.startswith("y"), **({"feedback": feedback} if feedback else {})}


def _question(question: Mapping[str, Any], console: Console, read: Callable[[str], str]) -> dict[str, Any]:
    console.print(Text(plain(question["question"]), style="bold"))
    if question.get("description"):
        console.print(Text(plain(question["description"]), style="dim"))
    options = question.get("options") or []
    for number, option in enumerate(options, 1):
        more = f"  {plain(option['description'])}" if option.get("description") else ""
        console.print(Text.assemble(f"  {number}  {plain(option['label'])}", (more, "dim")))
    hint = "number or own words" if options else "answer"
    skip = ", empty to skip" if question["isSkippable"] else ""
    while True:
        said = read(f"[{hint}{skip}] ")
        if said.strip():
            return {"questionId": question["id"], "isSkipped": False, "answer": _chosen(said, options)}
        if question["isSkippable"]:
            return {"questionId": question["id"], "isSkipped": True}
        console.print("This one needs an answer; Ctrl-D leaves it unanswered.")


def _chosen(said: str, options: list[Mapping[str, Any]]) -> str:
    """An option's id for its number; any other text as it was given."""
    number = said.strip()
    if number.isdecimal() and 1 <= int(number) <= len(options):
        return str(options[int(number) - 1]["id"])
    return said


def in_order(answers: Iterable[Any]) -> Callable[[Action], Any]:
    """Answers that were written beforehand, one for each Action; ``None`` when they are used up."""
    left = iter(answers)
    return lambda _action: next(left, None)
