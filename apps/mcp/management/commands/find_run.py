from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "find_run"
    show = staticmethod(views.found_run)
