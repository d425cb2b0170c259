from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "get_record"
    show = staticmethod(views.record)
