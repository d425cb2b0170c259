from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "apps.runs"
    label = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        from apps.ledger.services.instances import observe_opening
        from apps.runs import endpoints  # noqa: F401
        from apps.runs.services.interrupting import interrupt_in_flight

        observe_opening(interrupt_in_flight)
