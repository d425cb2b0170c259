"""The checks of the suite that fail here, each with its reason.

Only for what loomsvc has no use for.  A check that begins to pass makes the run fail until its line is removed.
"""

from __future__ import annotations

from collections.abc import Iterator

_OWN_NAMES = "prompts are Looms, resources what is in the ledger: none has a name that the suite asks for"
_SAMPLING = "loomsvc asks no client's model: Agent Steps go to agents that claim them"
_ROOTS = "loomsvc reads no folders of its clients"
_CONTENT = "Tools give JSON, as text and as structured content: no images, audio or embedded resources"
_LOGGING = "logs are the operator's; a client gets errors with pointers and Run events"
_PROGRESS = "no Tool reports its own progress: Runs are followed with get_run; only a call that waits for a person does"
_SUBSCRIPTIONS = "nothing a client could subscribe to changes while the service runs"
_HEADERS = "no Tool maps an argument to a header of its own (x-mcp-header)"
_STATE = "an answer counts only with the signed requestState that its question came with; without, it is asked again"

_BY_REASON: dict[str, dict[str, tuple[str, ...]]] = {
    _OWN_NAMES: {
        "prompts-get-simple": ("prompts-get-simple",),
        "prompts-get-with-args": ("prompts-get-with-args",),
        "prompts-get-embedded-resource": ("prompts-get-embedded-resource",),
        "prompts-get-with-image": ("prompts-get-with-image",),
        "input-required-result-non-tool-request": ("sep-2322-non-tool-incomplete",),
        "completion-complete": ("completion-complete",),
        "resources-read-text": ("resources-read-text",),
        "resources-read-binary": ("resources-read-binary",),
        "resources-templates-read": ("resources-templates-read",),
    },
    _SAMPLING: {
        "tools-call-sampling": ("tools-call-sampling",),
        "input-required-result-basic-sampling": ("sep-2322-sampling-incomplete",),
        "input-required-result-capability-check": ("sep-2322-respect-client-capabilities",),
        "input-required-result-multiple-input-requests": ("sep-2322-multiple-inputs-incomplete",),
        # The one capability that the suite withholds is sampling.
        "server-stateless": (
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
        ),
    },
    _ROOTS: {"input-required-result-basic-list-roots": ("sep-2322-list-roots-incomplete",)},
    _CONTENT: {
        "tools-call-image": ("tools-call-image",),
        "tools-call-audio": ("tools-call-audio",),
        "tools-call-embedded-resource": ("tools-call-embedded-resource",),
        "tools-call-mixed-content": ("tools-call-mixed-content",),
    },
    _LOGGING: {
        "logging-set-level": ("logging-set-level",),
        "tools-call-with-logging": ("tools-call-with-logging",),
    },
    _PROGRESS: {"tools-call-with-progress": ("tools-call-with-progress",)},
    _SUBSCRIPTIONS: {
        "resources-subscribe": ("resources-subscribe",),
        "resources-unsubscribe": ("resources-unsubscribe",),
    },
    _HEADERS: {
        "http-custom-header-server-validation": (
            "sep-2243-server-no-xmcp-tool",
            "sep-2243-server-decode-base64",
            "sep-2243-server-validate-param-match",
            "sep-2243-server-reject-invalid-param-chars",
            "sep-2243-server-reject-param-mismatch",
        )
    },
    _STATE: {"input-required-result-ignore-extra-params": ("sep-2322-ignore-unexpected-params",)},
}


def _lines() -> Iterator[tuple[tuple[str, str], str]]:
    for reason, scenarios in _BY_REASON.items():
        for scenario, checks in scenarios.items():
            for check in checks:
                yield (scenario, check), reason


#: (scenario, check) → why it fails here.
EXPECTED = dict(_lines())
