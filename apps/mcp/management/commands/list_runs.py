from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "list_runs"
    show = staticmethod(views.runs)
