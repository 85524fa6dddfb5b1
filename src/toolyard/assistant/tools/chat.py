"""chat: one question and its answer."""

from __future__ import annotations

from toolyard.assistant.arguments import ChatArguments
from toolyard.assistant.output import AssistantOutput
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.request import AssistantRequest


def chat(arguments: ChatArguments, request: AssistantRequest) -> AssistantOutput:
    """Asks the model the prompt and stores the turn."""
    request.check_rate()
    with request.open_turn(Question("chat", arguments.prompt), arguments.continuation_id) as model_turn:
        return model_turn.save(model_turn.ask())
