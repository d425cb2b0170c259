"""Whether an answer is complete, and who may give it (H1–H3, H6)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError

from apps.core.caller import Source
from apps.core.contracts import Contract
from apps.core.errors import Issue, invalid_request
from apps.core.validation import issues_of

#: Ways of answering behind which a person stands.
_PERSONAL_SOURCES = frozenset({Source.CLI, Source.STUDIO, Source.CONSOLE})


class QuestionAnswer(Contract):
    """The answer to one question; a skipped one has none."""

    question_id: str
    is_skipped: bool
    answer: str | None = None


class ConfirmationAnswer(Contract):
    """The answer to a confirmation."""

    is_confirmed: bool
    feedback: str | None = None


class _Answers(Contract):
    answer: list[QuestionAnswer] = Field(max_length=1000)


class _Confirmed(Contract):
    answer: ConfirmationAnswer


def counts_as_person(source: Source, via: str) -> bool:
    """Whether an ``only_person`` Action takes an answer that came this way (H6)."""
    return source in _PERSONAL_SOURCES or via == "native"


def check_answer(kind: str, request: Any, answer: Any) -> None:
    """Raises ``INVALID_REQUEST`` with every issue; pointers start at ``/answer``."""
    shape = _Answers if kind == "questions" else _Confirmed
    try:
        parsed = shape.model_validate({"answer": answer}, by_alias=True, by_name=False)
    except ValidationError as error:
        raise invalid_request("Answer", issues_of(error, {"answer": answer})) from None
    if isinstance(parsed, _Answers):
        issues = _question_issues(request, parsed.answer)
        if issues:
            raise invalid_request("Answer", issues)


def _question_issues(request: list[dict[str, Any]], answers: list[QuestionAnswer]) -> list[Issue]:
    questions = {question["id"]: question for question in request}
    issues: list[Issue] = []
    seen: set[str] = set()
    for index, answer in enumerate(answers):
        path = f"/answer/{index}"
        question = questions.get(answer.question_id)
        if question is None:
            known = ", ".join(questions)
            issues.append(Issue("choice", f"{path}/questionId", f"Use one of the asked questions: {known}."))
            continue
        if answer.question_id in seen:
            issues.append(Issue("duplicate", f"{path}/questionId", "Answer each question once."))
        seen.add(answer.question_id)
        if answer.is_skipped:
            if not question["isSkippable"]:
                issues.append(Issue("required", f"{path}/isSkipped", "This question cannot be skipped; answer it."))
            if answer.answer is not None:
                issues.append(Issue("combination", f"{path}/answer", "Leave the answer out of a skipped question."))
        elif answer.answer is None or not answer.answer.strip():
            issues.append(Issue("required", f"{path}/answer", "Give a text that is not blank, or an option's id."))
    missing = [question_id for question_id in questions if question_id not in seen]
    issues += [Issue("required", "/answer", f"Add the answer to question {name}.") for name in missing]
    return issues
