"""chat: a question and its answer, with nothing around them."""

from __future__ import annotations

from toolyard.assistant.arguments import ChatArguments
from toolyard.assistant.case import Case
from toolyard.assistant.composing import Question
from toolyard.assistant.output import Output


def chat(arguments: ChatArguments, case: Case) -> Output:
    case.admit()
    with case.exchange(Question("chat", arguments.prompt), arguments.continuation_id) as exchange:
        return exchange.keep(exchange.ask())
