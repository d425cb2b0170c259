from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "fork_run"
    show = staticmethod(views.operation)
