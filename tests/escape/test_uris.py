"""resources/read: URIs that lead out, hide what they name, or are none."""

import pytest

from tests.support.attacks.mcp_calls import SECURITY, TOOL, VALIDATION

OUT = (
    "file://{outside}/secret.txt",
    "file://localhost{outside}/secret.txt",
    "FILE://{outside}/secret.txt",
    "file:{outside}/secret.txt",
    "file:///etc/passwd",
    "file:////etc/passwd",
    "file://{ws}/../outside/secret.txt",
    "file://{ws}/%2e%2e/outside/secret.txt",
    "file://{ws}/%2E%2E%2Foutside%2Fsecret.txt",
    "file://{ws}/..%2Foutside/secret.txt",
    "file://{ws}%2F..%2Foutside%2Fsecret.txt",
    "file://{ws}/sub/.%2e/.%2e/outside/secret.txt",
    "file://{ws}-evil/secret.txt",
    "file://{ws}%2Devil/secret.txt",
    "file://{ws}/out-file",
    "file://{ws}/out%2Dfile",
    "file://{ws}/out-folder/secret.txt",
    "file:///proc/self/environ",
    "file:///proc/self/root{outside}/secret.txt",
)


@pytest.mark.parametrize("uri", OUT)
async def test_a_uri_that_leads_out_is_refused(untouched, refused, uri):
    refused(await untouched.call("resources/read", {"uri": untouched.world.spell(uri)}), SECURITY)


NONE = (
    "",
    " ",
    "file:",
    "file://",
    "{ws}/a.txt",
    "a.txt",
    "http://localhost/a.txt",
    "https://example.org/",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "file://somewhere{ws}/a.txt",
    "file://127.0.0.1{ws}/a.txt",
    "file://user@localhost{ws}/a.txt",
    "file://{ws}/a.txt?x=1",
    "file://{ws}/a.txt#part",
    "file://{ws}/a.txt%00",
    "file://{ws}/%00",
    "file://{ws}/%ff%fe",
    "file://[::1]{ws}/a.txt",
    "file://[{ws}/a.txt",
    "file://]{ws}/a.txt",
    "file://[v1.x]{ws}/a.txt",
    "file://{ws}/" + "n" * 10_000,
    "\0",
    "://",
    "file",
    "file://\u2100{ws}/a.txt",
)


@pytest.mark.parametrize("uri", NONE, ids=range(len(NONE)))
async def test_what_is_not_a_file_uri_is_invalid(untouched, refused, uri):
    refused(await untouched.call("resources/read", {"uri": untouched.world.spell(uri)}), VALIDATION)


@pytest.mark.parametrize("path", ["%252e%252e/outside/secret.txt", "..%255coutside", "not-there", "a.txt%20"])
async def test_a_uri_of_nothing_says_so(untouched, refused, path):
    refused(await untouched.call("resources/read", {"uri": f"file://{untouched.world.workspace}/{path}"}), TOOL)


@pytest.mark.parametrize(
    "path", ["a.txt", "%61.txt", "sub/../a.txt", "sub/%2e%2e/a.txt", "in-file", "./a.txt", "//a.txt"]
)
async def test_a_uri_of_a_file_inside_gives_its_text(untouched, path):
    answer = await untouched.call("resources/read", {"uri": f"file://{untouched.world.workspace}/{path}"})
    assert answer.code == 0
    assert "alpha" in answer.text
