from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "apps.agents"
    label = "agents"
    verbose_name = "Agents"

    def ready(self) -> None:
        from apps.agents import endpoints  # noqa: F401
        from apps.agents.services import sweeping
        from apps.agents.services.closing import interrupt_claimed_calls
        from apps.agents.services.opening import ExternalAgents
        from apps.core.caller import AgentExecutor
        from apps.ledger.services.instances import observe_opening
        from apps.runs.services.executors import register_executor
        from apps.runs.services.sweeping import also_sweep

        register_executor(AgentExecutor.MCP_CLIENT, ExternalAgents())
        observe_opening(interrupt_claimed_calls)
        also_sweep("ending Tool calls that were cut off", sweeping.end_expired_tool_calls)
        also_sweep("ending overdue agent calls", sweeping.end_overdue_calls)
        also_sweep("forgetting agent receipts", sweeping.forget_receipts)
