"""What a Loom imports.  The names and members are a promise, held by a test (docs/reference/authoring.md)."""

from apps.looms.authoring import *
from apps.looms.authoring import __all__ as __all__
