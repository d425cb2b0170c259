"""An embedded service on this machine: SQLite in the data folder, a kept secret key, loopback only."""

from apps.core import conf
from loomsvc.settings.base import *  # noqa: F403
from loomsvc.settings.base import LOOMSVC, SECRET_KEY

SECRET_KEY = SECRET_KEY or conf.kept_secret(LOOMSVC.data_dir / "secret_key")
