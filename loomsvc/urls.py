"""Django's addresses; the MCP Entries are ASGI applications beside it (``asgi.py``)."""

from django.contrib import admin
from django.urls import include, path

from apps.console.pages.start import start

urlpatterns = [
    path("", start),
    path("admin/", admin.site.urls),
    path("", include("apps.rest.urls")),
]
