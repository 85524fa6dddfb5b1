"""What a server may read of its client's project, as the server's author or its operator says it."""

import dataclasses
import logging

import pytest

from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.policy import DEFAULT_ALLOWED_PATHS, SecurityPolicy
from toolyard.config.models import Config
from toolyard.core.errors import ConfigError


def test_default_allowed_paths():
    assert DEFAULT_ALLOWED_PATHS == ("docs/", "src/", "tests/", ".guide/", ".todo/")
    assert SecurityPolicy().allowed_paths == ("docs", "src", "tests", ".guide", ".todo")
    assert SecurityPolicy("/p").allowed_paths == ("/p/docs", "/p/src", "/p/tests", "/p/.guide", "/p/.todo")


@pytest.mark.parametrize(
    ("root", "given", "normal"),
    [
        ("/p", ["docs/", "./src//lib/", "a/../b"], ("/p/docs", "/p/src/lib", "/p/b")),
        ("/p", ["."], ("/p",)),
        ("/p", ["docs/.."], ("/p",)),
        ("/p", ["/p/docs", "docs"], ("/p/docs",)),
        ("/p", ["docs/api", "docs", "docs/guide"], ("/p/docs",)),
        ("/p", ["docs", "docs2"], ("/p/docs", "/p/docs2")),
        ("/p", ["src", ".", "docs"], ("/p",)),
        ("/p", ["/srv/common/", "src"], ("/srv/common", "/p/src")),
        ("/p", ["/srv/../opt"], ("/opt",)),
        ("/p", [], ()),
        ("/", ["etc"], ("/etc",)),
        ("/", ["."], ("/",)),
        ("C:\\p", ["docs/", "src\\lib", "SRC"], ("C:\\p\\docs", "C:\\p\\SRC")),
        ("C:\\p", ["d:/common"], ("D:\\common",)),
        ("C:\\p", ["\\\\server\\share\\x\\"], ("\\\\server\\share\\x",)),
        ("\\\\server\\share", ["docs"], ("\\\\server\\share\\docs",)),
        (None, ["./docs/", "a/b/..", "a"], ("docs", "a")),
        (None, ["."], (".",)),
        (None, [], ()),
    ],
)
def test_path_normalization(root, given, normal):
    assert SecurityPolicy(root, given).allowed_paths == normal


@pytest.mark.parametrize(
    ("root", "normal"),
    [
        ("/home/me/project/", "/home/me/project"),
        ("//home/me/./x/../project", "/home/me/project"),
        ("/", "/"),
        ("c:/Users/me/", "C:\\Users\\me"),
        ("C:\\", "C:\\"),
        ("\\\\server\\share\\", "\\\\server\\share\\"),
        (None, None),
    ],
)
def test_the_root_is_normal_once_it_is_known(root, normal):
    assert SecurityPolicy(root).project_root == normal


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ("project", "is not absolute"),
        ("./project", "is not absolute"),
        ("C:project", "is not absolute"),
        ("\\project", "is not absolute"),
        ("", "is not absolute"),
        (3, "is not absolute"),
        ("/..", "climbs out of its disk"),
        ("/a\\b", "backslash"),
        ("\\\\?\\C:\\x", "bypasses Windows path rules"),
        ("/a\u202eb", "is invisible"),
        ("C:\\aux", "name of a device"),
    ],
)
def test_a_root_that_cannot_be_one_is_an_error(root, said):
    with pytest.raises(ConfigError, match=said):
        SecurityPolicy(root)


@pytest.mark.parametrize(
    ("root", "given", "said"),
    [
        ("/p", ["../common"], r"climbs out of the project\. Write it as an absolute path"),
        ("/p", ["docs/../../x"], "climbs out of the project"),
        ("/p", ["../../../.."], "climbs out of the project"),
        ("/p", ["C:/../../x"], "climbs out of the project"),
        ("C:\\p", ["..\\common"], "climbs out of the project"),
        (None, ["../common"], "climbs out of the project"),
        ("/p", ["/../x"], "climbs out of its disk"),
        ("/p", ["C:\\common"], "backslash"),
        ("C:\\p", ["/common"], "is absolute, but does not name its drive"),
        (None, ["src\\lib"], "backslash"),
        ("/p", ["a\u200bb"], "is invisible"),
        ("/p", [""], "is empty"),
        ("/p", [3], "must be a string"),
        ("/p", "src", r'Give a list: \["src"\]'),
    ],
)
def test_allowed_paths_that_cannot_be_meant_are_errors(root, given, said):
    with pytest.raises(ConfigError, match=said):
        SecurityPolicy(root, given)


