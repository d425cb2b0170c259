from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "apps.rest"
    label = "rest"

    def ready(self) -> None:
        # drf-spectacular finds its extensions by their having been imported.
        import apps.rest.security_scheme  # noqa: F401
