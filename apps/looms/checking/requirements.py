"""Installed packages that a Loom requires: their versions belong to the Release."""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from apps.looms.checking.yaml_tree import Document
from apps.looms.diagnostics import Diagnostic
from apps.looms.domain.names import LOOM_FILE


def installed_version(name: str) -> str | None:
    """The version of an installed distribution."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_requirements(requires: tuple[str, ...], document: Document) -> tuple[dict[str, str], list[Diagnostic]]:
    """Name → installed version of each requirement, and those that are not met."""
    versions: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for index, text in enumerate(requires):
        line = document.line(("requires", index))
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            hint = "Write a requirement such as acme-shared>=2."
            problems.append(Diagnostic.error(LOOM_FILE, line, f"`{text}` is no requirement.", hint))
            continue
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        version = installed_version(requirement.name)
        if version is None:
            message = f"`{requirement.name}` is not installed."
            problems.append(Diagnostic.error(LOOM_FILE, line, message, f"Install {text}."))
        elif not requirement.specifier.contains(version, prereleases=True):
            message = f"`{text}` is not met: version {version} is installed."
            problems.append(Diagnostic.error(LOOM_FILE, line, message, f"Install {text}."))
        else:
            versions[canonicalize_name(requirement.name)] = version
    return versions, problems