def test_what_the_operator_allows_outside_of_the_project_is_allowed():
    policy = SecurityPolicy("/p", ["src", "/srv/common"])
    validator = PathValidator(policy)
    assert validator.validate("/srv/common/x") == validator.validate("../srv/common/x") == "/srv/common/x"
    assert policy.relative("/srv/common/x") == "/srv/common/x"
    assert not validator.is_allowed("/srv/x")


def test_an_absolute_path_waits_for_the_root():
    unrooted = SecurityPolicy(None, ["src", "/srv/common"])
    assert unrooted.allowed_paths == ("src",)
    assert not PathValidator(unrooted).is_allowed("/srv/common/x")
    assert unrooted.rooted_at("/p").allowed_paths == ("/p/src", "/srv/common")
    assert unrooted != SecurityPolicy(None, ["src"])


def test_a_root_that_has_become_known_changes_nothing_else():
    asked = []
    policy = SecurityPolicy(None, ["src", "docs"], folders_exist=lambda path: asked.append(path) or True)
    assert asked == []
    rooted = policy.rooted_at("C:\\p")
    assert rooted == SecurityPolicy("C:\\p", ["src", "docs"])
    assert asked == ["C:\\p\\src", "C:\\p\\docs"]
    assert rooted.rooted_at("/q").allowed_paths == ("/q/src", "/q/docs")
    assert policy.project_root is None
    with pytest.raises(ConfigError):
        policy.rooted_at("p")


def test_missing_folders_are_warned_of(caplog):
    with caplog.at_level(logging.WARNING, logger="toolyard.bridge"):
        policy = SecurityPolicy("/p", ["src", "docs", "lib"], folders_exist=lambda path: path == "/p/src")
    assert policy.missing == ("/p/docs", "/p/lib")
    assert [record.message.split()[0] for record in caplog.records] == ["/p/docs", "/p/lib"]
    assert {record.name for record in caplog.records} == {"toolyard.bridge"}
    assert policy.allowed_paths == ("/p/src", "/p/docs", "/p/lib")


def test_nobody_is_warned_where_nobody_can_tell(caplog):
    assert SecurityPolicy("/p").missing == SecurityPolicy(folders_exist=lambda _: False).missing == ()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("root", "path", "shown"),
    [
        ("/p", "/p/src/a b.py", "src/a b.py"),
        ("/p", "/p", "."),
        ("/", "/etc/x", "etc/x"),
        ("C:\\p", "C:\\p\\src\\a.py", "src/a.py"),
        ("C:\\p", "c:\\P\\src\\A.py", "src/A.py"),
        ("C:\\p", "D:\\common\\x", "D:/common/x"),
        (None, "src/a.py", "src/a.py"),
        (None, ".", "."),
    ],
)
def test_people_are_shown_paths_from_the_root(root, path, shown):
    assert SecurityPolicy(root).relative(path) == shown


def test_policies_that_mean_the_same_are_equal():
    policy = SecurityPolicy("/p", ["docs/", "src"])
    same = SecurityPolicy("/p/", ["docs", "src/", "src/x"], folders_exist=lambda _: True)
    assert policy == same
    assert len({policy, same, SecurityPolicy("/q", ["docs/", "src"])}) == 2
    assert repr(policy) == "SecurityPolicy(project_root='/p', allowed_paths=('/p/docs', '/p/src'))"


def test_a_policy_cannot_be_changed():
    policy = SecurityPolicy("/p")
    for name in ("project_root", "allowed_paths", "missing"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(policy, name, ("/",))


def test_project_specific_allowed_paths(tmp_path, caplog):
    path = tmp_path / "toolyard.yaml"
    path.write_text("filesystem: {allowed_paths: [lib/, ./docs]}\n")
    policy = SecurityPolicy.from_file(str(path), "/p", folders_exist=lambda path: path != "/p/lib")
    assert policy.allowed_paths == ("/p/lib", "/p/docs")
    assert policy.missing == ("/p/lib",)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert SecurityPolicy.from_file(str(path)).allowed_paths == ("lib", "docs")


def test_a_configuration_without_the_section_means_the_defaults():
    assert SecurityPolicy.from_config(Config(), "/p") == SecurityPolicy("/p")


def test_an_error_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "toolyard.yaml"
    path.write_text("filesystem: {allowed_paths: [../common]}\n")
    with pytest.raises(ConfigError) as raised:
        SecurityPolicy.from_file(str(path), "/p")
    assert raised.value.where == str(path)
    with pytest.raises(ConfigError, match="the project root p is not absolute") as raised:
        SecurityPolicy.from_file(str(path), "p")
    assert raised.value.where == ""
