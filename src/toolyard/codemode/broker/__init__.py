"""The host's end of the socket through which sandboxed code calls tools.

`Broker` serves one agent. What it is asked for goes to a `Handler`, which decides and answers.
"""

from toolyard.codemode.broker.admission import BrokerLimits
from toolyard.codemode.broker.broker import Broker
from toolyard.codemode.broker.requests import BrokerRequest, Doing, Handler, Progress, Refused, tell_nobody

__all__ = ["Broker", "BrokerLimits", "BrokerRequest", "Doing", "Handler", "Progress", "Refused", "tell_nobody"]
