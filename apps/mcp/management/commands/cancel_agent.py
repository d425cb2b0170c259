from apps.mcp import background


class Command(background.ProvenCommand):
    endpoint = "cancel_agent"
    show = staticmethod(background.agent)
