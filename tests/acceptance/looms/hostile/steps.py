from loomsvc.authoring import Answer, CodeStep, Option, Question, StageContext, Wait

from .schemas import Given, Work


def begin(context: StageContext[Given]) -> Work:
    return Work(text="")


def ask(step: CodeStep[Work]) -> Wait:
    text = step.input.text
    step.update(text=text)
    step.log.info(text)
    step.put_artifact({text: text})
    step.append_record({text: text})
    option = Option(id="a", label=text, description=text)
    return step.ask([Question(id="q", question=text, description=text, options=[option])], then=asked)


def asked(step: CodeStep[Work], answers: list[Answer]) -> str:
    return "asked"


def fail(step: CodeStep[Work]) -> str:
    raise ValueError(step.state.text)
