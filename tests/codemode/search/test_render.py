"""Hits as a model reads them."""

from toolyard.codemode.search import Hit, import_line, render_hits
from toolyard.core.tokens import count_tokens


def hit(name="create_issue", **fields):
    return Hit(
        **{
            "server": "github",
            "tool": name,
            "path": f"servers/github/{name}.py",
            "score": 0.5,
            "summary": "Open a new issue in a repository.",
            "signature": f"{name}(owner: str, repo: str, title: str, body: str | None = None) -> Result",
            **fields,
        }
    )


def test_a_hit_holds_what_a_call_takes():
    assert render_hits([hit()], 500) == (
        "from servers.github import create_issue\n"
        "create_issue(owner: str, repo: str, title: str, body: str | None = None) -> Result\n"
        "    Open a new issue in a repository."
    )


def test_equivalents_are_named_in_one_line():
    text = render_hits([hit(also=("servers/gitlab/create_issue.py", "servers/gitea/create_issue.py"))], 500)
    assert text.splitlines()[-1] == "    Also in servers/gitlab/create_issue.py, servers/gitea/create_issue.py"


def test_the_budget_holds_and_what_was_left_out_is_told():
    hits = [hit(f"tool_{number}") for number in range(50)]
    text = render_hits(hits, 300)
    shown = text.count("from servers")
    assert 2 <= shown < 50
    assert text.endswith(f"{50 - shown} more; use fewer words or raise the budget.")
    assert count_tokens(text) <= 320


def test_the_first_hit_is_always_shown():
    assert render_hits([hit()], 0).startswith("from servers.github import create_issue\n")


def test_a_monstrous_signature_is_cut():
    text = render_hits([hit(signature="f(" + "argument: str, " * 1_000, summary="word\n" * 1_000)], 400)
    assert count_tokens(text) <= 400
    assert len(text.splitlines()) == 3


def test_nothing_found_says_what_to_do():
    assert "Try other words" in render_hits([], 500)


def test_five_usual_hits_cost_less_than_five_hundred_tokens():
    assert count_tokens(render_hits([hit(f"create_issue_{number}") for number in range(5)], 500)) <= 300


def test_paths_become_imports():
    assert import_line("tools/web/screenshot.py") == "from tools.web import screenshot"
    assert import_line("alone.py") == "import alone"
    assert import_line(".toolyard/servers/github/create_issue.py") == "from servers.github import create_issue"
