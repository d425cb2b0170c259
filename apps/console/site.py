"""Our admin site: what needs a person comes first, pages of our own beside Django's lists of rows."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path

from apps.console.navigation import navigation


class ConsoleSite(admin.AdminSite):
    """Sign-in, permissions and lists are Django's; home is the attention page."""

    site_title = "loomsvc"
    site_header = "loomsvc"
    index_title = "Needs attention"
    enable_nav_sidebar = False

    def get_urls(self) -> list[URLPattern | URLResolver]:
        # The pages import what is registered on this site.
        from apps.console.urls import urlpatterns

        return [path("console/", include(urlpatterns)), *super().get_urls()]

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # type: ignore[override]
        from apps.console.pages.attention import attention

        return attention(request)

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), "navigation": navigation(request)}
