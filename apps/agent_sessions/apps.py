from django.apps import AppConfig


class AgentSessionsConfig(AppConfig):
    name = "apps.agent_sessions"
    label = "agent_sessions"
    verbose_name = "Agent sessions"

    def ready(self) -> None:
        from apps.agent_sessions.endpoints import search  # noqa: F401
        from apps.agent_sessions.services.agent_steps import ServiceModels
        from apps.core.caller import AgentExecutor
        from apps.runs.services.executors import register_executor

        register_executor(AgentExecutor.SERVICE_MODEL, ServiceModels())
