"""What is taken for a UUID: the one usual form, in any case (O1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.contracts import Contract, UuidText
from apps.core.errors import LoomError


class Named(Contract):
    id: UuidText


def issues_of(value: object) -> list[str]:
    with pytest.raises(LoomError) as refused:
        Named.parse({"id": value})
    return [issue.path for issue in refused.value.issues]


@pytest.mark.rule("O1")
@given(st.uuids(), st.booleans())
def test_a_uuid_of_any_version_and_case_is_taken_and_kept_in_lower_case(value: object, upper: bool) -> None:
    text = str(value)
    assert Named.parse({"id": text.upper() if upper else text}).id == text


@pytest.mark.rule("O1", "E3")
@pytest.mark.parametrize(
    "value",
    [
        "{0198c1f27c7e70008000000000000000}--",
        "{0198c1f2-7c7e-7000-8000-000000000000}",
        "urn:uuid:0198c1f2-7c7e-7000-8000-000000000000",
        "0198c1f27c7e70008000000000000000",
        "0198c1f2-7c7e-7000-8000-00000000000_",
        "0198c1f2_7c7e_7000_8000_000000000000",
        "1_1_1_1_-1_1_-1_1_-1_1_-1_1_1_1_1_11",
        "0198c1f2-7c7e-7000-8000-00000000000٣",
        "０198c1f2-7c7e-7000-8000-000000000000",
        "0198c1f2-7c7e-7000-8000-000000000000\n",
        " 198c1f2-7c7e-7000-8000-000000000000",
        "+198c1f2-7c7e-7000-8000-000000000000",
        "ſ198c1f2-7c7e-7000-8000-000000000000",
        "",
        7,
        None,
        ["0198c1f2-7c7e-7000-8000-000000000000"],
    ],
)
def test_anything_else_is_refused_at_its_place(value: object) -> None:
    assert issues_of(value) == ["/id"]
