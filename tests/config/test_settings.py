from __future__ import annotations

from toolyard.config.settings import Settings


def test_settings_come_from_the_given_variables():
    env = {
        "HOME": "/home/ada",
        "XDG_STATE_HOME": "/var/state",
        "XDG_CONFIG_HOME": "/etc/own",
        "XDG_RUNTIME_DIR": "/run/user/7",
        "TMPDIR": "/scratch/",
        "XDG_DOCUMENTS_DIR": "/home/ada/Papers",
        "TOOLYARD_TOKEN": "hush",
        "NO_COLOR": "1",
        "USER": "ada",
        "LANG": "de_DE.UTF-8",
        "TERM": "xterm",
    }
    assert Settings.from_environment(env) == Settings(
        home="/home/ada",
        state_home="/var/state/toolyard",
        config_home="/etc/own/toolyard",
        temp_dir="/scratch",
        documents="/home/ada/Papers",
        runtime_dir="/run/user/7",
        token="hush",
        no_color=True,
        container_client={"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/own", "XDG_RUNTIME_DIR": "/run/user/7"},
        user_environment={"USER": "ada", "LANG": "de_DE.UTF-8", "TERM": "xterm"},
    )


def test_settings_fall_back_to_the_usual_folders():
    assert Settings.from_environment({"HOME": "/home/ada"}) == Settings(
        home="/home/ada",
        state_home="/home/ada/.local/state/toolyard",
        config_home="/home/ada/.config/toolyard",
        temp_dir="/tmp",
        documents="/home/ada/Documents",
        container_client={"HOME": "/home/ada"},
    )


def test_a_relative_state_folder_is_ignored():
    settings = Settings.from_environment({"HOME": "/home/ada", "XDG_STATE_HOME": "here", "TMPDIR": "there"})
    assert (settings.state_home, settings.temp_dir) == ("/home/ada/.local/state/toolyard", "/tmp")


def test_the_token_is_not_in_the_repr():
    assert "hush" not in repr(Settings.from_environment({"HOME": "/h", "TOOLYARD_TOKEN": "hush"}))


def test_without_variables_the_process_is_asked(monkeypatch):
    monkeypatch.setenv("TOOLYARD_TOKEN", "from-process")
    assert Settings.from_environment().token == "from-process"


def test_the_assistants_model_and_folder_may_be_named_by_variables(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_environment({"HOME": "/h", "TOOLYARD_MODEL": " openai:gpt-5 ", "PROJECT_ROOT": "app"})
    assert (settings.model, settings.project_root) == ("openai:gpt-5", str(tmp_path / "app"))


def test_variables_that_are_set_to_nothing_name_no_model_and_no_folder():
    settings = Settings.from_environment({"HOME": "/h", "TOOLYARD_MODEL": " ", "PROJECT_ROOT": ""})
    assert (settings.model, settings.project_root) == (None, None)
