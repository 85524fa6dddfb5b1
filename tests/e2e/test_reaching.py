"""Only a network that is not there is a reason to skip: everything else that keeps clients away is a failure."""

from __future__ import annotations

import pytest

from tests.e2e.reaching import not_installed


def outcome_of(said: str) -> type[BaseException]:
    """Either is caught: one that is not expected would skip this very test."""
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="the clients cannot be inst") as caught:
        not_installed("the clients", said)
    return caught.type


@pytest.mark.parametrize(
    "said",
    [
        "npm error code ECONNREFUSED\nnpm error FetchError: request to http://127.0.0.1:1/x failed",
        "npm error code EAI_AGAIN\nnpm error request failed, reason: getaddrinfo EAI_AGAIN",
        "error: Failed to fetch\n  Caused by: error sending request for url (...)\n  Caused by: dns error",
    ],
)
def test_where_nothing_is_in_reach_the_test_is_skipped_and_says_why(said):
    assert outcome_of(said) is pytest.skip.Exception


@pytest.mark.parametrize(
    "said",
    [
        "npm error code ETARGET\nnpm error notarget No matching version found for @google/gemini-cli@0.61.99.",
        "npm error code ENOSPC\nnpm error nospc There appears to be insufficient space on your system",
        "npm error code EINTEGRITY",
        "",
    ],
)
def test_whatever_else_is_in_the_way_is_a_failure(said):
    assert outcome_of(said) is pytest.fail.Exception
