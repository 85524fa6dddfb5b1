"""The host side of the socket through which sandboxed code calls tools.

A `Broker` serves one agent and passes its requests to a `RequestHandler`, which decides and answers.
"""

from toolyard.codemode.broker.broker import Broker
from toolyard.codemode.broker.requests import (
    BrokerLimits,
    BrokerRequest,
    RequestHandler,
    RequestKind,
    RequestRefused,
    UpstreamProgress,
    ignore_progress,
)

__all__ = [
    "Broker",
    "BrokerLimits",
    "BrokerRequest",
    "RequestHandler",
    "RequestKind",
    "RequestRefused",
    "UpstreamProgress",
    "ignore_progress",
]
