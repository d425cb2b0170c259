"""Reading the files of a task's Skills (A7)."""

from __future__ import annotations

from apps.agents import contracts
from apps.agents.domain.deciding import require_open
from apps.agents.selectors.calls import facts_of, find_call, task_in
from apps.agents.services.claiming import require_ownership
from apps.core.caller import Caller
from apps.core.errors import ErrorCode, Issue, LoomError, invalid_request
from apps.looms.loaded import MAX_ASSET_BYTES
from apps.looms.services.releases import load_release


def read_agent_asset(*, caller: Caller, request: contracts.ReadAgentAsset) -> contracts.Asset:
    """A declared asset, as text where it is text."""
    call = find_call(caller=caller, reference=request)
    require_ownership(call, caller=caller, owner_token=request.owner_token)
    require_open(facts_of(call))
    task = task_in(load_release(call.run.release_digest), call)
    declared = {asset.id: asset for skill in task.skills for asset in skill.assets}
    asset = declared.get(request.asset_id)
    if asset is None:
        ids = ", ".join(declared) or "none"
        raise invalid_request(
            "ReadAgentAsset", [Issue("choice", "/assetId", f"Use an asset that the task declares: {ids}.")]
        )
    if asset.size > MAX_ASSET_BYTES:
        raise LoomError(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"Asset {asset.id} has {asset.size} bytes, and {MAX_ASSET_BYTES} are read at most. Ask the Loom's author "
            "to split it.",
        )
    encoding, content = asset.encoded()
    return contracts.Asset(
        id=asset.id,
        name=asset.name,
        encoding=encoding,
        content=content,
        sha256=asset.sha256,
    )
