"""Files on their way to the model: inside the project alone, newest version once, within limits."""

import json
import os

import pytest

from toolyard.testing.mock_model import Say


def test_the_model_sees_named_files_with_line_numbers(serve, project):
    (project / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    served = serve(Say("It sums."))

    fields = served.ask("analyze", files=["cart.py"], question="What does it do?")

    assert fields["files_processed"] == ["cart.py"]
    asked = served.model.requests[-1].user_texts[-1]
    assert "2|     return sum(items)" in asked
    assert asked.index("cart.py") < asked.index("What does it do?")


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/etc/passwd", "../outside.txt", "sub/../../outside.txt", "link.txt", "linked/x"]
)
@pytest.mark.parametrize("tool", ["analyze", "codereview", "thinkdeep", "debug"])
def test_nothing_outside_the_project_reaches_the_model(serve, project, tmp_path, tool, path):
    (tmp_path / "outside.txt").write_text("out of bounds")
    (project / "link.txt").symlink_to(tmp_path / "outside.txt")
    (project / "linked").symlink_to(tmp_path)
    served = serve(Say("yes"))
    words = {
        "analyze": {"question": "?"},
        "codereview": {"context": "?"},
        "thinkdeep": {"current_analysis": "?"},
        "debug": {"error_description": "?"},
    }

    fault = served.fault(tool, files=[path], **words[tool])

    assert fault["code"] == -32001
    assert [each["field"] for each in fault["data"]["validation_errors"]] == ["files"]
    assert "plan mode" not in json.dumps(fault)
    assert served.model.requests == []


def test_every_wrong_name_is_told_and_one_outside_makes_it_a_matter_of_security(serve, project):
    (project / "a.py").write_text("x = 1\n")

    fault = serve(Say("yes")).fault("analyze", files=["a.py", "/etc/passwd", "nope.py"], question="?")

    assert fault["code"] == -32001
    told = [each["error"] for each in fault["data"]["validation_errors"]]
    assert [error.split()[0] for error in told] == ["/etc/passwd", "nope.py"]
    assert "outside the project" in told[0]
    assert "inside the project" in fault["data"]["hint"]


def test_a_repository_outside_the_project_is_told_alike(serve, project):
    fault = serve(Say("yes")).fault("precommit", path="/etc")

    assert fault["code"] == -32001
    assert fault["data"]["validation_errors"] == [
        {"field": "path", "error": f"/etc lies outside the project {project}"},
    ]
    assert "plan mode" not in json.dumps(fault)


def test_links_that_lead_out_of_a_scanned_folder_are_not_followed(serve, project, tmp_path):
    (tmp_path / "outside.txt").write_text("out of bounds")
    (project / "in.py").write_text("inside = 1\n")
    (project / "link.py").symlink_to(tmp_path / "outside.txt")
    served = serve(Say("yes"))

    served.ask("analyze", files=["."], question="?")

    assert "out of bounds" not in served.model.requests[-1].user_texts[-1]
    assert "inside = 1" in served.model.requests[-1].user_texts[-1]


def test_files_for_secrets_are_sent_only_when_they_are_named_and_then_masked(serve, project):
    (project / "app.py").write_text("run()\n")
    (project / ".env").write_text("COLOUR=hunter-green\nPASSWORD=Tr0ub4dor-3-x\nADMIN_PASSWORD=troubadour\n")
    (project / "deploy.pem").write_text("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n")
    served = serve(Say("yes"))

    scanned = served.ask("analyze", files=["."], question="?")

    assert "hunter-green" not in served.model.requests[-1].user_texts[-1]
    assert {each["path"] for each in scanned["skipped"]} == {".env", "deploy.pem"}
    assert all(each["reason"] for each in scanned["skipped"])

    named = served.ask("analyze", files=[".env"], question="?")

    assert named["files_processed"] == [".env"]
    asked = served.model.requests[-1].user_texts[-1]
    assert "1| COLOUR=hunter-green\n2| PASSWORD=[secret]\n3| ADMIN_PASSWORD=[secret]\n" in asked
    assert "Tr0ub4dor" not in asked


