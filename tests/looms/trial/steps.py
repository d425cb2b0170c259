import ctypes
import os
import time
from datetime import timedelta

from loomsvc.authoring import Answer, CodeStep, Confirmation, Question, StageContext, Wait

from .schemas import Do, Plan, Work

ERRORS = {
    "ConnectionError": ConnectionError,
    "ValueError": ValueError,
    "SystemExit": SystemExit,
    "MemoryError": MemoryError,
}


def begin(context: StageContext[Plan]) -> Work:
    return Work()


def effect(step: CodeStep[Work]) -> None:
    if step.input.effects:
        line = f"{step.run_id} {step.step_name}/{step.visit} {step.attempt} {os.getpid()}\n"
        descriptor = os.open(step.input.effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line.encode())
        os.close(descriptor)


def wait_for(path: str) -> None:
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {path}")
        time.sleep(0.005)


def perform(step: CodeStep[Work], do: Do) -> str | Wait:
    effect(step)
    if do.outlive:
        ctypes.CDLL(None).prctl(1, 0)  # PR_SET_PDEATHSIG: none
    if step.attempt <= do.kills:
        os.kill(os.getpid(), 9)
    if do.allocate:
        bytearray(do.allocate)
    if do.until:
        wait_for(do.until)
    if do.seconds:
        time.sleep(do.seconds)
    if do.artifact is not None:
        step.put_artifact(do.artifact)
    if do.record is not None:
        step.append_record({"index": step.state.index}, record_id=do.record)
    if step.attempt <= do.failures:
        raise ERRORS[do.error](f"attempt {step.attempt} of {step.step_name}")
    step.update(index=step.state.index + 1, trail=[*step.state.trail, f"{step.step_name}:{do.ending}"])
    if do.ending == "kill":
        os.kill(os.getpid(), 9)
    if do.ending == "ask":
        return step.ask([Question(id="q", question="Go on?")], then=asked, only_person=do.only_person)
    if do.ending == "confirm":
        return step.confirm("Go **on**?", then=confirmed)
    if do.ending == "sleep":
        return step.sleep_until(step.now() + timedelta(milliseconds=10), then=slept)
    return do.ending


def act(step: CodeStep[Work]) -> str | Wait:
    plan = step.input.do
    return perform(step, plan[step.state.index] if step.state.index < len(plan) else Do())


def goes_on(step: CodeStep[Work]) -> str:
    effect(step)
    plan = step.input.do
    following = plan[step.state.index] if step.state.index < len(plan) else Do()
    step.update(index=step.state.index + 1)
    return following.ending


def asked(step: CodeStep[Work], answers: list[Answer]) -> str:
    step.update(trail=[*step.state.trail, f"answered:{answers[0].answer}"])
    return goes_on(step)


def confirmed(step: CodeStep[Work], answer: Confirmation) -> str:
    step.update(trail=[*step.state.trail, f"confirmed:{answer.is_confirmed}"])
    return goes_on(step)


def slept(step: CodeStep[Work]) -> str:
    return goes_on(step)


def close(step: CodeStep[Work]) -> str | Wait:
    return perform(step, step.input.close)
