from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "get_operation"
    show = staticmethod(views.found_operation)
