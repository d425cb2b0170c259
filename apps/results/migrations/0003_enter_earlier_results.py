"""Find what was there before full text search was: give earlier Records and standing Artifacts their words."""

from django.db import migrations
from django.db.models import F


def forwards(apps, schema_editor):
    records = apps.get_model("results", "Record").objects.filter(words__isnull=True)
    standing = apps.get_model("results", "ArtifactRevision").objects.filter(
        words__isnull=True, removed=False, revision=F("artifact__revision")
    )
    for rows in (records, standing):
        for row in rows.order_by("id").iterator(chunk_size=200):
            row.save(update_fields=["words"])


class Migration(migrations.Migration):
    dependencies = [("results", "0002_full_text_search")]
    operations = [migrations.RunPython(forwards, migrations.RunPython.noop)]
