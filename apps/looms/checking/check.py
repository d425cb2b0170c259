"""The full check of a Loom package: everything that is wrong with it, or the Loom ready to run.

Loading is checking: a Release that the service runs has passed exactly this.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel

from apps.core.redaction import register_secret
from apps.looms.checking.agents import read_task
from apps.looms.checking.graph_rules import check_graph
from apps.looms.checking.loom_file import read_loom_file
from apps.looms.checking.operator_settings import read_settings
from apps.looms.checking.requirements import check_requirements
from apps.looms.checking.symbols import Symbols, syntax_problems
from apps.looms.checking.yaml_tree import Document, Path, read_yaml
from apps.looms.diagnostics import Diagnostic, errors_in
from apps.looms.domain.graph import AgentStepSpec, CodeStepSpec, LoomGraph, StageSpec, StepSpec
from apps.looms.domain.names import LOOM_FILE, NAME
from apps.looms.importing import close_package, is_open, open_package, package_name
from apps.looms.loaded import AgentTask, LoadedLoom
from apps.looms.packages import PackageFiles, digest_of, read_folder, unpack
from apps.looms.secret_values import SecretValues
from apps.looms.sources import shown_name

#: Imports run the author's code; one at a time keeps their diagnostics apart.
_importing = threading.RLock()


@dataclass(frozen=True)
class Checked:
    """What a check found.  ``name`` is the Loom's as far as it can be read, else the folder's.

    ``loom`` is there when no diagnostic is an error.
    """

    name: str
    files: PackageFiles
    graph: LoomGraph | None
    loom: LoadedLoom | None
    diagnostics: tuple[Diagnostic, ...]


def check_folder(folder: FilePath, *, releases_dir: FilePath, environ: Mapping[str, str]) -> Checked:
    """Check the Loom in ``folder``; its code is imported from a copy below ``releases_dir``."""
    try:
        files, problems = read_folder(folder)
    except OSError as error:
        reason = f"The folder cannot be read: {error.strerror}."
        unreadable = Diagnostic.error("", None, reason, "Check path and permissions.")
        return Checked(shown_name(folder), {}, None, None, (unreadable,))
    return check_files(files, problems, shown_name(folder), releases_dir=releases_dir, environ=environ)


def check_files(
    files: PackageFiles,
    problems: list[Diagnostic],
    folder_name: str,
    *,
    releases_dir: FilePath,
    environ: Mapping[str, str],
) -> Checked:
    """Check a package given as its files; ``problems`` are those met while reading them."""
    if LOOM_FILE not in files:
        missing = Diagnostic.error(LOOM_FILE, None, "There is no loom.yaml in this folder.", _instead(files))
        return Checked(folder_name, files, None, None, (*problems, missing))
    try:
        document, found = read_yaml(files[LOOM_FILE].decode("utf-8"), LOOM_FILE)
    except UnicodeDecodeError:
        document, found = None, [Diagnostic.error(LOOM_FILE, None, "This is no UTF-8 text.", "Save it as UTF-8.")]
    problems = [*problems, *found, *syntax_problems(files)]
    if document is None:
        return Checked(folder_name, files, None, None, tuple(problems))
    name = _name_in(document, folder_name)
    graph, found = read_loom_file(document)
    problems += found
    if graph is None:
        return Checked(name, files, None, None, tuple(problems))
    problems += check_graph(graph, document)
    requires, found = check_requirements(graph.requires, document)
    problems += found
    loom = None
    if not any(problem.file.endswith(".py") for problem in errors_in(problems)):
        loom, found = _load(files, graph, document, requires, releases_dir, environ, is_sound=not errors_in(problems))
        problems += found
    return Checked(name, files, graph, loom, tuple(dict.fromkeys(problems)))


def _instead(files: PackageFiles) -> str:
    """What to do about a folder without a ``loom.yaml``."""
    for path in files:
        if path.endswith(f"/{LOOM_FILE}"):
            return f"Name the Loom's own folder, `{path.removesuffix(f'/{LOOM_FILE}')}` in this one."
    for path in files:
        if path.endswith((".yaml", ".yml")) and "/" not in path:
            return f"Rename `{path}`, if it is the graph."
    return "Make one: it is the graph of the Loom."


def _name_in(document: Document, folder_name: str) -> str:
    name = document.value.get("loom") if isinstance(document.value, dict) else None
    return name if isinstance(name, str) and NAME.fullmatch(name) else folder_name


def _load(
    files: PackageFiles,
    graph: LoomGraph,
    document: Document,
    requires: Mapping[str, str],
    releases_dir: FilePath,
    environ: Mapping[str, str],
    *,
    is_sound: bool,
) -> tuple[LoadedLoom | None, list[Diagnostic]]:
    """Import the package and resolve every name; the Loom is there only if all of it is sound."""
    digest = digest_of(files, requires)
    folder = releases_dir / digest
    try:
        unpack(files, folder)
    except OSError as error:
        reason = f"The Release cannot be unpacked: {error.strerror or error}."
        return None, [Diagnostic.error("", None, reason, "Make the data folder writable, with space left.")]
    package = package_name(digest)
    symbols = Symbols(package, folder, files, document)
    with _importing:
        was_open = is_open(package)
        try:
            open_package(digest, folder)
        except BaseException as error:
            return None, [symbols.import_problem(error, "__init__.py")]
        loom = _resolved(digest, graph, document, requires, symbols, files, environ)
        sound = is_sound and not errors_in(symbols.problems)
        if not sound and not was_open:
            close_package(package)
    return (loom if sound else None), symbols.problems


def _resolved(
    digest: str,
    graph: LoomGraph,
    document: Document,
    requires: Mapping[str, str],
    symbols: Symbols,
    files: PackageFiles,
    environ: Mapping[str, str],
) -> LoadedLoom:
    symbols.model(graph.input, ("input",), members=False)
    settings = _settings(graph, document, symbols, environ)
    agents: dict[tuple[str, str], AgentTask] = {}
    stages: dict[str, StageSpec] = {}
    for stage in graph.stages.values():
        path: Path = ("stages", stage.name)
        state = symbols.model(stage.state, (*path, "state"))
        if state is not None and _holds_secret(state.model_json_schema()):
            hint = "Keep secrets in settings; State is stored."
            symbols.report((*path, "state"), f"`{stage.state}` has a secret field.", hint)
        symbols.function(stage.initialize, (*path, "initialize"))
        steps: dict[str, StepSpec] = {}
        for step in stage.steps.values():
            steps[step.name] = step
            if isinstance(step, AgentStepSpec):
                task = read_task(stage.name, step, symbols, files)
                if task is not None:
                    agents[stage.name, step.name] = task
            else:
                symbols.function(step.code, (*path, "steps", step.name, "code"))
                steps[step.name] = _with_known_errors(step, (*path, "steps", step.name), symbols)
        stages[stage.name] = replace(stage, steps=steps)
    return LoadedLoom(
        digest=digest,
        graph=replace(graph, stages=stages),
        package=symbols.package,
        requires=requires,
        settings=settings,
        secrets=_kept_out_of_logs(SecretValues.of(settings)),
        names=symbols.names,
        agents=agents,
    )


def _kept_out_of_logs(secrets: SecretValues) -> SecretValues:
    """Loom Code may log through Python's own loggers, which know nothing of its settings (K18)."""
    for secret in secrets.whole:
        register_secret(secret)
    return secrets


def _settings(graph: LoomGraph, document: Document, symbols: Symbols, environ: Mapping[str, str]) -> BaseModel | None:
    model = symbols.model(graph.settings, ("settings",))
    if model is None:
        return None
    settings, problems = read_settings(model, graph.loom, environ, document.line(("settings",)))
    symbols.problems += problems
    return settings


def _with_known_errors(step: CodeStepSpec, path: Path, symbols: Symbols) -> CodeStepSpec:
    """The Step with each of `errors:` under the name that a raised exception will carry."""
    if step.retry is None or step.retry.errors is None:
        return step
    place = (*path, "retry", "errors")
    names = [symbols.exception(name, (*place, index)) for index, name in enumerate(step.retry.errors)]
    return replace(step, retry=replace(step.retry, errors=tuple(name for name in names if name is not None)))


def _holds_secret(schema: Any) -> bool:
    """Whether a JSON Schema has a member that pydantic hides when it is written out."""
    if isinstance(schema, dict):
        return schema.get("format") == "password" or any(_holds_secret(child) for child in schema.values())
    return isinstance(schema, list) and any(_holds_secret(child) for child in schema)
