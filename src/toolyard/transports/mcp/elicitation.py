"""Asks the client for approvals that the policy requires.

Before 2026-07-28 the server asks during the call, by elicitation. Since then a call ends with `input_required` and is
repeated with the answer. The request state carries the questions and approvals so far; the SDK seals it, so a client
cannot answer a question that was not asked.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponseRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import AnswerPending, ApprovalCallback, deny_without_asking
from toolyard.transports.json_encoding import sendable_text

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this", "default": False}},
    "required": ["allow"],
}
_ELICITATION_CAPABILITY = ClientCapabilities(elicitation=ElicitationCapability())

Context = ServerRequestContext[Any, Any]


class InputRequired(AnswerPending):
    """Carries the result that asks a client of protocol 2026-07-28."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__()
        self.result = result


def approval_callback_for(context: Context, params: InputResponseRequestParams) -> ApprovalCallback:
    """Returns the approval callback for this client; it denies if the client cannot be asked."""
    if not context.session.check_client_capability(_ELICITATION_CAPABILITY):
        return deny_without_asking
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _InputRequiredApproval(params)
    return _ElicitationApproval(context)


@dataclass(frozen=True, slots=True)
class _ElicitationApproval:
    context: Context

    async def __call__(self, action: Action, decision: Decision) -> bool:
        try:
            answer = await self.context.session.elicit_form(
                _question(action, decision), _SCHEMA, self.context.request_id
            )
        except MCPError:  # the client announced elicitation but refused it: not approved
            return False
        return _is_allowed(answer)


class _InputRequiredApproval:
    def __init__(self, params: InputResponseRequestParams) -> None:
        state = _parse_state(params.request_state)
        self._approved: set[str] = set(state["approved"])
        self._refused: set[str] = set()
        asked = state["asked"]
        answer = (params.input_responses or {}).get(asked) if asked else None
        if asked and isinstance(answer, ElicitResult):
            (self._approved if _is_allowed(answer) else self._refused).add(asked)

    async def __call__(self, action: Action, decision: Decision) -> bool:
        key = _action_key(action)
        if key in self._approved:
            return True
        if key in self._refused:
            return False
        form = ElicitRequestFormParams(message=_question(action, decision), requested_schema=_SCHEMA)
        state = json.dumps({"asked": key, "approved": sorted(self._approved)})
        raise InputRequired(
            InputRequiredResult(input_requests={key: ElicitRequest(params=form)}, request_state=state)
        )


def _parse_state(sealed: str | None) -> dict[str, Any]:
    # The SDK has verified that we wrote it.
    return cast("dict[str, Any]", json.loads(sealed)) if sealed else {"asked": None, "approved": []}


def _action_key(action: Action) -> str:
    fields = json.dumps([action.kind, action.tool, action.path, action.real_path, action.command])
    return "allow-" + hashlib.blake2b(fields.encode(), digest_size=12).hexdigest()


def _question(action: Action, decision: Decision) -> str:
    through = ""
    if action.real_path is not None and action.real_path != action.path:
        through = f" Its real path is {action.real_path}."
    return sendable_text(f"{decision.reason}{through} Allow {action.tool} to do this?")


def _is_allowed(answer: ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get("allow") is True
