from apps.mcp import background
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "run_agent"
    show = staticmethod(background.started)
