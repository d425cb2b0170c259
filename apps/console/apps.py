"""The console: the admin site with pages of our own."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class ConsoleConfig(AppConfig):
    name = "apps.console"
    label = "console"
    default = True


class ConsoleAdminConfig(admin_apps.AdminConfig):
    """Django's admin, whose one site is ours: every ``admin.register`` of the other apps lands on it."""

    default = False
    default_site = "apps.console.site.ConsoleSite"
