from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "answer_ask"
    show = staticmethod(views.operation)
