from django.apps import AppConfig


class LoomsConfig(AppConfig):
    name = "apps.looms"
    label = "looms"
    verbose_name = "Looms"
