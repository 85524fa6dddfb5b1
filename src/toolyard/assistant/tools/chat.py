"""chat: a question and its answer, with nothing around them."""

from __future__ import annotations

from toolyard.assistant.arguments import ChatArguments
from toolyard.assistant.output import AssistantOutput
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.request import AssistantRequest


def chat(arguments: ChatArguments, request: AssistantRequest) -> AssistantOutput:
    request.check_rate()
    with request.open_turn(Question("chat", arguments.prompt), arguments.continuation_id) as exchange:
        return exchange.save(exchange.ask())
