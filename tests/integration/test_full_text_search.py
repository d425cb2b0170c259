"""Full text search over results: what is found, in which order, whose, and at what cost, on both databases alike."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.access.services.projects import create_project
from apps.core import clock, json_text
from apps.core.errors import LoomError
from apps.looms.authoring.staging import AppendRecord, CreateArtifact, RemoveArtifact, ReplaceArtifact, Staged
from apps.results.domain.words import Sought
from apps.results.models import ArtifactRevision, Record, SearchEntry
from apps.results.selectors import searching
from apps.results.selectors.searching import FoundPage, search_results
from apps.results.services.landing import Landing, land_commits

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Any:
    return create_project(name="searched", now=clock.now())


def land(project: Any, *commits: Staged, stage: str = "work") -> None:
    with transaction.atomic():
        land_commits(Landing(project.pk, "notes", stage, uuid.uuid4(), clock.now()), commits)


def find(project: Any, query: str, limit: int = 50, cursor: str | None = None) -> FoundPage:
    return search_results(project_id=project.pk, query=query, limit=limit, cursor=cursor)


def urls(project: Any, query: str) -> list[str]:
    return [found.url for found in find(project, query).results]


@pytest.mark.rule("B7")
def test_records_and_artifacts_are_found_by_every_word_and_the_better_one_first(project: Any) -> None:
    land(project, AppendRecord("r-1", {"text": "The release of spring"}), AppendRecord("r-2", ["nothing", 42]))
    land(project, CreateArtifact("a/1", {"text": "Releases, release and release again; spring"}))
    page = find(project, "Release SPRING")
    assert [(one.title, one.url, one.snippet, one.score) for one in page.results] == [
        ("Artifact of notes · work", "loom://artifacts/a%2F1", "Releases, release and release again; spring", 0.625),
        ("Record of notes · work", "loom://records/r-1", "The release of spring", 0.5),
    ]
    assert page.next_cursor is None
    assert urls(project, "release winter") == []
    assert urls(project, "42") == urls(project, "r-2") == ["loom://records/r-2"]


@pytest.mark.rule("B7")
@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("京都", True), ("庁", True), ("大阪", False), ("größen", False), ("GRÖSS", True), ("😀", True), ("👍", False),
        ("שלום", True), ("rel", False), ("rele", True), ("naïve", True), ("o'brien", True), ("src/app.py", True),
    ],
)  # fmt: skip
def test_any_script_is_searched_alike_on_both_databases(project: Any, query: str, is_found: bool) -> None:
    land(project, AppendRecord("r", "東京都庁 Größe 😀 שלום עולם releases NAÏVE O'Brien src/app.py"))
    assert bool(urls(project, query)) is is_found


HOSTILE = [
    '"', "'", "'' OR 1=1 --", "a AND", "NOT", "NEAR(a b)", "a:b", "words:a", "^a", "a*", "*", "(a",
    "a & b | !c", "a <-> b",
    ":*", "\\", "\\'", "{a}", "%", "%s", "_", "-", "- -", "\x00", "a\x00b", "\ud800", "\u202e",
    "😀", "🏴‍☠️", "a" * 100_000,
    "x " * 5_000, "the", "' '", "''''", '""""', "<a>", "><", "NULL", "\n", "٣", "İ", "ß", "\ufdfa" * 20,
]  # fmt: skip


@pytest.mark.rule("B7")
@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_no_query_means_anything_but_its_words(project: Any, query: str) -> None:
    land(project, AppendRecord("r", "the one and only"))
    assert urls(project, query) == (["loom://records/r"] if query == "the" else [])


@pytest.mark.parametrize("word", ["a'b", 'a"b', "a\\b", "a' | 'one", 'a" OR "one', "one) | ('one", "a b"])
def test_a_word_is_quoted_whatever_is_in_it(project: Any, word: str) -> None:
    land(project, AppendRecord("r", "the one and only"))
    rows = SearchEntry.objects.filter(word_index__has_words=[Sought(word, False)])
    assert list(rows) == []


@pytest.mark.rule("B7")
@given(st.text(max_size=60), st.text(alphabet="ab'\"*:&|!()<>-^ \\%_東京é😀\u0301", max_size=40))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_found_by_its_own_words_and_nothing_raises(project: Any, text: str, odd: str) -> None:
    text = text.replace("\x00", "").encode("utf-8", "ignore").decode()
    record_id = f"r-{uuid.uuid4()}"
    land(project, AppendRecord(record_id, {"text": f"{text} {odd}"}))
    find(project, odd)
    found = search_results(project_id=project.pk, query=f"{text} {odd} {record_id}", limit=200, cursor=None).results
    words_there = len(f"{text} {odd}".split()) < 20
    assert not words_there or f"loom://records/{record_id}" in [one.url for one in found]


