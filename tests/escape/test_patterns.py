"""Patterns and globs as weapons: options in disguise, ways up, bombs. Whatever the answer, it comes soon."""

import asyncio

import pytest

from tests.support.attacks.mcp_calls import SECURITY, VALIDATION

SECONDS = 30

SMUGGLED = (
    "--pre=/bin/sh",
    "--pre-glob=*",
    "--files",
    "--follow",
    "-L",
    "-f/etc/passwd",
    "--file=/etc/passwd",
    "--no-ignore",
    "-uuu",
    "--hostname-bin=/bin/id",
    "--search-zip",
    "--config",
    "--type-add=x:*",
    "--debug",
    "--",
    "-- / ",
    "-e",
    "-e . /",
    "--glob=/etc/*",
    "@/etc/passwd",
    "\n--pre=/bin/sh",
)


async def soon(call):
    return await asyncio.wait_for(call, SECONDS)


@pytest.mark.parametrize("text", SMUGGLED)
@pytest.mark.parametrize("argument", ["pattern", "glob", "type"])
async def test_an_option_in_disguise_is_only_text_to_grep(untouched, argument, text):
    answer = await soon(untouched.call("Grep", {"pattern": "root", "output_mode": "content", argument: text}))
    assert answer.code in {0, VALIDATION}
    assert "root:x:" not in answer.text
    if answer.code == 0:
        assert "No matches found" in answer.text


@pytest.mark.parametrize("text", SMUGGLED)
async def test_an_option_in_disguise_is_only_a_name_to_glob_and_ls(untouched, text):
    globbed = await soon(untouched.call("Glob", {"pattern": text}))
    assert globbed.code in {0, VALIDATION}
    if globbed.code == 0:
        assert "No files found" in globbed.text
    listed = await soon(untouched.call("LS", {"ignore": [text]}))
    assert listed.code == 0
    assert "a.txt" in listed.text


async def test_a_pattern_that_looks_like_an_option_finds_itself(victim):
    with open(f"{victim.world.workspace}/options.txt", "w") as file:
        file.write("use --pre=/bin/sh here\n")
    found = await victim.call("Grep", {"pattern": "--pre=/bin/sh", "output_mode": "content"})
    assert "use --pre=/bin/sh here" in found.text


WAYS_UP = (
    "../**",
    "../outside/*",
    "sub/../../outside/*",
    "**/../../outside/*",
    "{ws}/../outside/*",
    "/etc/*",
    "/**",
    "{outside}/*",
    "{evil}/*",
    "/proc/self/root/**",
    "/proc/self/environ",
)


@pytest.mark.parametrize("pattern", WAYS_UP)
async def test_a_glob_that_goes_out_is_refused(untouched, refused, pattern):
    refused(
        await soon(
            untouched.call(
                "Glob",
                {
                    "pattern": pattern.replace("{ws}", untouched.world.workspace)
                    .replace("{outside}", untouched.world.outside)
                    .replace("{evil}", untouched.world.evil)
                },
            )
        ),
        SECURITY,
    )


@pytest.mark.parametrize(
    "pattern",
    ["{..,sub}/*", "[.][.]/outside/*", ".[.]/outside/*", "?./outside/*", "out-folder/*", "out-*/**", "**/secret.txt"],
)
async def test_a_glob_that_hides_where_it_goes_finds_nothing_outside(untouched, pattern):
    for tool, arguments in (("Glob", {"pattern": pattern}), ("Grep", {"pattern": "CANARY", "glob": pattern})):
        answer = await soon(untouched.call(tool, arguments))
        assert answer.code in {0, SECURITY, VALIDATION}
        assert "secret" not in answer.text


BRACES = (
    "{a,b}" * 40,
    "{a,b}" * 400,
    "{" * 100 + "a" + "}" * 100,
    "{" * 1_000,
    "{a," * 500,
    "{a,{b," * 300 + "}" * 600,
    "{" + "a," * 900 + "}",
    "**/" * 300 + "x",
    "*" * 1_999,
    "*a" * 900,
    "?" * 1_999,
    "[" * 1_000,
    "[!" * 500,
    "[a-" * 300,
    "\\" * 999,
    "x" * 2_001,
    "x" * 1_000_000,
    "a\0b",
    "\ud800",
)


@pytest.mark.parametrize("bomb", BRACES, ids=range(len(BRACES)))
async def test_a_bomb_of_braces_and_stars_goes_off_nowhere(untouched, refused, bomb):
    calls = (
        ("Glob", {"pattern": bomb}),
        ("Grep", {"pattern": "alpha", "glob": bomb}),
        ("LS", {"ignore": [bomb]}),
    )
    for tool, arguments in calls:
        answer = await soon(untouched.call(tool, arguments))
        if answer.code:
            refused(answer, VALIDATION)


EXPRESSIONS = (
    "(a+)+$",
    "(a|a)*b",
    "(a|aa)+$",
    "(.*)*x",
    "(x+x+)+y",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(a?){100}a{100}",
    "((a{0,100}){0,100}){0,100}",
    "(?:a{1,1000}){1,1000}",
    "a{100000000}",
    "(" * 500,
    "(" * 300 + "a" + ")" * 300,
    "[",
    "*",
    "(?P<x",
    "\\",
    "(?<=a)b",
    "(a)\\1",
    "\\p{Nonsense}",
    "x" * 2_001,
    "a\0b",
    "\udc80",
    "a\nb",
)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
@pytest.mark.parametrize("multiline", [False, True])
async def test_a_catastrophic_expression_is_answered_soon(victim, refused, expression, multiline):
    with open(f"{victim.world.workspace}/long.txt", "w") as file:
        file.write("a" * 200_000 + "!\n")
    answer = await soon(victim.call("Grep", {"pattern": expression, "multiline": multiline}))
    if answer.code:
        refused(answer, VALIDATION)
