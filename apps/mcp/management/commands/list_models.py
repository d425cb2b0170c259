from apps.mcp import background
from apps.mcp.commands import ClientCommand


class Command(ClientCommand):
    endpoint = "list_models"
    show = staticmethod(background.models)