@pytest.mark.rule("B7")
def test_of_more_matches_than_are_ranked_the_newest_are(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_RANKED", 2)
    land(project, AppendRecord("r-1", "spring spring spring"))
    land(project, AppendRecord("r-2", "spring and more spring"))
    land(project, AppendRecord("r-3", "spring"))
    assert urls(project, "spring") == ["loom://records/r-2", "loom://records/r-3"]
    assert urls(project, "r-1") == ["loom://records/r-1"], "it is there, and found by what fewer have"


@pytest.mark.rule("B7", "S1")
def test_only_what_stands_now_is_found_of_an_artifact(project: Any) -> None:
    land(project, CreateArtifact("a", "first words"), ReplaceArtifact("a", 1, "second words"))
    assert (urls(project, "first"), urls(project, "second")) == ([], ["loom://artifacts/a"])
    land(project, ReplaceArtifact("a", 2, "third words"))
    assert (urls(project, "second"), urls(project, "third")) == ([], ["loom://artifacts/a"])
    land(project, RemoveArtifact("a", 3))
    assert (urls(project, "words"), urls(project, "a")) == ([], [])
    land(project, CreateArtifact("b", "fourth words"))
    assert urls(project, "words") == ["loom://artifacts/b"]
    assert SearchEntry.objects.count() == 1


@pytest.mark.rule("R6")
def test_what_is_rolled_back_is_not_found(project: Any) -> None:
    class Undo(Exception):
        pass

    def land_and_fail() -> None:
        with transaction.atomic():
            land(project, AppendRecord("r", "never there"))
            raise Undo

    with pytest.raises(Undo):
        land_and_fail()
    assert urls(project, "never") == []


@pytest.mark.rule("R6")
def test_the_index_costs_a_landing_no_statement(project: Any) -> None:
    land(project, CreateArtifact("a", "x"))
    with CaptureQueriesContext(connection) as captured:
        land(project, ReplaceArtifact("a", 1, "y"), AppendRecord("r", "z"))
    said = [query["sql"].split()[0] for query in captured if "SAVEPOINT" not in query["sql"]]
    assert said == ["SELECT", "UPDATE", "INSERT", "SELECT", "INSERT"]


@pytest.mark.rule("K10", "E5")
def test_another_project_changes_no_result_no_score_no_cursor_and_no_statement(project: Any) -> None:
    other = create_project(name="other", now=clock.now())
    for number in range(3):
        land(project, AppendRecord(f"r-{number}", "our spring " * number + "spring"))

    def seen() -> tuple[Any, int]:
        with CaptureQueriesContext(connection) as captured:
            first = find(project, "spring", limit=2)
            second = find(project, "spring", limit=2, cursor=first.next_cursor)
        return (first, second), len(captured)

    before = seen()
    for number in range(20):
        land(
            other,
            AppendRecord(f"r-{number}", "spring spring of theirs"),
            CreateArtifact(f"a-{number}", "spring"),
            stage=f"s{number}",
        )
    assert seen() == before
    assert before[1] == 2
    assert urls(project, "theirs") == []
    with CaptureQueriesContext(connection) as of_theirs:
        assert urls(project, "theirs") == []
    with CaptureQueriesContext(connection) as of_nobody:
        assert urls(project, "nobody") == []
    assert [q["sql"].replace("theirs", "x") for q in of_theirs] == [q["sql"].replace("nobody", "x") for q in of_nobody]


@pytest.mark.rule("B7", "FR-E1", "FR-E3")
def test_pages_neither_skip_nor_repeat_while_others_write(project: Any) -> None:
    for number in range(9):
        land(project, AppendRecord(f"r-{number}", "spring " * (number % 3 + 1)))
    there, seen, cursor = urls(project, "spring"), [], None
    while True:
        page = find(project, "spring", limit=2, cursor=cursor)
        seen += [found.url for found in page.results]
        cursor = page.next_cursor
        land(project, AppendRecord(f"new-{len(seen)}", "spring " * 9))
        if cursor is None:
            break
    assert [url for url in seen if "/r-" in url] == there
    assert len(seen) == len(set(seen))


@pytest.mark.rule("B7")
def test_a_cursor_belongs_to_its_query(project: Any) -> None:
    for number in range(3):
        land(project, AppendRecord(f"r-{number}", "spring summer"))
    cursor = find(project, "spring", limit=1).next_cursor
    with pytest.raises(LoomError, match="/cursor"):
        find(project, "summer", limit=1, cursor=cursor)


@pytest.mark.parametrize("text", ["あ-" * 60_000, "a-b." * 100_000, "".join(map(chr, range(0x20000, 0x2A000))) * 2])
def test_a_result_of_many_words_lands_and_is_found_by_its_beginning(project: Any, text: str) -> None:
    land(project, AppendRecord("r", f"beginning {text}"))
    assert urls(project, "beginning") == ["loom://records/r"]


def test_writing_words_anew_enters_a_result_once_more(project: Any) -> None:
    land(project, AppendRecord("r", "spring"), CreateArtifact("a", "summer"), ReplaceArtifact("a", 1, "autumn"))
    for row in [*Record.objects.all(), *ArtifactRevision.objects.order_by("-revision")]:
        row.save(update_fields=["words"])
    assert SearchEntry.objects.count() == 2
    assert (urls(project, "spring"), urls(project, "autumn")) == (["loom://records/r"], ["loom://artifacts/a"])
    assert urls(project, "summer") == []


def test_what_is_deleted_is_found_no_more(project: Any) -> None:
    land(project, AppendRecord("r", "spring"), AppendRecord("r-2", "summer"))
    Record.objects.filter(record_id="r").delete()
    land(project, AppendRecord("r-3", "winter"))
    assert urls(project, "spring") == []
    assert len(urls(project, "winter")) == 1


@pytest.mark.rule("M5", "B7")
def test_what_a_mirror_puts_back_is_found(project: Any) -> None:
    from apps.results.services import mirroring

    restored = mirroring.NewRecord(
        record_id="r",
        loom_name="notes",
        stage_name="work",
        data={"text": "spring"},
        digest=json_text.digest({"text": "spring"}),
        run_id=uuid.uuid4(),
        created_at=clock.now(),
    )
    mirroring.put_records(project_id=project.pk, records=[restored])
    assert urls(project, "spring") == ["loom://records/r"]
