"""Words beside each result, and an index of them that triggers keep: no writer needs a statement more for it."""

import django.db.models.deletion
from django.db import migrations, models

import apps.core.full_text
import apps.results.models

#: What stands in ``words`` as ``<a><b>`` becomes lexemes as it is: no parser and no dictionary has a say.
_POSTGRESQL = [
    """
    CREATE FUNCTION results_enter_record() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM results_searchentry WHERE record_id = NEW.id;
        INSERT INTO results_searchentry (project_id, record_id, word_index)
        VALUES (NEW.project_id, NEW.id, array_to_tsvector(string_to_array(btrim(NEW.words, '<>'), '><')));
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION results_enter_revision() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT 1 FROM results_artifactrevision later
                   WHERE later.artifact_id = NEW.artifact_id AND later.revision > NEW.revision) THEN
            RETURN NULL;
        END IF;
        DELETE FROM results_searchentry WHERE artifact_id = NEW.artifact_id;
        IF NEW.words IS NOT NULL THEN
            INSERT INTO results_searchentry (project_id, artifact_id, revision_id, word_index)
            SELECT place.project_id, place.id, NEW.id,
                   array_to_tsvector(string_to_array(btrim(NEW.words, '<>'), '><'))
            FROM results_artifact place WHERE place.id = NEW.artifact_id;
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER results_enter_record AFTER INSERT OR UPDATE OF words ON results_record
    FOR EACH ROW WHEN (NEW.words IS NOT NULL) EXECUTE FUNCTION results_enter_record()
    """,
    """
    CREATE TRIGGER results_enter_revision AFTER INSERT OR UPDATE OF words ON results_artifactrevision
    FOR EACH ROW EXECUTE FUNCTION results_enter_revision()
    """,
    "CREATE INDEX search_words ON results_searchentry USING gin (word_index)",
]
_POSTGRESQL_BACK = [
    "DROP TRIGGER results_enter_record ON results_record",
    "DROP TRIGGER results_enter_revision ON results_artifactrevision",
    "DROP FUNCTION results_enter_record()",
    "DROP FUNCTION results_enter_revision()",
    "DROP INDEX search_words",
]

_WORDS_OF_OLD = """COALESCE((SELECT words FROM results_record WHERE id = OLD.record_id),
                            (SELECT words FROM results_artifactrevision WHERE id = OLD.revision_id))"""
_ENTER_RECORD = """
    INSERT INTO results_searchentry (project_id, record_id) VALUES (NEW.project_id, NEW.id);
"""
_ENTER_REVISION = """
    DELETE FROM results_searchentry WHERE artifact_id = NEW.artifact_id;
    INSERT INTO results_searchentry (project_id, artifact_id, revision_id)
    SELECT place.project_id, place.id, NEW.id FROM results_artifact place
    WHERE place.id = NEW.artifact_id AND NEW.words IS NOT NULL;
"""
_IS_LATEST = """NOT EXISTS (SELECT 1 FROM results_artifactrevision later
                            WHERE later.artifact_id = NEW.artifact_id AND later.revision > NEW.revision)"""
#: FTS5 keeps no text of its own here, so it has to be told the old words before they are gone: hence BEFORE.
#: The ``ascii`` tokenizer takes every character beyond ASCII for a part of a word, as ours are cut already.
_SQLITE = [
    "CREATE VIRTUAL TABLE results_searchentry_words USING fts5 (words, content = '', tokenize = 'ascii')",
    """
    CREATE TRIGGER results_entry_made AFTER INSERT ON results_searchentry BEGIN
        INSERT INTO results_searchentry_words (rowid, words) VALUES (NEW.id,
            COALESCE((SELECT words FROM results_record WHERE id = NEW.record_id),
                     (SELECT words FROM results_artifactrevision WHERE id = NEW.revision_id)));
    END
    """,
    f"""
    CREATE TRIGGER results_entry_gone AFTER DELETE ON results_searchentry BEGIN
        INSERT INTO results_searchentry_words (results_searchentry_words, rowid, words)
        VALUES ('delete', OLD.id, {_WORDS_OF_OLD});
    END
    """,
    f"""
    CREATE TRIGGER results_record_made AFTER INSERT ON results_record WHEN NEW.words IS NOT NULL BEGIN
        {_ENTER_RECORD}
    END
    """,
    """
    CREATE TRIGGER results_record_changes BEFORE UPDATE OF words ON results_record BEGIN
        DELETE FROM results_searchentry WHERE record_id = OLD.id;
    END
    """,
    f"""
    CREATE TRIGGER results_record_changed AFTER UPDATE OF words ON results_record WHEN NEW.words IS NOT NULL BEGIN
        {_ENTER_RECORD}
    END
    """,
    """
    CREATE TRIGGER results_record_goes BEFORE DELETE ON results_record BEGIN
        DELETE FROM results_searchentry WHERE record_id = OLD.id;
    END
    """,
    f"""
    CREATE TRIGGER results_revision_made AFTER INSERT ON results_artifactrevision WHEN {_IS_LATEST} BEGIN
        {_ENTER_REVISION}
    END
    """,
    """
    CREATE TRIGGER results_revision_changes BEFORE UPDATE OF words ON results_artifactrevision BEGIN
        DELETE FROM results_searchentry WHERE revision_id = OLD.id;
    END
    """,
    f"""
    CREATE TRIGGER results_revision_changed AFTER UPDATE OF words ON results_artifactrevision WHEN {_IS_LATEST} BEGIN
        {_ENTER_REVISION}
    END
    """,
    """
    CREATE TRIGGER results_revision_goes BEFORE DELETE ON results_artifactrevision BEGIN
        DELETE FROM results_searchentry WHERE revision_id = OLD.id;
    END
    """,
]
_SQLITE_BACK = [
    *(
        f"DROP TRIGGER results_{name}"
        for name in (
            "entry_made",
            "entry_gone",
            *(f"record_{moment}" for moment in ("made", "changes", "changed", "goes")),
            *(f"revision_{moment}" for moment in ("made", "changes", "changed", "goes")),
        )
    ),
    "DROP TABLE results_searchentry_words",
]


def _execute(schema_editor, postgresql, sqlite):
    for statement in postgresql if schema_editor.connection.vendor == "postgresql" else sqlite:
        schema_editor.execute(statement, params=None)


def forwards(apps, schema_editor):
    _execute(schema_editor, _POSTGRESQL, _SQLITE)


def backwards(apps, schema_editor):
    _execute(schema_editor, _POSTGRESQL_BACK, _SQLITE_BACK)


class Migration(migrations.Migration):
    dependencies = [("access", "0001_initial"), ("results", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="artifactrevision",
            name="words",
            field=apps.results.models.WordsField(editable=False, named_by="artifact_id_then", null=True),
        ),
        migrations.AddField(
            model_name="record",
            name="words",
            field=apps.results.models.WordsField(editable=False, named_by="record_id", null=True),
        ),
        migrations.CreateModel(
            name="SearchEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("word_index", apps.core.full_text.WordIndexField(editable=False, null=True)),
                (
                    "artifact",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="results.artifact",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="access.project",
                    ),
                ),
                (
                    "record",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="results.record",
                    ),
                ),
                (
                    "revision",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="results.artifactrevision",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [models.Index(fields=["project", "-id"], name="search_newest")],
            },
        ),
        migrations.RunPython(forwards, backwards),
    ]
