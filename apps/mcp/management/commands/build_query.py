from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "build_query"
    show = staticmethod(views.built_query)
