from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "pause_run"
    show = staticmethod(views.operation)
