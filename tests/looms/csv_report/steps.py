import csv
import io
from decimal import Decimal, InvalidOperation

from loomsvc.authoring import CodeStep, StageContext

from .schemas import Input, Parsed, Problem, Report, Row, RowsArtifact, Total


def start_parse(context: StageContext[Input]) -> Parsed:
    return Parsed()


def read(step: CodeStep[Parsed]) -> str:
    if step.input.flaky and step.attempt == 1:
        raise ConnectionResetError("the source went away (first attempt, on purpose)")
    rows: list[Row] = []
    for number, record in enumerate(csv.DictReader(io.StringIO(step.input.csv)), start=1):
        if step.cancelled():
            break
        if number > step.settings.max_rows:
            step.log.warning("stopped at %s rows", step.settings.max_rows)
            break
        rows.append(
            Row(
                number=number,
                group=(record.get(step.input.group_by) or "").strip(),
                amount=(record.get(step.input.amount) or "").strip(),
            )
        )
    step.update(rows=rows)
    step.log.info("read %s rows at attempt %s", len(rows), step.attempt)
    return "rows" if rows else "empty"


def validate(step: CodeStep[Parsed]) -> str:
    # `previous` is the outcome of the Step before: "rows" from read, "repaired" from repair
    step.log.info("visit %s after %r", step.visit, step.previous)
    problems: list[Problem] = []
    for row in step.state.rows:
        if not row.group:
            problems.append(Problem(row=row.number, message="no group"))
            continue
        try:
            Decimal(row.amount)
        except InvalidOperation:
            problems.append(Problem(row=row.number, message=f"not a number: {row.amount}"))
    step.update(problems=problems)
    return "invalid" if problems else "valid"


def repair(step: CodeStep[Parsed]) -> str:
    """First round: decimal commas. Later rounds: drop what is still wrong."""
    bad = {problem.row: problem for problem in step.state.problems}
    if step.state.rounds == 0:
        rows = [
            row.model_copy(update={"amount": row.amount.replace(",", ".")}) if row.number in bad else row
            for row in step.state.rows
        ]
        step.update(rows=rows, rounds=1)
    else:
        step.update(
            rows=[row for row in step.state.rows if row.number not in bad],
            dropped=[*step.state.dropped, *bad.values()],
            rounds=step.state.rounds + 1,
        )
    return "repaired"


def file_rows(step: CodeStep[Parsed]) -> str:
    artifact = RowsArtifact(rows=step.state.rows, dropped=step.state.dropped)
    step.put_artifact(artifact.model_dump(mode="json"))
    return "filed"


def start_report(context: StageContext[Input]) -> Report:
    return Report()


def aggregate(step: CodeStep[Report]) -> str:
    found = step.artifacts.get("csv_report", "parse")
    if found is None:
        raise RuntimeError("the parse Stage has filed no rows")
    parsed = RowsArtifact.model_validate(found.data)
    sums: dict[str, list[Decimal]] = {}
    for row in parsed.rows:
        sums.setdefault(row.group, []).append(Decimal(row.amount))
    step.update(
        totals=[Total(group=group, count=len(items), total=float(sum(items))) for group, items in sorted(sums.items())],
        dropped=len(parsed.dropped),
    )
    return "aggregated"


def publish(step: CodeStep[Report]) -> str:
    at = step.now().isoformat()
    report = {
        "version": 1,
        "at": at,
        "currency": step.settings.currency,
        "totals": [total.model_dump(mode="json") for total in step.state.totals],
        "dropped": step.state.dropped,
    }
    step.put_artifact(report)
    step.append_record(
        {"at": at, "groups": [total.group for total in step.state.totals]}, record_id=f"csv-report-{step.run_id}"
    )
    step.log.info("published %s groups", len(step.state.totals))
    return "done"
