from django.apps import AppConfig


class AgentSessionsConfig(AppConfig):
    name = "apps.agent_sessions"
    label = "agent_sessions"
    verbose_name = "Agent sessions"

    def ready(self) -> None:
        from apps.agent_sessions.endpoints import search  # noqa: F401
