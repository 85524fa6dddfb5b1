"""The allow-list: which spellings are one host, what an entry covers, and where a name may lead."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.errors import ConfigError
from toolyard.sandbox.proxy.allow_list import AllowList, is_public, literal_address, normalized_host, normalized_port


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Example.org", "example.org"),
        ("example.org.", "example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("under_score.example", "under_score.example"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("[0:0::0:1]", "[::1]"),
        ("[2606:4700::1111]", "[2606:4700::1111]"),
    ],
)
def test_a_host_has_one_normal_spelling(text, expected):
    assert normalized_host(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        "example.org..",
        "-a.org",
        "a-.org",
        "a b",
        "a\0b",
        "example.org\0",
        "example.org\r\n",
        "a%2eb",
        "a@b",
        "a/b",
        "a\\b",
        "a:b",
        "*",
        "*.a",
        "bücher.example",
        "example。org",
        "\uff50xample.org",
        "example.org\u200b",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "010.0.0.1",
        "1.2.3.4.5",
        "256.1.1.1",
        "1.2.3.0x",
        "::1",
        "[::1",
        "::1]",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[::ffff:127.0.0.1]",
        "[127.0.0.1]",
        "[]",
        "[v1.a]",
        "a" * 64 + ".org",
        "a." * 130 + "org",
    ],
)
def test_whatever_else_is_no_host(text):
    assert normalized_host(text) is None


@pytest.mark.parametrize(
    "text", ["", "0", "00", "080", "+80", "-80", " 80", "80 ", "8_0", "\uff18\uff10", "65536", "99999", "x"]
)
def test_an_odd_port_is_none(text):
    assert normalized_port(text) is None


def test_ports_reach_from_1_to_65535():
    assert (normalized_port("1"), normalized_port("65535")) == (1, 65535)


@given(st.text(alphabet="abcxn09.-_:[]@%\0*/ ", max_size=20))
def test_a_normal_host_stays_what_it_is(text):
    once = normalized_host(text)
    if once is not None:
        assert normalized_host(once) == once
        assert not set(once) & set("@%\0*/ \r\n")


@pytest.mark.parametrize(
    ("entry", "covered", "not_covered"),
    [
        (
            "example.org",
            [("example.org", 443), ("example.org", 80)],
            [("example.org", 8080), ("a.example.org", 443), ("xexample.org", 443)],
        ),
        ("example.org:8443", [("example.org", 8443)], [("example.org", 443), ("example.org", 80)]),
        (
            "*.example.net",
            [("files.example.net", 443), ("a.b.example.net", 80)],
            [("example.net", 443), ("evilexample.net", 443), ("example.net.evil.net", 443)],
        ),
        ("*.a.org:81", [("x.a.org", 81)], [("x.a.org", 80)]),
        ("10.0.0.5", [("10.0.0.5", 80)], [("10.0.0.50", 80)]),
        ("[2606:4700:0::1111]:53", [("[2606:4700::1111]", 53)], [("[2606:4700::1112]", 53)]),
        ("Bücher.Example", [("xn--bcher-kva.example", 443)], [("bucher.example", 443)]),
        ("straße.example", [("xn--strae-oqa.example", 443)], [("strasse.example", 443)]),
        (" Example.ORG. ", [("example.org", 443)], []),
    ],
)
def test_an_entry_covers_what_it_says_and_no_more(entry, covered, not_covered):
    allowed = AllowList([entry])
    assert [each for each in covered if not allowed.matches(*each)] == []
    assert [each for each in not_covered if allowed.matches(*each)] == []


def test_an_empty_list_covers_nothing():
    assert not AllowList([]).matches("example.org", 443)
    assert AllowList([]).describe() == "nothing"


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "*",
        "*.",
        "**.a",
        "a.*.b",
        "*a.org",
        "http://a.org",
        "a.org/path",
        "u@a.org",
        "a.org:",
        "a.org:0",
        "a:b:c",
        "a.org:99999",
        "*.10.0.0.5",
        "10.0.0.0/8",
        "127.1",
        "::1",
        "[::ffff:10.0.0.1]",
        "a\0b",
        "a\nb.org",
        "☃\u200d.x y",
    ],
)
def test_a_wrong_entry_is_an_error_that_shows_how_to_write_one(entry):
    with pytest.raises(ConfigError, match=r"is not a host that can be allowed.*Write a name \(example\.org\)"):
        AllowList([entry])


PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "239.1.1.1",
    "255.255.255.255",
    "240.0.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "192.0.0.1",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::1",
    "2001:0:7f00:1::1",
    "2001:db8::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_does_not_lead_to_an_address_that_is_not_public(address):
    assert not is_public(ip_address(address))
    assert not AllowList(["rebound.example"]).may_connect("rebound.example", ip_address(address), 443)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "151.101.0.223", "2606:4700::1111", "64:ff9b::808:808"])
def test_a_name_leads_to_public_addresses(address):
    assert AllowList(["example.org"]).may_connect("example.org", ip_address(address), 443)


def test_localhost_is_loopback_and_nothing_else():
    allowed = AllowList(["localhost"])
    assert allowed.may_connect("localhost", ip_address("127.0.0.1"), 80)
    assert allowed.may_connect("localhost", ip_address("::1"), 80)
    assert not allowed.may_connect("localhost", ip_address("192.168.0.1"), 80)
    assert not AllowList(["*.localhost"]).may_connect("a.localhost", ip_address("127.0.0.1"), 80)


def test_a_private_address_that_the_list_names_is_reached_by_its_name_too():
    allowed = AllowList(["packages.corp:8080", "10.0.0.5:8080"])
    assert allowed.may_connect("packages.corp", ip_address("10.0.0.5"), 8080)
    assert not allowed.may_connect("packages.corp", ip_address("10.0.0.6"), 8080)
    assert not allowed.may_connect("packages.corp", ip_address("10.0.0.5"), 443)


def test_a_literal_address_stands_for_itself():
    assert AllowList(["169.254.1.1"]).may_connect("169.254.1.1", ip_address("169.254.1.1"), 80)
    assert not AllowList(["169.254.1.1"]).may_connect("169.254.1.1", ip_address("10.0.0.1"), 80)
    assert literal_address("[::1]") == ip_address("::1")
    assert literal_address("example.org") is None


def test_a_long_list_is_shown_cut():
    text = AllowList([f"h{n}.org" for n in range(25)]).describe()
    assert text.endswith("h19.org and 5 more")
