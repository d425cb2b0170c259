"""What an input schema says and what its contract takes are the same, for every Endpoint there is."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import apps.rest.urls  # noqa: F401 - what is served is registered
from apps.core.endpoints import Endpoint, all_endpoints
from apps.core.errors import LoomError

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def by_name(endpoint: Endpoint[Any, Any]) -> str:
    return endpoint.name


def values(declared: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values near what a member takes, right and wrong."""
    shapes = [declared, *declared.get("anyOf", ())]
    texts = st.sampled_from(["", "x", "trial", "A b", "x" * 65, "x" * 201, "x" * 2049, "é", "0198", "a\n", "-a", "_a"])
    uuids = st.uuids().map(str) | st.uuids().map(lambda value: str(value).upper())
    numbers = st.integers(-2, 205) | st.sampled_from([0.5, True, False])
    others = st.sampled_from([None, [], {}, [1], {"a": 1}])
    offered = [value for shape in shapes for value in (shape.get("enum") or [shape.get("const")]) if value is not None]
    return texts | uuids | numbers | others | (st.sampled_from(offered) if offered else texts)


@pytest.mark.rule("N6", "E3")
@pytest.mark.parametrize("endpoint", list(all_endpoints()), ids=by_name)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_input_schema_takes_exactly_what_the_contract_takes(endpoint: Endpoint[Any, Any], data: Any) -> None:
    schema = endpoint.input.wire_schema()
    members = schema.get("properties", {})
    usual = st.fixed_dictionaries({}, optional={name: values(declared) for name, declared in members.items()})
    arguments = data.draw(usual)
    for name in schema.get("required", ()):
        if data.draw(st.integers(0, 9)) > 0:
            arguments.setdefault(name, data.draw(values(members[name])))
    if data.draw(st.integers(0, 9)) == 0:
        arguments["unheardOf"] = 1
    # JSON Schema knows no numbers apart from integers with a fraction of nothing.
    assume(not any(isinstance(value, float) and value.is_integer() for value in arguments.values()))
    checker = jsonschema.FormatChecker(formats=())
    checker.checks("uuid")(lambda value: not isinstance(value, str) or _UUID.fullmatch(value.lower()) is not None)
    fits = jsonschema.Draft202012Validator(schema, format_checker=checker).is_valid(arguments)
    try:
        endpoint.input.parse(arguments)
        taken = True
    except LoomError:
        taken = False
    assert fits == taken, arguments
