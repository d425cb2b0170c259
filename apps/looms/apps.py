from django.apps import AppConfig


class LoomsConfig(AppConfig):
    name = "apps.looms"
    label = "looms"
    verbose_name = "Looms"

    def ready(self) -> None:
        from apps.looms.endpoints import register_endpoints

        register_endpoints()
