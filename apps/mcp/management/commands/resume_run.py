from apps.mcp import views
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "resume_run"
    show = staticmethod(views.operation)
