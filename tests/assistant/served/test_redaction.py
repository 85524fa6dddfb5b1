"""Secrets are masked in files that are sent and in answers; links out and outlines are reported."""

import json

import pytest

from tests.support.assistant_process import sent
from toolyard.testing.mock_model import Say

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"
AWS = "AKIA" + "Q3EGRLXK7Z2MNP4T"
BODY = ("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ", "AAAAMwAAAAtzc2gtZWQyNTUxOQAAACDqLmZ4YwX9kTn5")
KEY = "\n".join(("-----BEGIN OPENSSH PRIVATE KEY-----", *BODY, "-----END OPENSSH PRIVATE KEY-----"))
SOURCE = f"import os\nTOKEN = '{TOKEN}'\n\ndef run():\n    return TOKEN\n"
WORDS = {
    "analyze": {"question": "?"},
    "codereview": {"context": "?"},
    "thinkdeep": {"current_analysis": "?"},
    "debug": {"error_description": "?"},
}
NO_FINDINGS = Say(json.dumps({"summary": "Fine.", "findings": []}))


def secret_finding(path, line, kind):
    return {
        "severity": "critical",
        "category": "security",
        "file": path,
        "line": line,
        "title": f"hard-coded secret, line {line} ({kind})",
        "fix": "Revoke it, and read it from the environment or a secret store.",
    }


@pytest.mark.parametrize("files", [["."], ["app.py"]])
@pytest.mark.parametrize("tool", WORDS)
def test_a_file_with_a_secret_is_sent_with_the_secret_masked(serve, project, tool, files):
    (project / "app.py").write_text(SOURCE)
    served = serve(NO_FINDINGS)

    fields = served.ask(tool, files=files, **WORDS[tool])

    assert fields["files_processed"] == ["app.py"]
    asked = served.model.requests[-1].user_texts[-1]
    assert "2| TOKEN = '[secret]'" in asked
    assert "4| def run():" in asked
    assert TOKEN not in sent(served) + json.dumps(fields)
    assert "Masked as secrets: app.py:2 (GitHub Token)." in fields["metadata"]["notes"]


def test_a_review_reports_secrets_that_the_model_does_not_mention(serve, project):
    (project / "app.py").write_text(SOURCE)
    (project / "deploy.py").write_text(f"x = 1\nKEY = '''{KEY}'''\n")

    fields = serve(NO_FINDINGS).ask("codereview", files=["."], context="?", severity_filter="critical")

    assert fields["findings"] == [
        secret_finding("app.py", 2, "GitHub Token"),
        secret_finding("deploy.py", 2, "Private Key"),
    ]
    assert "app.py:2: hard-coded secret, line 2 (GitHub Token)" in fields["content"]
    assert fields["status"] == "success"


def test_a_review_whose_answer_cannot_be_read_still_reports_secrets(serve, project):
    (project / "app.py").write_text(SOURCE)

    fields = serve(Say("I like it.")).ask("codereview", files=["app.py"], context="?")

    assert secret_finding("app.py", 2, "GitHub Token") in fields["findings"]


def test_a_private_key_is_masked_line_by_line(serve, project):
    (project / "deploy.py").write_text(f"x = 1\nKEY = '''{KEY}'''\ny = 2\n")
    served = serve(Say("yes"))

    served.ask("analyze", files=["deploy.py"], question="?")

    asked = served.model.requests[-1].user_texts[-1]
    assert "3| [secret]\n4| [secret]\n" in asked
    assert "6| y = 2" in asked
    assert not any(line in sent(served) for line in BODY)


def test_a_trace_shows_the_lines_around_a_masked_secret(serve, project):
    (project / "app.py").write_text(SOURCE)
    served = serve(Say("yes"))
    trace = '  File "/app/app.py", line 4, in run'

    fields = served.ask("debug", error_description="it fails", error_context=trace)

    assert "def run():" in fields["frames"][0]["excerpt"]
    assert "[secret]" in fields["frames"][0]["excerpt"]
    assert TOKEN not in sent(served) + json.dumps(fields)
    (line,) = [number for number, text in enumerate(SOURCE.split("\n"), 1) if TOKEN in text]
    assert f"Masked as secrets: app.py:{line} (GitHub Token)." in fields["metadata"]["notes"]
    assert f"already reported: app.py:{line} (GitHub Token)" in sent(served)


