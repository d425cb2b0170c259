from apps.mcp import background


class Command(background.ProvenCommand):
    endpoint = "agent_status"
    show = staticmethod(background.agent)
