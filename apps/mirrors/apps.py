from django.apps import AppConfig


class MirrorsConfig(AppConfig):
    name = "apps.mirrors"
    label = "mirrors"
    verbose_name = "Mirrors"

    def ready(self) -> None:
        from apps.mirrors import endpoints  # noqa: F401
