from django.apps import AppConfig


class AgentSessionsConfig(AppConfig):
    name = "apps.agent_sessions"
    label = "agent_sessions"
    verbose_name = "Agent sessions"

    def ready(self) -> None:
        from apps.agent_sessions.endpoints import models, search, sessions  # noqa: F401
        from apps.agent_sessions.services import ending, leasing
        from apps.agent_sessions.services.agent_steps import ServiceModels
        from apps.core.caller import AgentExecutor
        from apps.ledger.services.instances import observe_opening
        from apps.runs.services.executors import register_executor
        from apps.runs.services.pulse import also_renew
        from apps.runs.services.sweeping import also_sweep

        register_executor(AgentExecutor.SERVICE_MODEL, ServiceModels())
        observe_opening(ending.interrupt_running)
        also_renew(leasing.renew_leases)
        also_sweep("ending lost background agents", ending.end_expired_sessions)
        also_sweep("ringing for background agents", ending.ring_for_queued)
        also_sweep("removing old background agents", ending.remove_old_sessions)
