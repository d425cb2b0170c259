from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.access.domain import tokens
from apps.access.services.credentials import revoke_credential
from apps.core import clock
from apps.core.commands import LoomsvcCommand
from apps.core.errors import LoomError


class Command(LoomsvcCommand):
    help = "End a credential at once and for good."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("public_id", metavar="PUBLIC_ID", help="As `loomsvc token_list` shows it.")

    def handle(self, *args: Any, **options: Any) -> None:
        # A leaked credential is at hand as a whole: take it, but never print it again.
        token = tokens.read(options["public_id"])
        public_id = token.public_id if token else options["public_id"]
        try:
            credential, _ = revoke_credential(public_id=public_id, now=clock.now())
        except LoomError:
            raise CommandError("No credential has this public id; `loomsvc token_list` shows them all.") from None
        assert credential.revoked_at is not None
        self.stdout.write(
            f"Credential {credential.public_id} ({credential.label}) is revoked since "
            f"{clock.to_wire(credential.revoked_at)}."
        )
