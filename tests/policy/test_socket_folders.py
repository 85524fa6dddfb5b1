"""A writable context path is no folder that other programs put sockets into."""

import pytest

from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError
from toolyard.policy.builder import policy_for

SETTINGS = Settings(
    "/home/ada", "/home/ada/.local/state/toolyard", "/scratch", "/home/ada/Documents", runtime_dir="/run/user/7"
)


def build(path, permission):
    config = Config.model_validate({"orchestrator": {"context_paths": [{"path": path, "permission": permission}]}})
    return policy_for(config, SETTINGS, "/work/ws", resolve=lambda path: path.replace("/var/run", "/run"))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/tmp", "is /tmp"),
        ("/var/tmp", "is /var/tmp"),
        ("/scratch", "is /scratch"),
        ("/", "contains /tmp"),
        ("/var", "contains /var/tmp"),
        ("/run", "is /run"),
        ("/var/run/docker", "is inside /var/run"),
        ("/run/user/7", "is /run/user/7"),
        ("/run/user/7/project", "is inside /run"),
        ("/tmp/tmux-1000", "is /tmp/tmux-1000"),
        ("/tmp/ssh-XXXX1234/deeper", "is inside /tmp/ssh-XXXX1234"),
        ("~/.ssh", "is /home/ada/.ssh"),
        ("~/.gnupg/private", "is inside /home/ada/.gnupg"),
        ("~", "contains /home/ada/.ssh"),
    ],
)
def test_a_folder_of_sockets_cannot_be_a_writable_context_path(path, why):
    with pytest.raises(ConfigError) as refused:
        build(path, "write")
    assert f"cannot be writable: it {why}, where other programs put their sockets" in refused.value.message
    assert "permission: read" in refused.value.hint
    assert build(path, "read").context[0].path


@pytest.mark.parametrize("path", ["/tmp/project", "/scratch/data", "/tmp/sshd", "/srv/data", "~/project", "/runs"])
def test_other_folders_can(path):
    assert build(path, "write").context[0].path
