"""chat: a question and its answer, with nothing around them."""

from __future__ import annotations

from toolyard.assistant.arguments import ChatArguments
from toolyard.assistant.output import Output
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.request import Case


def chat(arguments: ChatArguments, case: Case) -> Output:
    case.admit()
    with case.exchange(Question("chat", arguments.prompt), arguments.continuation_id) as exchange:
        return exchange.keep(exchange.ask())
