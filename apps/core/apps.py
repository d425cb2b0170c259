from urllib.parse import unquote, urlsplit

from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "apps.core"
    label = "core"

    def ready(self) -> None:
        """Keep the installation's own secrets out of every log line (K18, FR-H15)."""
        from django.conf import settings

        from apps.core.redaction import register_secret

        passwords = [database.get("PASSWORD") for database in settings.DATABASES.values()]
        broker = urlsplit(settings.REDIS_URL).password
        for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS, *passwords, unquote(broker or "")):
            register_secret(str(secret or ""))
