from typing import Any

from apps.agent_sessions.services.provider_keys import add_secret, drop_older_secrets, rotate_provider_keys
from apps.core.commands import ServiceCommand


class Command(ServiceCommand):
    help = (
        "Encrypt all provider keys anew. An embedded service gets a new secret in its data folder; where "
        "LOOMSVC_KEY_SECRETS is set, put a new one first, restart, and run this; then the older ones can go."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        made = add_secret()
        rotated = rotate_provider_keys()
        if made:
            drop_older_secrets()
        if options["as_json"]:
            self.print_json({"rotated": rotated.done, "unreadable": rotated.unreadable})
            return
        self.stdout.write(f"{rotated.done} provider keys are encrypted with the newest secret.")
        if rotated.unreadable:
            self.stdout.write(f"{rotated.unreadable} could not be read and have to be entered again.")
