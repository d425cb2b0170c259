from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "list_artifacts"
    show = staticmethod(views.artifacts)
