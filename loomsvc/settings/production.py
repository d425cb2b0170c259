"""Scaled out behind TLS: PostgreSQL and Redis, every secret given from outside (K27).

Anything unsafe is refused at start, in words that hold no value of a secret.
"""

import os

from django.core.exceptions import ImproperlyConfigured

from loomsvc.settings.base import *  # noqa: F403
from loomsvc.settings.base import ALLOWED_HOSTS, SECRET_KEY

for name in ("LOOMSVC_DEBUG", "LOOMSVC_FAILPOINT", "LOOMSVC_EMBEDDED"):
    if os.environ.get(name):
        raise ImproperlyConfigured(f"{name} must not be set in production.")
if len(SECRET_KEY) < 50 or len(set(SECRET_KEY)) < 10 or SECRET_KEY.startswith("django-insecure-"):
    raise ImproperlyConfigured("Set LOOMSVC_SECRET_KEY to at least 50 random characters.")
if not os.environ.get("LOOMSVC_ALLOWED_HOSTS", "").strip(" ,"):
    raise ImproperlyConfigured("Name the hosts that clients use in LOOMSVC_ALLOWED_HOSTS.")
if any(host.startswith((".", "*")) for host in ALLOWED_HOSTS):
    raise ImproperlyConfigured("Name each host in LOOMSVC_ALLOWED_HOSTS; * and sub-domain patterns are refused.")
if not os.environ.get("DATABASE_URL", "").startswith(("postgresql://", "postgres://")):
    raise ImproperlyConfigured("Set DATABASE_URL to a postgresql:// address: several processes share this ledger.")
if not os.environ.get("REDIS_URL"):
    raise ImproperlyConfigured("Set REDIS_URL.")

SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^health$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