def test_known_shapes_of_secrets_in_an_answer_are_masked_and_not_stored(serve, project, servers):
    served = serve(Say(f"Use {AWS} with {TOKEN}, or:\n{KEY}\nas you like."))

    fields = served.ask("chat", prompt=f"What is {TOKEN}?")
    thread = fields["continuation_id"]
    served.ask("chat", prompt="Again?", continuation_id=thread)

    assert fields["content"].startswith("Use [secret] with [secret], or:")
    assert fields["content"].endswith("as you like.")
    earlier = served.model.requests[-1].user_texts[:-1]
    assert not any(secret in json.dumps(earlier) for secret in (AWS, TOKEN, *BODY))
    stored = [path.read_bytes() for path in (servers.base / "home").rglob("*") if path.is_file()]
    assert any(thread.encode() in each for each in stored)
    assert not any(secret.encode() in each for each in stored for secret in (AWS, TOKEN, *BODY))


def test_known_shapes_of_secrets_in_findings_are_masked(serve, project):
    (project / "a.py").write_text("x = 1\n")
    finding = {"severity": "low", "category": "style", "file": "a.py", "line": 1}
    said = {"summary": AWS, "findings": [{**finding, "title": f"Uses {AWS}", "fix": f"Take {TOKEN}"}]}

    fields = serve(Say(json.dumps(said))).ask("codereview", files=["a.py"], context="?")

    assert (fields["findings"][0]["title"], fields["findings"][0]["fix"]) == ("Uses [secret]", "Take [secret]")
    assert not any(secret in json.dumps(fields) for secret in (AWS, TOKEN))


def test_a_link_that_leads_out_of_a_scanned_folder_is_reported(serve, project, tmp_path):
    (tmp_path / "outside.txt").write_text("out of bounds")
    (project / "in.py").write_text("inside = 1\n")
    (project / "src").mkdir()
    (project / "src" / "b.py").write_text("b = 1\n")
    (project / "src" / "link.py").symlink_to(tmp_path / "outside.txt")
    (project / "inner.py").symlink_to("in.py")

    fields = serve(Say("yes")).ask("analyze", files=["."], question="?")

    assert fields["skipped"] == [
        {"path": "src/link.py", "reason": "is a link that leads out of the workspace; links are not followed"}
    ]


def test_links_that_lead_out_are_listed_wherever_they_lie_in_a_folder(serve, project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "o.py").write_text(SOURCE)
    (project / "src/only_links/below").mkdir(parents=True)
    (project / "src/kept.py").write_text("x = 1\n")
    links = {
        "src/file.py": outside / "o.py",
        "src/folder": outside,
        "src/only_links/file.py": outside / "o.py",
        "src/only_links/below/folder": outside,
    }
    for name, target in links.items():
        (project / name).symlink_to(target)
    (project / "src/only_links/inside.py").symlink_to(project / "src/kept.py")
    (project / "src/build").mkdir()
    (project / "src/.gitignore").write_text("build/\n")
    (project / ".git").mkdir()
    (project / "src/build/made.py").write_text("y = 2\n")
    (project / "src/build/link.py").symlink_to(outside / "o.py")
    served = serve(Say("yes"))

    fields = served.ask("analyze", question="?", files=["src"])

    told = {each["path"]: each["reason"] for each in fields["skipped"] if "leads out" in each["reason"]}
    assert sorted(told) == sorted(links)
    assert TOKEN not in sent(served)


@pytest.mark.parametrize("name", ["file.py", "folder", "folder/o.py", "folder/"])
def test_a_link_that_leads_out_is_refused_where_it_is_named(serve, project, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "o.py").write_text(SOURCE)
    (project / "file.py").symlink_to(outside / "o.py")
    (project / "folder").symlink_to(outside)
    served = serve(Say("yes"))

    error = served.fault("analyze", question="?", files=[name])

    assert (error["data"]["kind"], name.rstrip("/") in error["message"]) == ("security", True)
    assert TOKEN not in sent(served)


def test_an_answer_about_an_outline_is_partial(fresh, project):
    (project / "big.py").write_text("".join(f"def function_{at}():\n    return {at}\n\n\n" for at in range(20_000)))
    served = fresh(Say("yes"), config={"limits": {"context_tokens": 20_000}})

    fields = served.ask("analyze", files=["big.py"], question="?")

    assert fields["skipped"][0]["reason"].startswith("shown as an outline")
    assert fields["status"] == "partial"
    assert "1 file is shown as an outline, not whole." in fields["metadata"]["notes"]
