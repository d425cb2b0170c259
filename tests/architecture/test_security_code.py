"""What the code itself must never do with secrets (K3)."""

from __future__ import annotations

import ast
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.access.domain import tokens
from apps.core.caller import Source

APPS = Path(__file__).resolve().parent.parent.parent / "apps"
#: Last words of names that hold a secret, or what a secret is compared with.
SECRETS = ("secret", "secret_digest", "password", "owner_token", "session_secret", "token_hash", "secret_hash")


def name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=function):
            return name_of(function)
    return ""


def comparisons(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each secret that is compared in time that depends on it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for operator, *sides in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False):
                if isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                    for side in sides:
                        name = name_of(side).lower()
                        if any(name == secret or name.endswith(f"_{secret}") for secret in SECRETS):
                            yield node.lineno, name


@pytest.mark.rule("K3")
def test_no_secret_is_compared_with_an_operator() -> None:
    found = [
        f"{path.relative_to(APPS)}:{line}: {name}"
        for path in sorted(APPS.rglob("*.py"))
        for line, name in comparisons(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.rule("K3")
@pytest.mark.parametrize(
    "code",
    ["token.secret == given", "given != row.secret_digest", "row['owner_token'] in kept", "a == b.session_secret(x)"],
)
def test_the_check_finds_such_a_comparison(code: str) -> None:
    assert list(comparisons(ast.parse(code)))
    assert not list(comparisons(ast.parse("secret is None or compare_digest(secret, given) or secret_names == 1")))


@pytest.mark.rule("K3")
def test_how_much_of_a_secret_is_right_does_not_show_in_time() -> None:
    token = tokens.mint(Source.CLI)
    stored = token.digest
    almost = tokens.Token(token.kind, token.public_id, token.secret[:-1] + ("a" if token.secret[-1] != "a" else "b"))
    wrong = tokens.Token(token.kind, token.public_id, tokens.mint(Source.CLI).secret)

    def difference() -> float:
        took: dict[str, list[int]] = {"almost": [], "wrong": [], "absent": []}
        # Interleaved, so that whatever else the machine does falls on all alike.
        for _ in range(10_000):
            for name, given, against in (
                ("almost", almost, stored), ("wrong", wrong, stored), ("absent", wrong, tokens.ABSENT_DIGEST)
            ):  # fmt: skip
                began = time.perf_counter_ns()
                tokens.matches(given, against)
                took[name].append(time.perf_counter_ns() - began)
        medians = [statistics.median(samples) for samples in took.values()]
        return max(medians) / min(medians)

    # A comparison that stops at the first difference is noise here too; this guards against doing less work.
    assert min(difference() for _ in range(3)) < 1.2
