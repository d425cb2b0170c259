from __future__ import annotations

from typing import Any

from apps.console.groups import make_groups
from apps.core.commands import LoomsvcCommand


class Command(LoomsvcCommand):
    help = "Make the groups Viewers and Operators, which give a person of the staff rights in the console."

    def handle(self, *args: Any, **options: Any) -> None:
        for name, said in make_groups().items():
            self.stdout.write(f"{name}: {said}")
        self.stdout.write("Give one to an account at /admin/auth/user/; the account has to be of the staff.")
