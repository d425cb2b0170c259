"""What each command shows: the structured result of a Tool as tables and short facts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from apps.core import json_text
from apps.core.errors import LoomError
from apps.mcp.terminal import commands, data, facts, indented, place_of, plain, status, table, waits_for_agent, when

Result = Mapping[str, Any]


def service(result: Result) -> RenderableType:
    """``status``."""
    about = result["service"]
    counts = ", ".join(f"{number} {name}" for name, number in about["counts"].items() if number)
    return facts(
        [
            ("loomsvc", about["version"]),
            ("instance", about["instanceId"]),
            ("started", when(about["startedAt"])),
            ("project", about["project"]),
            ("Agent Steps", about.get("notReadyBecause") or "ready"),
            ("open Runs", counts or "none"),
        ]
    )


def looms(result: Result) -> RenderableType:
    """``list_looms``: a table, and every problem of those that do not load."""
    found = result["looms"]
    if not found:
        return Text("No Looms. Name the folders that hold yours in LOOM_PATHS, and start the service anew.")
    rows = [
        (status(loom["status"]), loom["loomName"], loom["title"], " → ".join(s["name"] for s in loom["stages"]))
        for loom in found
    ]
    return Group(table(("STATUS", "LOOM", "TITLE", "STAGES"), rows), *_diagnostics(found))


def _diagnostics(found: list[Result]) -> Iterator[RenderableType]:
    for loom in found:
        for problem in loom.get("diagnostics") or ():
            place = f"{problem['file']}:{problem['line']}" if problem.get("line") else problem["file"]
            hint = f" {problem['suggestion']}" if problem.get("suggestion") else ""
            yield Text(plain(f"{loom['loomName']}: {problem['severity']}: {place}: {problem['message']}{hint}"))


def runs(result: Result) -> RenderableType:
    """``list_runs``."""
    if not result["runs"]:
        return Text("No Runs. Start one: loomsvc run_loom NAME --input JSON")
    rows = [
        (status(run["status"]), run["runId"], run["loomName"], place_of(run), _gist(run), when(run["createdAt"]))
        for run in result["runs"]
    ]
    headings = ("STATUS", "RUN", "LOOM", "STEP", "", "CREATED")
    return Group(table(headings, rows, whole=("STATUS", "RUN")), *_next_page(result))


def _gist(run: Result) -> str:
    """What a person wants to know of it in a few words."""
    return f"{_news(run)} (historical)".strip() if run["historical"] else _news(run)


def _news(run: Result) -> str:
    if run.get("lastError"):
        return str(run["lastError"]["code"])
    if run.get("pendingAction"):
        return f"waits for a person ({run['pendingAction']['kind']})"
    if run.get("pendingAgentCall"):
        return f"waits for agent {run['pendingAgentCall']['agentId']} ({run['pendingAgentCall']['phase']})"
    return str(run.get("outcome") or ("pause requested" if run["pauseRequested"] else ""))


def _next_page(page: Result) -> Iterator[RenderableType]:
    if page.get("nextCursor"):
        yield Text(f"More: the same command with --cursor {page['nextCursor']}", style="dim")


def run(view: Result) -> RenderableType:
    """A Run with everything that a person acts on, and the commands to do so."""
    error = view.get("lastError")
    results = view["results"]
    shown: list[RenderableType] = [
        facts(
            [
                ("run", view["runId"]),
                ("status", status(view["status"])),
                ("loom", view["loomName"]),
                ("step", place_of(view)),
                ("revision", view["revision"]),
                ("outcome", view.get("outcome")),
                ("error", _error(error) if error else None),
                ("agent", waits_for_agent(call) if (call := view.get("pendingAgentCall")) else None),
                ("pause", _pause(view)),
                ("artifacts", "\n".join(results["artifactIds"]) or None),
                ("records", "\n".join(results["recordIds"]) or None),
                ("created", when(view["createdAt"])),
                ("finished", when(view["finishedAt"]) if view.get("finishedAt") else None),
                ("historical", "yes: read-only" if view["historical"] else None),
            ]
        )
    ]
    return Group(*shown, *_to_do(view))


def _pause(view: Result) -> str | None:
    if not view["pauseRequested"]:
        return None
    return "requested; takes effect " + (
        "once it was answered and the Step has ended" if view.get("pendingAction") else "after this Step"
    )


def _error(error: Result) -> str:
    return f"{error['code']}: {error['message']} ({error['stage']}/{error['step']}, attempt {error['attempt']})"


def _to_do(view: Result) -> Iterator[RenderableType]:
    if view.get("pendingAction"):
        yield from pending_action(view)
    elif view["status"] == "paused" and not view["historical"]:
        yield Text("Go on with:")
        yield commands(f"loomsvc resume_run {view['runId']} --expected-revision {view['revision']}")
    elif (view.get("pendingAgentCall") or {}).get("phase") == "available":
        yield Text("An agent that is connected at /mcp takes it with claim_agent_call.")
    elif view["status"] == "failed":
        yield Text("See where with:")
        yield commands(f"loomsvc loom_graph {view['runId']}")


def pending_action(view: Result) -> Iterator[RenderableType]:
    """What is asked, and the command that answers it."""
    action = view["pendingAction"]
    yield Text("It asks a person:")
    if action["kind"] == "confirmation":
        yield indented(Text(plain(action["request"]["context"])))
        example = """'{"isConfirmed": true}'"""
    else:
        for question in action["request"]:
            yield indented(_question(question))
        example = f"'{json_text.dumps([_example(question) for question in action['request']])}'"
    yield Text("Answer with:")
    yield commands(f"loomsvc answer_ask {view['runId']} {action['id']} --answer {example}")
    yield Text("Or be asked in a terminal:")
    yield commands(f"loomsvc interact {view['runId']}")


def handed_over(result: Result) -> RenderableType:
    """``interact`` where nobody can be asked."""
    return Group(*pending_action(result["run"]))


def too_late(answered: Result | None, refusal: LoomError) -> RenderableType:
    """Somebody else was first: who, and when; without that, why the answer was not taken."""
    if answered is None:
        return Text.assemble(("Your answer was not taken. ", "yellow"), plain(refusal.message))
    by = answered["data"]["answeredBy"]
    who = f"{by['principal']} ({by['source']}, by {by['via']}), {when(answered['at'])}"
    return Text.assemble(("Your answer was not taken: somebody was faster. ", "yellow"), plain(f"Answered by {who}."))


def _question(question: Result) -> Text:
    """A question as it has to be answered: with the ids of its options, not their numbers."""
    skip = " (may be skipped)" if question["isSkippable"] else ""
    lines = [f"{plain(question['id'])}: {plain(question['question'])}{skip}"]
    if question.get("description"):
        lines.append(f"  {plain(question['description'])}")
    lines += [f"  {plain(option['id'])} = {plain(option['label'])}" for option in question.get("options") or ()]
    return Text("\n".join(lines))


def _example(question: Result) -> Result:
    options = question.get("options") or ()
    return {
        "questionId": plain(question["id"]),
        "isSkipped": False,
        "answer": plain(options[0]["id"]) if options else "YOUR ANSWER",
    }


def found_run(result: Result) -> RenderableType:
    """``get_run`` and ``find_run``."""
    return run(result["run"]) if result["run"] else Text("No Run was started under this identity.")


def receipt(found: Result) -> RenderableType:
    """A receipt, with both halves of its identity, so that it can be looked up again."""
    error = found.get("error")
    effect = {"applied": "applied", "none": "nothing was left to do"}.get(found.get("effect") or "")
    return facts(
        [
            ("operation", found["operationId"]),
            ("instance", found["serviceInstanceId"]),
            ("kind", found["kind"]),
            ("receipt", status(found["status"])),
            ("effect", effect),
            ("error", f"{error['code']}: {error['message']}" if error else None),
        ]
    )


def operation(result: Result) -> RenderableType:
    """A write: its receipt, and the Run as it stands now."""
    view = result.get("run")
    return Group(receipt(result["receipt"]), *([Text(""), run(view)] if view else []))


def found_operation(result: Result) -> RenderableType:
    """``get_operation``."""
    if result["status"] == "found":
        return receipt(result["receipt"])
    said = {
        "not_found": "No such Operation was admitted by this service instance.",
        "instance_changed": "The service was started anew since: find_run tells whether a Run came of it; "
        "send nothing again before you know.",
    }
    return Group(status(result["status"]), Text(said[result["status"]]))


def artifacts(result: Result) -> RenderableType:
    """``list_artifacts``."""
    page = result["artifacts"]
    if not page["data"]:
        return Text("No Artifacts.")
    rows = [
        (item["artifactId"], item["loomName"], item["stageName"], item["revision"], when(item["updatedAt"]))
        for item in page["data"]
    ]
    headings = ("ARTIFACT", "LOOM", "STAGE", "REVISION", "UPDATED")
    return Group(table(headings, rows, whole=("ARTIFACT",)), *_next_page(page))


def artifact(result: Result) -> RenderableType:
    """``get_artifact``."""
    return _detail(result["artifact"], "artifactId", "No such Artifact.")


def record(result: Result) -> RenderableType:
    """``get_record``."""
    return _detail(result["record"], "recordId", "No such Record.")


def _detail(found: Result | None, key: str, missing: str) -> RenderableType:
    if found is None:
        return Text(missing)
    place = f"{found['loomName']}/{found['stageName']}"
    rows = [
        (key.removesuffix("Id"), found[key]),
        ("place", place),
        ("revision", found.get("revision")),
        ("run", found["runId"]),
    ]
    return Group(facts(rows), data(found["data"]))


def search(result: Result) -> RenderableType:
    """``search``: each result in three lines, best first."""
    if not result["results"]:
        return Text("Nothing has all of these words.")
    lines = [Text(plain(f"{one['title']}\n  {one['url']}\n  {one['snippet']}".rstrip())) for one in result["results"]]
    return Group(*lines, *_next_page({"nextCursor": result.get("next_cursor")}))


def built_query(result: Result) -> RenderableType:
    """``build_query``: the request, and the command that sends it."""
    options = "".join(f" --{name} {result[name]}" for name in ("source", "limit") if result.get(name))
    return Group(
        data(result), Text("Search with it:"), commands(f"loomsvc search {shlex.quote(result['query'])}{options}")
    )
