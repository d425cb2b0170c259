"""The test profile: short leases, a fast password hasher, a throw-away data folder, the rest as shipped."""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("LOOMSVC_LEASE_SECONDS", "5")
os.environ.setdefault("LOOMSVC_SWEEP_SECONDS", "2")
if "LOOMSVC_DATA" not in os.environ:
    os.environ["LOOMSVC_DATA"] = tempfile.mkdtemp(prefix="loomsvc-test-")
    atexit.register(shutil.rmtree, os.environ["LOOMSVC_DATA"], ignore_errors=True)

from loomsvc.settings.base import *  # noqa: F403

SECRET_KEY = "only-for-tests-" + "x7Kq2" * 10
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
