from django.apps import AppConfig


class AgentSessionsConfig(AppConfig):
    name = "apps.agent_sessions"
    label = "agent_sessions"
    verbose_name = "Agent sessions"
