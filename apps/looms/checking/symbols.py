"""Finding what the graph names: modules, models, functions, Tools, exceptions.

Importing runs the author's code, which may do anything; whatever it raises is a diagnostic with the
line of the Loom's file.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, RootModel

from apps.looms.authoring import ArtifactConflict
from apps.looms.authoring.tools import Tool, ToolUnusable, declared_tool
from apps.looms.checking.import_problems import import_problem, inside_of, modules_in, names_in
from apps.looms.checking.yaml_tree import Document, Path
from apps.looms.diagnostics import Diagnostic, closest, did_you_mean
from apps.looms.domain.names import LOOM_FILE
from apps.looms.importing import import_module
from apps.looms.messages import describe_exception, error_names
from apps.looms.packages import PackageFiles
from apps.looms.secret_values import SecretValues

#: Exceptions that `errors:` may name without their module, beside those built in.
_BARE = {"ArtifactConflict": ArtifactConflict}
_BUILT_IN = [
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
]


class Symbols:
    """Resolves names of one package and collects what is wrong with them."""

    def __init__(self, package: str, folder: FilePath, files: PackageFiles, document: Document) -> None:
        self.package = package
        self.problems: list[Diagnostic] = []
        self.names: dict[str, Any] = {}
        self._folder = folder
        self._files = files
        self._document = document
        self._modules: dict[str, Any] = {}

    def report(self, path: Path, message: str, suggestion: str) -> None:
        """Note an error at a place of ``loom.yaml``."""
        self.problems.append(Diagnostic.error(LOOM_FILE, self._document.line(path), message, suggestion))

    def find(self, reference: str, path: Path) -> Any:
        """What ``module:name`` stands for, ``None`` when that has been reported."""
        if reference in self.names:
            return self.names[reference]
        module_name, _, name = reference.partition(":")
        module = self._module(module_name, path)
        if module is None:
            return None
        if not hasattr(module, name):
            hint = did_you_mean(name, names_in(module), otherwise=f"Define `{name}` there.")
            self.report(path, f"`{reference}`: {self._file(module_name)} defines no `{name}`.", hint)
            return None
        self.names[reference] = getattr(module, name)
        return self.names[reference]

    def model(self, reference: str | None, path: Path, *, members: bool = True) -> type[BaseModel] | None:
        """The pydantic model of that name; with ``members`` it must be one of named fields."""
        found = None if reference is None else self.find(reference, path)
        if found is None:
            return None
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            self.report(
                path, f"`{reference}` is no pydantic model.", "Make it a class derived from pydantic.BaseModel."
            )
            return None
        if members and issubclass(found, RootModel):
            self.report(path, f"`{reference}` has no fields of its own.", "Derive it from BaseModel, not RootModel.")
            return None
        try:
            found.model_rebuild()
            found.model_json_schema()
        except Exception as error:
            # pydantic's own text goes on with a link.
            reason = describe_exception(error, SecretValues()).partition("  For further information")[0]
            self.report(path, f"`{reference}` has no JSON Schema: {reason}", "Use types that JSON can carry.")
            return None
        return found

    def function(self, reference: str | None, path: Path) -> Callable[..., Any] | None:
        """The function of that name, which must take exactly one argument."""
        found = None if reference is None else self.find(reference, path)
        if found is None:
            return None
        if not inspect.isfunction(found):
            self.report(path, f"`{reference}` is no function.", "Write `def …(step): …` or `async def`.")
            return None
        if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
            self.report(path, f"`{reference}` is a generator.", "Use return instead of yield.")
            return None
        try:
            inspect.signature(found).bind(object())
        except TypeError:
            self.report(path, f"`{reference}` cannot be called with one argument.", "Give it one parameter.")
            return None
        return found

    def tool(self, reference: str, path: Path) -> Tool | None:
        """The Tool of that name, with types that have schemas."""
        found = self.find(reference, path)
        if found is None:
            return None
        tool = declared_tool(found)
        if tool is None:
            self.report(path, f"`{reference}` is no Tool.", "Put @tool (from loomsvc.authoring) above the function.")
            return None
        file, line = self._place_of(found)
        try:
            _ = (tool.input_schema, tool.output_schema)
        except ToolUnusable as error:
            hint = str(error)[0].upper() + str(error)[1:] + "."
            self.problems.append(Diagnostic.error(file, line, f"Tool `{tool.id}` has no usable types.", hint))
            return None
        if not tool.description:
            hint = "Say in its docstring what it does: the agent reads it."
            self.problems.append(Diagnostic.warning(file, line, f"Tool `{tool.id}` has no description.", hint))
        return tool

    def exception(self, name: str, path: Path) -> str | None:
        """The name under which a raised exception of this class will be met."""
        found = self._exception_class(name)
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            hint = "Name a built-in exception, or module.Class of an installed package or of this Loom."
            hint = closest(name, [*_BUILT_IN, *_BARE]) or hint
            self.report(path, f"`{name}` is no exception class that can be imported.", hint)
            return None
        names = error_names(found, self.package)
        return found.__qualname__ if found.__qualname__ in names else names[0]

    def _exception_class(self, name: str) -> Any:
        module_name, _, class_name = name.rpartition(".")
        if not module_name:
            return _BARE.get(class_name) or getattr(builtins, class_name, None)
        if self._file(module_name) in self._files:
            return getattr(self._modules.get(module_name) or self._imported(module_name), class_name, None)
        try:
            return getattr(importlib.import_module(module_name), class_name, None)
        except BaseException:  # a package may do anything when it is imported
            return None

    def _imported(self, module_name: str) -> Any:
        try:
            return import_module(self.package, module_name)
        except BaseException:  # reported where the graph names the module
            return None

    def _file(self, module_name: str) -> str:
        path = module_name.replace(".", "/")
        return f"{path}/__init__.py" if f"{path}/__init__.py" in self._files else f"{path}.py"

    def _module(self, name: str, path: Path) -> Any:
        if name in self._modules:
            return self._modules[name]
        self._modules[name] = None
        if self._file(name) not in self._files:
            hint = did_you_mean(name, modules_in(self._files), otherwise=f"Make a file {self._file(name)}.")
            self.report(path, f"There is no {self._file(name)} in this folder.", hint)
            return None
        try:
            self._modules[name] = import_module(self.package, name)
        except BaseException as error:
            self.problems.append(self.import_problem(error, self._file(name)))
        return self._modules[name]

    def import_problem(self, error: BaseException, file: str) -> Diagnostic:
        """What an import raised, at the innermost line of the Loom's own files."""
        return import_problem(error, file, package=self.package, folder=self._folder, files=self._files)

    def _place_of(self, function: Any) -> tuple[str, int | None]:
        code = getattr(inspect.unwrap(function), "__code__", None)
        inside = None if code is None else inside_of(self._folder, code.co_filename)
        return (LOOM_FILE, None) if code is None or inside is None else (inside, code.co_firstlineno)


def syntax_problems(files: PackageFiles) -> Iterator[Diagnostic]:
    """What keeps a Python file of the package from being read, before anything is imported."""
    for path, content in files.items():
        if path.endswith(".py"):
            try:
                ast.parse(content, filename=path)
            except SyntaxError as error:
                yield Diagnostic.error(
                    path, error.lineno, f"This is no valid Python: {error.msg}.", "Correct the line."
                )
            except (ValueError, RecursionError, MemoryError) as error:
                reason = describe_exception(error, SecretValues())
                yield Diagnostic.error(path, None, f"This is no valid Python: {reason}", "Correct the file.")
