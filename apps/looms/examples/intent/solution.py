"""The second Stage: a plan that a person has confirmed, with the commands that may then run."""

from pydantic import BaseModel

from loomsvc.authoring import CodeStep, Confirmation, StageContext, Wait

from . import filed
from .notes import with_note
from .pages import solution_page
from .schemas import Plan, Request, Settings, Solution


class Solving(BaseModel):
    """The plan, and what was said about it."""

    plan: Plan | None = None
    #: Whether the plan was saved since the architect was last sent back.
    is_saved: bool = False
    notes: list[str] = []


def begin(context: StageContext[Request]) -> Solving:
    return Solving()


def confirm(step: CodeStep[Solving, Request, Settings]) -> str | Wait:
    """Show the plan to the person, and every command that confirming it lets run."""
    if step.state.plan is None or not step.state.is_saved:
        step.update(notes=with_note(step.state.notes, "Nothing was saved: call save_plan before you submit."))
        return "revise"
    page = solution_page(_solution(step), step.input)
    return step.confirm(page, then=decided, only_person=step.settings.only_person)


def decided(step: CodeStep[Solving, Request, Settings], answer: Confirmation) -> str:
    if not answer.is_confirmed:
        said = answer.feedback or "The person did not confirm it, and said nothing more. Make it simpler."
        step.update(is_saved=False, notes=with_note(step.state.notes, said))
        return "revise"
    solution = _solution(step)
    step.put_artifact(solution)
    step.append_record(solution, record_id=f"solution-{step.run_id}")
    return "confirmed"


def _solution(step: CodeStep[Solving, Request, Settings]) -> Solution:
    assert step.state.plan is not None
    return Solution(plan=step.state.plan, checks=filed.all_checks(step.input, step.state.plan))
