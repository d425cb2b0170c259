from django.apps import AppConfig


class ResultsConfig(AppConfig):
    name = "apps.results"
    label = "results"
    verbose_name = "Results"

    def ready(self) -> None:
        from apps.results import endpoints  # noqa: F401
