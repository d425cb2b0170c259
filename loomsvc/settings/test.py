"""The test profile: short leases, a fast password hasher, everything else as shipped."""

import os

os.environ.setdefault("LOOMSVC_LEASE_SECONDS", "5")
os.environ.setdefault("LOOMSVC_SWEEP_SECONDS", "2")

from loomsvc.settings.base import *  # noqa: E402, F403

SECRET_KEY = "only-for-tests-" + "x7Kq2" * 10
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
