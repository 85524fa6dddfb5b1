"""Detects certificate and proxy errors in the output of servers, and suggests what to do."""

from __future__ import annotations

import re

_CERTIFICATES = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|self[- ]signed certificate|DEPTH_ZERO_SELF_SIGNED_CERT"
    r"|SELF_SIGNED_CERT_IN_CHAIN|unable to (?:get|verify) (?:local |the first )?(?:issuer )?certificate"
    r"|UNABLE_TO_(?:VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(?:_LOCALLY)?)|x509: certificate|invalid peer certificate"
    r"|SSLCertVerificationError|unknown ca\b|tlsv1 alert unknown ca|SSL certificate problem"
    r"|PKIX path building failed|remote certificate (?:is invalid|was rejected)",
    re.IGNORECASE,
)
_PROXY = re.compile(
    r"ProxyError|Proxy Authentication Required|(?:cannot|unable to) connect to proxy|tunnel connection failed"
    r"|proxy (?:connection|handshake)|ERR_PROXY",
    re.IGNORECASE,
)
_SEARCHED_CHARS = 20_000

_OR_IN_ENTRY = "before Toolyard starts, or in the `env` of the server's entry"
CERTIFICATE_HINT = (
    "It does not trust the certificate that it was shown, as in networks whose proxy signs with its own certificate. "
    "Set SSL_CERT_FILE, REQUESTS_CA_BUNDLE and NODE_EXTRA_CA_CERTS to the file of that authority "
    f"{_OR_IN_ENTRY}."
)
PROXY_HINT = (
    f"It could not get through the proxy. Set HTTP_PROXY, HTTPS_PROXY and NO_PROXY {_OR_IN_ENTRY}; Node also needs "
    "NODE_USE_ENV_PROXY=1."
)
_REMOTE_HINTS = {
    CERTIFICATE_HINT: "Toolyard does not trust the certificate that it was shown, as in networks whose proxy signs "
    "with its own certificate. Set SSL_CERT_FILE to the file of that authority before Toolyard starts.",
    PROXY_HINT: "Toolyard could not get through the proxy. Set HTTPS_PROXY and NO_PROXY before it starts.",
}


def network_hint(text: str) -> str:
    """Returns what to do if the text reports a certificate or proxy error; otherwise ""."""
    tail = text[-_SEARCHED_CHARS:]
    if _CERTIFICATES.search(tail):
        return CERTIFICATE_HINT
    return PROXY_HINT if _PROXY.search(tail) else ""


def remote_network_hint(text: str) -> str:
    """Returns the hint for an error of our own connection to a remote server."""
    return _REMOTE_HINTS.get(network_hint(text), "")
