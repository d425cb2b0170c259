"""Scaled out behind TLS: PostgreSQL and Redis, every secret given from outside (K27)."""

import os

from django.core.exceptions import ImproperlyConfigured

from loomsvc.settings.base import *  # noqa: F403
from loomsvc.settings.base import ALLOWED_HOSTS, SECRET_KEY

if os.environ.get("LOOMSVC_DEBUG"):
    raise ImproperlyConfigured("LOOMSVC_DEBUG must not be set in production.")
if os.environ.get("LOOMSVC_FAILPOINT"):
    raise ImproperlyConfigured("LOOMSVC_FAILPOINT must not be set in production.")
if len(SECRET_KEY) < 50 or len(set(SECRET_KEY)) < 10:
    raise ImproperlyConfigured("Set LOOMSVC_SECRET_KEY to at least 50 random characters.")
if "*" in ALLOWED_HOSTS or any(host.startswith(".") for host in ALLOWED_HOSTS):
    raise ImproperlyConfigured("Name each host in LOOMSVC_ALLOWED_HOSTS; * and sub-domain patterns are refused.")
for name in ("DATABASE_URL", "REDIS_URL"):
    if not os.environ.get(name):
        raise ImproperlyConfigured(f"Set {name}.")

SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^health$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
