"""What every way of running has in common.  An embedded service needs nothing set at all."""

from __future__ import annotations

import os
from typing import Any

from csp.constants import NONCE, NONE, SELF

from apps.core import conf, databases

LOOMSVC = conf.from_environment()

SECRET_KEY = os.environ.get("LOOMSVC_SECRET_KEY", "")
DEBUG = False
ALLOWED_HOSTS = conf.names("LOOMSVC_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

INSTALLED_APPS = [
    # Before the admin, whose site and frame it gives.
    "apps.console",
    "apps.console.apps.ConsoleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "mcp_server",
    "apps.core",
    "apps.access",
    "apps.looms",
    "apps.ledger",
    "apps.results",
    "apps.runs",
    "apps.agents",
    "apps.agent_sessions",
    "apps.mirrors",
    "apps.mcp",
    "apps.rest",
]
#: One Tool of django-mcp-server's own that nobody asked for.
DJANGO_MCP_GET_SERVER_INSTRUCTIONS_TOOL = False

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "loomsvc.urls"
ASGI_APPLICATION = "loomsvc.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [conf.REPOSITORY / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": databases.configuration(os.environ.get("DATABASE_URL", ""), LOOMSVC.data_dir)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Every atomic block is a writer on SQLite (BEGIN IMMEDIATE): never around a whole request.
ATOMIC_REQUESTS = False

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "mirrors": conf.mirror_storage(LOOMSVC.data_dir),
}

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
STATIC_URL = "/static/"
# Straight from the installed packages: nothing is collected, so there is no STATIC_ROOT.
WHITENOISE_USE_FINDERS = True
APPEND_SLASH = False
SILENCED_SYSTEM_CHECKS: list[str] = []

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
#: For every answer (K16): scripts and styles from here alone, no inline ones, no frames.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
        "base-uri": [NONE],
    }
}
# What was just done is told on the next page, which must not write: never by way of the session (K15).
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * LOOMSVC.max_value_bytes

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["apps.rest.authentication.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["apps.rest.parsing.StrictJsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "apps.rest.problems.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "loomsvc",
    "DESCRIPTION": "Runs, results and operations of one ledger. Errors are application/problem+json.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "OAS_VERSION": "3.1.0",
    # The contracts name their own shapes; nothing is to be renamed after them.
    "POSTPROCESSING_HOOKS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# Celery rings, the ledger remembers: a lost or doubled message loses and repeats nothing.
REDIS_URL = os.environ.get("REDIS_URL", "")
EMBEDDED = bool(os.environ.get("LOOMSVC_EMBEDDED")) or not REDIS_URL
CELERY_BROKER_URL = "loom://localhost" if EMBEDDED else REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_TASK_DEFAULT_QUEUE = "loomsvc"
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {}
    if EMBEDDED
    else {
        # Longer than any lease: a hint that comes twice is harmless, but need not.
        "visibility_timeout": int(LOOMSVC.lease_seconds * 20),
        "socket_timeout": 10,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
    }
)
# Celery's Django fixup closes the connection around every task unless this literal name is set.
CELERY_DB_REUSE_MAX = 10_000

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"redact": {"()": "apps.core.redaction.RedactingFilter"}},
    "formatters": {"line": {"()": "apps.core.redaction.OneLineFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["redact"], "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("LOOMSVC_LOG_LEVEL", "WARNING")},
    "loggers": {
        "loomsvc": {"level": os.environ.get("LOOMSVC_LOG_LEVEL", "INFO")},
        # Of the worker's pool; without a handler here Celery gives it one that redacts nothing.
        "multiprocessing": {"handlers": ["stderr"], "propagate": False},
        # A refusal is the client's to read, not a line each in the operator's log.
        "django.request": {"level": "ERROR"},
    },
}
