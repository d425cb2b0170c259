"""The last Stage, once for each round: Code runs the checks, an examiner judges, Code decides."""

from typing import Literal

from pydantic import BaseModel

from loomsvc.authoring import CodeStep, StageContext

from . import filed
from .checks import program, run_check
from .notes import with_note
from .schemas import CheckResult, Examined, Judgement, Report, Request, Settings
from .workspace import allowed_folder


class Validating(BaseModel):
    """What is known of this round so far.  No Tool writes ``results``."""

    results: list[CheckResult] = []
    judgements: list[Judgement] | None = None
    notes: list[str] = []


def begin(context: StageContext[Request]) -> Validating:
    return Validating()


def check(step: CodeStep[Validating, Request, Settings]) -> str:
    """Run the next check of those that were confirmed."""
    checks = filed.solution(step).checks
    done = len(step.state.results)
    if done < len(checks):
        following = checks[done]
        result = run_check(
            following,
            program(following.command[0], step.settings.commands),
            folder=allowed_folder(step.input.folder, step.settings.folders()),
            seconds=step.input.check_seconds,
            is_cancelled=step.cancelled,
        )
        step.log.info("%s: %s after %.1f s", result.command[0], result.ended, result.seconds)
        step.update(results=[*step.state.results, result])
    if len(step.state.results) < len(checks):
        return "more"
    return "passing" if all(result.has_passed for result in step.state.results) else "failing"


def decide(step: CodeStep[Validating, Request, Settings]) -> str:
    """File the round's report.  An agent's word alone never makes a Run validated."""
    examined: Examined | None = None if isinstance(step.previous, str) else step.previous
    if examined is not None and step.state.judgements is None:
        step.update(notes=with_note(step.state.notes, "Nothing was saved: call save_judgements before you submit."))
        return "again"
    report = Report(
        round=filed.manifest(step).round,
        verdict=_verdict(step),
        checks=step.state.results,
        judgements=step.state.judgements,
        summary="" if examined is None else examined.summary,
    )
    step.put_artifact(report)
    step.append_record(report, record_id=f"validation-{step.run_id}-{report.round}")
    return report.verdict


def _verdict(step: CodeStep[Validating, Request, Settings]) -> Literal["validated", "repair", "unfinished"]:
    """All checks passed and every requirement is met; else another round, while there is one."""
    judged = {one.requirement: one.is_met for one in step.state.judgements or ()}
    required = [one.id for one in filed.specification(step).requirements]
    passed = all(result.has_passed for result in step.state.results)
    if passed and all(judged.get(requirement) is True for requirement in required):
        return "validated"
    return "repair" if filed.manifest(step).round <= step.input.repairs else "unfinished"
