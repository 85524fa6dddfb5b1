"""What servers answer: secrets of their entries masked, and hints where the network is at fault."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from toolyard.config.models import ServerEntry
from toolyard.mcp_client import CallFailed, ServerUnavailable
from toolyard.mcp_client.environment import PASSED_VARIABLES
from toolyard.mcp_client.results import SecretMask, tool_answer

from .upstreams import faulty, upstream

SECRET = "sk-very-secret-8841"


def echo(pool, server="up"):
    return pool.loop.run(pool.call(server, "echo", {"text": "hi"})).text


def test_secrets_of_an_entry_are_masked_in_what_its_server_answers(open_pool):
    odd = 'p"ä\\ss/word'
    env = {
        "API_KEY": SECRET,
        "DB_PASSWORD": odd,
        "ODD_ONE": "Tr0ub4dor&3",
        "FOLDER": "/srv/data",
        "MODE": "production",
    }
    proxy = "http://me:s3same-0pen@proxy.example:3128"
    pool = open_pool(upstream(env={**env, "DEBUG": "1"}), host_env={**os.environ, "HTTPS_PROXY": proxy})
    secrets = (SECRET, odd, json.dumps(odd)[1:-1], quote(odd, safe=""), "Tr0ub4dor&3", "s3same-0pen")
    text = "; ".join((*secrets, "/srv/data/1 production"))
    masked = "; ".join((*("***" for _ in secrets), "/srv/data/1 production"))
    assert pool.loop.run(pool.call("up", "echo", {"text": text})).text == masked
    failed = pool.loop.run(pool.call("up", "fail", {"text": text}))
    assert (failed.is_error, failed.text) == (True, masked)


def test_secrets_of_an_entry_are_masked_in_the_list_of_its_tools(open_pool):
    pool = open_pool(faulty("lists-secrets", env={"API_KEY": SECRET, "DB_PASSWORD": "text"}))
    listing = pool.loop.run(pool.server_listing("up"))
    tools = {tool.name: tool for tool in listing.tools}
    assert SECRET not in repr(listing)
    assert (listing.instructions, tools["open"].description) == ("***", "Uses ***.")
    assert tools["open"].input_schema["properties"]["key"] == {
        "type": "string",
        "default": "***",
        "description": "***",
    }
    # A short password is a word of the schema, too: names have to stay what the server calls them.
    assert tools["echo"].input_schema["required"] == ["text"]


def test_secrets_are_masked_at_any_depth_of_an_answer():
    mask, entry = SecretMask(), upstream(env={"API_KEY": SECRET})
    mask.learn_entry(entry, entry)
    resource = {"type": "resource", "resource": {"uri": f"x://{SECRET}", "text": SECRET}}
    result = {"content": [resource], "structuredContent": {"rows": [{SECRET: [1, SECRET, None]}]}}
    answer = tool_answer("up", "t", result, mask)
    assert answer.content == ({"type": "resource", "resource": {"uri": "x://***", "text": "***"}},)
    assert answer.structured == {"rows": [{"***": [1, "***", None]}]}


def test_an_answer_that_is_nested_too_deep_to_be_masked_is_refused_in_words():
    mask, entry = SecretMask(), upstream(env={"API_KEY": SECRET})
    mask.learn_entry(entry, entry)
    deep = json.loads('{"content": [], "structuredContent": {"a": ' + "[" * 800 + "]" * 800 + "}}")
    with pytest.raises(CallFailed, match="an invalid result"):
        tool_answer("up", "t", deep, mask)


@pytest.mark.parametrize(
    ("said", "variable"),
    [
        (
            "httpx.ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate",
            "SSL_CERT_FILE",
        ),
        ("Error: self-signed certificate in certificate chain", "NODE_EXTRA_CA_CERTS"),
        ("PKIX path building failed: unable to find valid certification path to requested target", "SSL_CERT_FILE"),
        ("The remote certificate is invalid because of errors in the certificate chain", "SSL_CERT_FILE"),
        ("curl: (60) SSL certificate problem: unable to get issuer", "SSL_CERT_FILE"),
        ("Proxy Authentication Required", "HTTPS_PROXY"),
    ],
)
def test_an_error_that_comes_of_the_network_says_what_to_set(open_pool, said, variable):
    script = f"import sys; print({said!r}, file=sys.stderr); sys.exit(1)"
    pool = open_pool(upstream(), ServerEntry(name="dies", command=sys.executable, args=("-c", script)))
    with pytest.raises(ServerUnavailable) as told:
        echo(pool, "dies")
    assert variable in told.value.hint
    failed = pool.loop.run(pool.call("up", "fail", {"text": said}))
    assert failed.text.startswith(said)
    assert variable in failed.text
    assert pool.loop.run(pool.call("up", "fail", {"text": "no such row"})).text == "no such row"


def test_what_a_server_logs_instead_of_answering_counts_for_its_own_call(open_pool, tmp_path):
    """The MCP SDK's server answers "Error executing tool" and logs why, in lines that are broken at 80 characters."""
    script = tmp_path / "server.py"
    script.write_text(
        "import ssl, sys\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('up')\n"
        "@server.tool()\n"
        "def fetch(trusted: bool) -> str:\n"
        "    if trusted: raise KeyError('row')\n"
        "    raise ssl.SSLCertVerificationError('[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')\n"
        "server.run()\n"
    )
    pool = open_pool(ServerEntry(name="up", command=sys.executable, args=(str(script),)))
    failed = pool.loop.run(pool.call("up", "fetch", {"trusted": False}))
    assert failed.is_error
    assert "SSL_CERT_FILE" in failed.text
    assert "SSL_CERT_FILE" not in pool.loop.run(pool.call("up", "fetch", {"trusted": True})).text


def test_a_certificate_that_is_not_trusted_says_what_to_set(open_pool, tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost")
    subprocess.run((*command, "-keyout", key, "-out", certificate), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pool = open_pool(ServerEntry(name="far", url=f"https://localhost:{server.server_port}/mcp"))
        with pytest.raises(ServerUnavailable) as told:
            echo(pool, "far")
        server.shutdown()
    assert "SSL_CERT_FILE" in told.value.hint
    assert "env" not in told.value.hint  # a remote server has none
    pool.close()


def test_the_reference_names_every_variable_that_servers_get():
    page = (Path(__file__).parents[2] / "docs/server-entries.md").read_text()
    assert [name for name in PASSED_VARIABLES if f"`{name}`" not in page and f"`{name.upper()}`" not in page] == []
