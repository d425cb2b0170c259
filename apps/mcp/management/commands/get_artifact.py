from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "get_artifact"
    show = staticmethod(views.artifact)
