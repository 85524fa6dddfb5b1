"""Spellings of addresses that are not public."""

import pytest

from toolyard.mcp_client.oauth import is_allowed_target
from toolyard.mcp_client.public_addresses import has_private_address, is_loopback, is_public

LOOPBACK = [
    *("127.0.0.1", "127.1", "127.0.0.0x1", "0x7f.0.0.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1"),
    *(
        "127。0。0。1",
        "127\uff0e0\uff0e0\uff0e1",
        "127｡0｡0｡1",
        "\uff11\uff12\uff17.0.0.1",
        "127.0.0.1.",
        "127.0.0.1..",
    ),
    *("::ffff:0:127.0.0.1",),
    *("::1", "0:0:0:0:0:0:0:1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::127.0.0.1"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "fe80::5efe:127.0.0.1", "localhost", "LOCALHOST.", "a.localhost"),
]
INSIDE = [
    *("10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0xa9fea9fe", "2852039166", "0xA9.254.43518"),
    *(
        "0.0.0.0",
        "0",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
    ),
    *("::", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:a00:1::"),
    *(
        "2001:0:a00:1::",
        "2001:db8::5efe:10.0.0.1",
        "ff02::1",
        "metadata.google.internal",
        "metadata.google.internal.",
    ),
    *("metadata。google。internal", "metadata", "printer.local", "router.lan", "intranet", "1.0.0.127.in-addr.arpa"),
    *("192.0.0.192", "192.88.99.1", "::ffff:0:10.0.0.1", "::ffff:0:a00:1", "fec0::1", "3fff::1", "5f00::1"),
    *("localhost.localdomain", "localhost6.localdomain6", "kubernetes.default.svc", "metadata.goog"),
    *("a.test", "a.onion"),
    *("loca\u00adl.example", "a\u200b.example", "a..example", ".example.com", "*.example.com", "a b.example"),
    *("127.0.0.1%2e", "1.2.3.4.5", "256.1.1.1", "0x", "login.example.1", "%31%32%37.0.0.1", "::g"),
]


@pytest.mark.parametrize("host", [*LOOPBACK, *INSIDE])
def test_no_spelling_of_a_private_address_is_public(host):
    assert not is_public(host)
    shown = f"[{host}]" if ":" in host else host
    assert not is_allowed_target("https://tools.example/mcp", f"https://{shown}/token")


@pytest.mark.parametrize("host", LOOPBACK)
def test_every_spelling_of_this_machine_is_known(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "login.example",
        "8.8.8.8",
        "0x08080808",
        "2606:4700::1111",
        "64:ff9b::8.8.8.8",
        "bücher.example",
        "a1.example.",
    ],
)
def test_a_public_host_is_public(host):
    assert is_public(host)
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1\\@login.example/token",
        "https://127.0.0.1 /token",
        "https://login.example\n@127.0.0.1/token",
        "https://login.exa\tmple/token",
        "https://login.example:99999/token",
    ],
)
def test_an_address_that_programs_read_differently_is_refused(url):
    assert not is_allowed_target("https://tools.example/mcp", url)


def test_a_name_leads_inside_when_any_of_its_addresses_does():
    assert has_private_address(["93.184.216.34", "10.0.0.1"])
    assert has_private_address(["fe80::1%eth0"])
    assert not has_private_address(["93.184.216.34", "2606:4700::1111"])
