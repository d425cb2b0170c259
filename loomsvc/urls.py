"""Django's addresses; the MCP Entries are ASGI applications beside it (``asgi.py``)."""

from django.contrib import admin
from django.urls import include, path

from apps.rest.health import health

urlpatterns = [
    path("health", health),
    path("api/v1/", include("apps.rest.urls")),
    path("admin/", admin.site.urls),
]
