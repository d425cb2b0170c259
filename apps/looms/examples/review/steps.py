"""The Steps of Review."""

from typing import Any

from loomsvc.authoring import Answer, CodeStep, Confirmation, StageContext, Wait

from . import editing, showing
from .measuring import find, measure
from .schemas import Check, Report, Request, Review, Round, Said

#: Characters that one answer may have.
LONGEST = 5_000


def begin(context: StageContext[Request]) -> Review:
    return Review(text=context.input.text)


def ask(step: CodeStep[Review, Request]) -> Wait:
    step.update(round=step.visit)
    return step.ask(showing.questions(step.input, step.state), then=answered)


def answered(step: CodeStep[Review, Request], answers: list[Answer]) -> str:
    given = {answer.question_id: answer.answer for answer in answers}
    if long := _too_long(given):
        return _unclear(step, long, None)
    said = _said(step, given)
    step.update(
        said=said,
        notes=[*step.state.notes, said.notes] if said.notes else step.state.notes,
        text=step.input.text if given.get("start_from") == "original" else step.state.text,
    )
    if strange := _no_choice(given):
        return _unclear(step, strange, said)
    return "answered"


def _too_long(given: dict[str, str | None]) -> list[str]:
    long = [name for name, answer in given.items() if answer and len(answer) > LONGEST]
    return [f"Your answer to `{name}` is too long: {LONGEST:,} characters at most." for name in long]


def _no_choice(given: dict[str, str | None]) -> list[str]:
    """Own words where only an option will do: a person may always write them."""
    choices = {"verdict": showing.VERDICTS, "start_from": showing.STARTS}
    return [
        f"“{answer[:50]}” does not answer `{name}`; choose one of the options."
        for name, options in choices.items()
        if (answer := given.get(name)) and answer not in [option.id for option in options]
    ]


def _said(step: CodeStep[Review, Request], given: dict[str, str | None]) -> Said:
    """This round's answers; what was skipped stays as it was said before."""
    before = step.state.said
    earlier = before.checks if before else [Check(question=question) for question in step.input.checks]
    checks = [
        Check(question=check.question, answer=given[f"check_{number}"] or check.answer)
        for number, check in enumerate(earlier, 1)
    ]
    point = given["point"] or (before.point if before else "")
    verdict = given["verdict"] or ""
    return Said(verdict=verdict, point=point, checks=checks, edits=given["edits"] or "", notes=given["notes"])


def revise(step: CodeStep[Review, Request]) -> str:
    state, said = step.state, step.state.answers()
    text, problems = editing.apply(said.edits, state.text)
    if said.verdict == "as_it_is" and said.edits:
        problems = ["“Good as it is” and edits do not go together; choose one."]
    elif said.verdict == "with_edits" and text == step.input.text and not problems:
        problems = ["“Good with my edits” needs an edit."]
    if problems:
        return _unclear(step, problems, said)
    step.log.info("round %d: %d words", state.round, measure(text).words)
    step.update(text=text, problems=[])
    return "revised"


def approve(step: CodeStep[Review, Request]) -> Wait:
    """The last word is a person's own: an agent cannot give it for them."""
    return step.confirm(showing.proposal(step.input, step.state), then=decided, only_person=True)


def decided(step: CodeStep[Review, Request], answer: Confirmation) -> str:
    feedback = (answer.feedback or "").strip()[:LONGEST] or None
    _keep_round(step, step.state.said, is_confirmed=answer.is_confirmed, feedback=feedback)
    if answer.is_confirmed:
        step.update(notes=[*step.state.notes, feedback] if feedback else step.state.notes)
        return "approved"
    step.update(feedback=feedback or "No.")
    return "again"


def file_report(step: CodeStep[Review, Request]) -> str:
    request, state, said = step.input, step.state, step.state.answers()
    report = Report(
        title=request.title,
        text=state.text,
        verdict=said.verdict,
        is_changed=state.text != request.text,
        rounds=state.round,
        point=said.point,
        checks=said.checks,
        notes=state.notes,
        measures=measure(state.text),
        findings=find(state.text, request),
    )
    step.put_artifact(report)
    return "rejected" if said.verdict == "not_yet" else "accepted"


def _unclear(step: CodeStep[Review, Request], problems: list[str], said: Said | None) -> str:
    _keep_round(step, said, problems=problems)
    step.update(problems=problems)
    return "unclear"


def _keep_round(step: CodeStep[Review, Request], said: Said | None, **came_to: Any) -> None:
    number = step.state.round
    step.append_record(Round(round=number, said=said, **came_to), record_id=f"review-{step.run_id}-{number}")
