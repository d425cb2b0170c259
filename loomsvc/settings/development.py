"""An embedded service on this machine: SQLite in the data folder, a kept secret key, loopback only."""

import secrets

from apps.core import conf
from loomsvc.settings.base import *  # noqa: F403
from loomsvc.settings.base import LOOMSVC, SECRET_KEY

# Kept once there is a data folder; a command that only looks at a Loom leaves nothing behind.
if not SECRET_KEY:
    _kept = LOOMSVC.data_dir.is_dir()
    SECRET_KEY = conf.kept_secret(LOOMSVC.data_dir / "secret_key") if _kept else secrets.token_urlsafe(64)
