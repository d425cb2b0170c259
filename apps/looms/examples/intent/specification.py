"""The first Stage: a wish becomes a specification that a person has confirmed."""

from pydantic import BaseModel

from loomsvc.authoring import Answer, CodeStep, Confirmation, Option, Question, StageContext, Wait

from .checks import program
from .notes import with_note
from .pages import specification_page
from .schemas import AskedQuestion, Drafted, Request, Settings, Specification
from .workspace import opened, snapshot

#: How often the analyst may ask, before it has to assume.
ASK_ROUNDS = 3
MAX_ANSWER = 2000


class Answered(BaseModel):
    """A question and what the person said; None when it was skipped."""

    question: str
    answer: str | None


class Specifying(BaseModel):
    """The draft, and what was said about it."""

    draft: Specification | None = None
    #: Whether the draft was saved since the analyst was last sent back.
    is_saved: bool = False
    asked: list[AskedQuestion] = []
    ask_rounds: int = 0
    answers: list[Answered] = []
    notes: list[str] = []


def begin(context: StageContext[Request, Settings]) -> Specifying:
    """Refuse a folder or a check that is not allowed before anybody works."""
    with opened(context.input.folder, context.settings.folders()) as folder:
        snapshot(folder)
    for command in context.input.checks:
        program(command[0], context.settings.commands)
    return Specifying()


def ask(step: CodeStep[Specifying, Request]) -> str | Wait:
    """Put the analyst's questions to the person."""
    drafted: Drafted = step.previous
    if step.state.ask_rounds == ASK_ROUNDS:
        step.update(notes=with_note(step.state.notes, "No more questions: assume what is likely, and write it down."))
        return "answered"
    step.update(asked=drafted.questions, ask_rounds=step.state.ask_rounds + 1)
    questions = [
        Question(
            one.id,
            one.question,
            is_skippable=one.is_skippable,
            description=one.why,
            options=[Option(option.id, option.label) for option in one.options],
        )
        for one in drafted.questions
    ]
    return step.ask(questions, then=answered)


def answered(step: CodeStep[Specifying, Request], answers: list[Answer]) -> str:
    given = {answer.question_id: answer.answer for answer in answers}
    heard = [Answered(question=one.question, answer=_in_words(one, given[one.id])) for one in step.state.asked]
    step.update(answers=[*step.state.answers, *heard], asked=[])
    return "answered"


def _in_words(question: AskedQuestion, answer: str | None) -> str | None:
    """The label of a chosen option, else the text itself."""
    labels = {option.id: option.label for option in question.options}
    return None if answer is None else labels.get(answer, answer)[:MAX_ANSWER]


def confirm(step: CodeStep[Specifying, Request, Settings]) -> str | Wait:
    """Show the draft to the person."""
    draft = step.state.draft
    if draft is None or not step.state.is_saved:
        step.update(notes=with_note(step.state.notes, "Nothing was saved: call save_specification before you submit."))
        return "revise"
    return step.confirm(specification_page(draft), then=decided, only_person=step.settings.only_person)


def decided(step: CodeStep[Specifying, Request], answer: Confirmation) -> str:
    if not answer.is_confirmed:
        said = answer.feedback or "The person did not confirm it, and said nothing more. Ask what is wrong."
        step.update(is_saved=False, notes=with_note(step.state.notes, said))
        return "revise"
    assert step.state.draft is not None
    step.put_artifact(step.state.draft)
    step.append_record(step.state.draft, record_id=f"specification-{step.run_id}")
    return "confirmed"