def test_what_git_ignores_is_not_scanned_and_source_comes_before_docs_and_logs(serve, project):
    (project / ".gitignore").write_text("build/\n")
    (project / "build").mkdir()
    (project / "build" / "out.py").write_text("built = 1\n")
    (project / "a.log").write_text("log line\n")
    (project / "b.md").write_text("# doc line\n")
    (project / "c.py").write_text("source = 1\n")
    served = serve(Say("yes"))

    served.ask("thinkdeep", files=["."], current_analysis="?")

    asked = served.model.requests[-1].user_texts[-1]
    assert "built = 1" not in asked
    assert asked.index("source = 1") < asked.index("doc line") < asked.index("log line")


def test_a_file_appears_once_in_its_newest_version(serve, project):
    (project / "a.py").write_text("def version():\n    return 'first'\n")
    (project / "b.py").write_text("def other():\n    return 'kept'\n")
    served = serve(Say("yes"))
    thread = served.ask("analyze", files=["a.py", "b.py"], question="one?")["continuation_id"]
    served.ask("chat", prompt="two?", continuation_id=thread)
    unchanged = "\n".join(served.model.requests[-1].user_texts)

    (project / "a.py").write_text("def version():\n    return 'second'\n")
    served.ask("chat", prompt="three?", continuation_id=thread)
    changed = "\n".join(served.model.requests[-1].user_texts)
    served.ask("analyze", files=["a.py"], question="four?", continuation_id=thread)
    named = "\n".join(served.model.requests[-1].user_texts)

    assert unchanged.count("return 'first'") == unchanged.count("return 'kept'") == 1
    assert (changed.count("return 'first'"), changed.count("return 'second'")) == (0, 1)
    assert (named.count("return 'first'"), named.count("return 'second'")) == (0, 1)
    assert named.count("return 'kept'") == 1


def test_a_file_that_is_gone_since_is_told(serve, project):
    (project / "a.py").write_text("here = 1\n")
    served = serve(Say("yes"))
    thread = served.ask("thinkdeep", files=["a.py"], current_analysis="?")["continuation_id"]
    (project / "a.py").unlink()

    fields = served.ask("chat", prompt="and now?", continuation_id=thread)

    assert [each["path"] for each in fields["skipped"]] == ["a.py"]
    assert "here = 1" not in "\n".join(served.model.requests[-1].user_texts)


def test_what_does_not_fit_becomes_an_outline(fresh, project):
    body = "\n".join(f"    value_{number} = {number} * len(str({number}))" for number in range(2_000))
    (project / "large.py").write_text(f"def enormous(argument):\n{body}\n")
    (project / "small.py").write_text("def tiny():\n    return 'all of it'\n")
    served = fresh(Say("yes"), config={"limits": {"context_tokens": 8_000}})

    fields = served.ask("thinkdeep", files=["small.py", "large.py"], current_analysis="?")

    asked = served.model.requests[-1].user_texts[-1]
    assert "all of it" in asked
    assert "enormous" in asked
    assert "value_1999" not in asked
    assert [each["path"] for each in fields["skipped"]] == ["large.py"]
    assert "outline" in fields["skipped"][0]["reason"]


def test_limits_are_held_before_anything_is_sent(serve, project):
    (project / "big.txt").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    served = serve(Say("yes"))

    large = served.fault("analyze", files=["big.txt"], question="?")
    many = served.fault("analyze", files=[f"f{number}.py" for number in range(51)], question="?")
    missing = served.fault("analyze", files=["nowhere.py"], question="?")
    long = served.fault("chat", prompt="word " * 1_000_000)

    assert [fault["code"] for fault in (large, many, missing, long)] == [-32602] * 4
    assert {fault["data"]["validation_errors"][0]["field"].split(".")[0] for fault in (large, many, missing)} == {
        "files"
    }
    assert long["data"]["validation_errors"][0]["field"] == "prompt"
    assert served.model.requests == []


def test_a_pipe_stalls_nobody(serve, project):
    os.mkfifo(project / "pipe")
    (project / "a.py").write_text("x = 1\n")
    served = serve(Say("yes"))

    assert served.fault("analyze", files=["pipe"], question="?")["code"] in {-32001, -32602}
    served.ask("analyze", files=["."], question="?")


def test_files_that_a_rule_hides_stay_hidden_when_they_are_named(fresh, project, tmp_path):
    (project / "customers").mkdir()
    (project / "customers" / "list.txt").write_text("Ada\n")
    config = tmp_path / "rules.yaml"
    config.write_text('permissions: {deny: ["Read(customers/**)"]}\n')
    served = fresh(Say("yes"), "--config", str(config))

    fault = served.fault("analyze", files=["customers/list.txt"], question="?")

    assert fault["code"] == -32001
