"""Reading proxy requests: what is taken, and that nothing unusual is."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.sandbox.proxy.request import BadRequest, ProxyRequest, parse_request


def head(line, *fields):
    return "\r\n".join((line, *fields, "", "")).encode("latin-1")


def test_connect_names_host_and_port():
    assert parse_request(head("CONNECT Example.org.:443 HTTP/1.1", "Host: else.org")) == ProxyRequest(
        "example.org", 443
    )
    assert parse_request(head("CONNECT [0::1]:8443 HTTP/1.0")) == ProxyRequest("[::1]", 8443)


def test_a_plain_request_is_written_anew_for_the_server():
    found = parse_request(
        head(
            "POST http://Example.org/a?b=%0d%0a HTTP/1.0",
            "Host: internal.example",
            "Accept: */*",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive, X-Hop",
            "X-Hop: 1",
            "Upgrade: h2c",
            "Content-Length: 5",
        )
    )
    assert found == ProxyRequest(
        "example.org",
        80,
        b"POST /a?b=%0d%0a HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n"
        b"Content-Length: 5\r\nConnection: close\r\n\r\n",
        5,
    )


@pytest.mark.parametrize(
    ("target", "first", "host"),
    [
        ("http://a.org", b"GET / HTTP/1.1", b"a.org"),
        ("HTTP://a.org/", b"GET / HTTP/1.1", b"a.org"),
        ("http://a.org?x", b"GET /?x HTTP/1.1", b"a.org"),
        ("http://a.org:8080//b", b"GET //b HTTP/1.1", b"a.org:8080"),
        ("http://[::1]:81/", b"GET / HTTP/1.1", b"[::1]:81"),
        ("http://a.org/@b.org", b"GET /@b.org HTTP/1.1", b"a.org"),
        ("http://a.org/http://b.org", b"GET /http://b.org HTTP/1.1", b"a.org"),
    ],
)
def test_the_host_sent_on_is_the_one_that_was_judged(target, first, host):
    lines = parse_request(head(f"GET {target} HTTP/1.1", "Host: b.org", "hOST: c.org")).head.split(b"\r\n")
    assert lines[0] == first
    assert [line for line in lines if line.lower().startswith(b"host")] == [b"Host: " + host]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "GET",
        "GET http://a.org",
        "GET  http://a.org HTTP/1.1",
        "GET http://a.org HTTP/2.0",
        "GET http://a.org HTTP/1.1 ",
        " GET http://a.org HTTP/1.1",
        "GET /path HTTP/1.1",
        "GET a.org/ HTTP/1.1",
        "GET * HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "GET https://a.org/ HTTP/1.1",
        "GET ftp://a.org/ HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "GET http:/a.org HTTP/1.1",
        "GET http:///a.org HTTP/1.1",
        "GET http://user@a.org/ HTTP/1.1",
        "GET http://a.org@b.org/ HTTP/1.1",
        "GET http://a.org:80@b.org/ HTTP/1.1",
        "GET http://a.org\\@b.org/ HTTP/1.1",
        "GET http://a.org%00.b.org/ HTTP/1.1",
        "GET http://a%2eorg/ HTTP/1.1",
        "GET http://a.org#@b.org/ HTTP/1.1",
        "GET http://a.org/#x HTTP/1.1",
        "GET http://a.org:/ HTTP/1.1",
        "GET http://a.org:080/ HTTP/1.1",
        "GET http://a.org:65536/ HTTP/1.1",
        "GET http://a.org:+80/ HTTP/1.1",
        "GET http://127.1/ HTTP/1.1",
        "GET http://0x7f000001/ HTTP/1.1",
        "GET http://2130706433/ HTTP/1.1",
        "GET http://a.org/\x00 HTTP/1.1",
        "GET http://a.org/\x7f HTTP/1.1",
        "GET http://a.org/\xff HTTP/1.1",
        "GET http://b\xfccher.org/ HTTP/1.1",
        "GET http://a.org/\tx HTTP/1.1",
        "GET\thttp://a.org/ HTTP/1.1",
        "GET http://a.org/ HTTP/1.1\nHost: b.org",
        "GET http://a.org/ HTTP/1.1\rX: y",
        "CONNECT a.org HTTP/1.1",
        "CONNECT a.org: HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "CONNECT a.org:443:443 HTTP/1.1",
        "CONNECT http://a.org:443 HTTP/1.1",
        "CONNECT u@a.org:443 HTTP/1.1",
        "CONNECT a.org\0:443 HTTP/1.1",
        "CONNECT a.org:443/ HTTP/1.1",
        "CONNECT a.org:443#b:443 HTTP/1.1",
        "CONNECT a.org%0d%0a:443 HTTP/1.1",
        "CONNECT ::1:443 HTTP/1.1",
        "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1",
        "CONNECT [fe80::1%25lo]:443 HTTP/1.1",
        "G(T http://a.org/ HTTP/1.1",
        "\x16\x03\x01\x02\x00\x01",
    ],
)
def test_an_unusual_first_line_is_refused(line):
    with pytest.raises(BadRequest):
        parse_request(head(line))


@pytest.mark.parametrize(
    "fields",
    [
        ("Host : a.org",),
        (" folded: x",),
        ("A: b", "\tfolded"),
        ("no colon",),
        (":empty",),
        ("A: b\x00",),
        ("A: b\nX: y",),
        ("A: b\rX: y",),
        ("A\x80: b",),
        ("A: \x7f",),
        ("Content-Length: 5", "Content-Length: 5"),
        ("Content-Length: 5", "content-length: 6"),
        ("Content-Length: +5",),
        ("Content-Length: -5",),
        ("Content-Length: 5, 5",),
        ("Content-Length: 0x5",),
        ("Content-Length:",),
        ("Content-Length: " + "9" * 30,),
        ("Content-Length: 5_0",),
        ("Content-Length: \xb2",),
    ],
)
def test_an_unusual_header_is_refused(fields):
    with pytest.raises(BadRequest) as caught:
        parse_request(head("POST http://a.org/ HTTP/1.1", *fields))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "fields",
    [
        ("Transfer-Encoding: chunked",),
        ("transfer-encoding: identity",),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Transfer-Encoding: xchunked"),
        ("Transfer-Encoding:",),
        ("Connection: transfer-encoding", "Transfer-Encoding: chunked"),
    ],
)
def test_a_body_of_unknown_length_is_refused_with_the_reason(fields):
    with pytest.raises(BadRequest, match="must come with its Content-Length") as caught:
        parse_request(head("POST http://a.org/ HTTP/1.1", *fields))
    assert caught.value.status == 411


def test_naming_a_header_in_connection_cannot_take_the_length_or_the_host_away():
    found = parse_request(
        head("POST http://a.org/ HTTP/1.1", "Connection: content-length, host", "Content-Length: 3")
    )
    assert found.length == 3
    assert b"\r\nContent-Length: 3\r\n" in found.head
    assert b"\r\nHost: a.org\r\n" in found.head


@pytest.mark.parametrize("filler", [b" ", b"\t", b"a", b"a ", b":", b"-", b"."])
def test_a_large_head_is_read_in_little_time(filler):
    long = filler * (32 * 1024 // len(filler))
    start = time.process_time()
    for data in (
        b"GET http://a.org/ HTTP/1.1\r\nA:" + long + b"\0\r\n\r\n",
        b"GET http://" + long + b"\0 HTTP/1.1\r\n\r\n",
        b"CONNECT " + long + b":1 HTTP/1.1\r\n\r\n",
        b"CONNECT [" + long + b"]:1 HTTP/1.1\r\n\r\n",
        long + b"\r\n\r\n",
    ):
        with pytest.raises(BadRequest):
            parse_request(data)
    assert time.process_time() - start < 1


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_a_request_or_a_refusal(data):
    try:
        parse_request(data + b"\r\n\r\n")
    except BadRequest:
        return


@given(
    st.text(alphabet="ab.:@/?#%\\[]0 \r\n\0", max_size=20),
    st.text(alphabet="abHost: ,\r\n\0\tTE", max_size=20),
)
def test_what_is_sent_on_has_one_head_and_one_host(authority, field):
    try:
        found = parse_request(head(f"GET http://{authority} HTTP/1.1", field, "Accept: x"))
    except BadRequest:
        return
    lines = found.head.split(b"\r\n")
    assert found.head.count(b"\r\n\r\n") == 1
    assert b"\n" not in found.head.replace(b"\r\n", b"")
    assert sum(line.lower().startswith(b"host:") for line in lines) == 1
