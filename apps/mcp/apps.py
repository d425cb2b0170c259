from django.apps import AppConfig


class McpConfig(AppConfig):
    name = "apps.mcp"
    label = "mcp"
    verbose_name = "MCP"

    def ready(self) -> None:
        from apps.mcp.sessions import remove_expired
        from apps.mcp.waits import remove_left_behind
        from apps.runs.services.sweeping import also_sweep

        also_sweep("ending MCP sessions", remove_expired)
        also_sweep("removing waits that were left behind", remove_left_behind)
