from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "apps.rest"
    label = "rest"

    def ready(self) -> None:
        from apps.rest import security_scheme

        # drf-spectacular finds its extensions by their having been imported.
        assert security_scheme.BearerScheme
