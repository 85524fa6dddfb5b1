"""`filesystem` in the configuration file."""

import pytest

from toolyard.config.filesystem import DEFAULT_ALLOWED_PATHS, Filesystem
from toolyard.config.loader import load_config
from toolyard.core.errors import ConfigError


@pytest.fixture
def loaded(tmp_path):
    def load(text):
        path = tmp_path / "toolyard.yaml"
        path.write_text(text)
        return load_config(str(path), env={"SHARED": "/srv/shared"}).filesystem

    return load


@pytest.mark.parametrize("text", ["", "ui:\n", "filesystem:\n", "filesystem: {}\n"])
def test_without_a_word_five_folders_are_allowed(loaded, text):
    assert loaded(text) == Filesystem(allowed_paths=("docs/", "src/", "tests/", ".guide/", ".todo/"))
    assert Filesystem().allowed_paths == DEFAULT_ALLOWED_PATHS


def test_paths_are_kept_as_they_are_written(loaded):
    text = "filesystem: {allowed_paths: [lib, ./src/, 'C:\\Users\\me', '${SHARED}/docs']}\n"
    assert loaded(text).allowed_paths == ("lib", "./src/", "C:\\Users\\me", "/srv/shared/docs")


def test_an_empty_list_is_not_the_default(loaded):
    assert loaded("filesystem: {allowed_paths: []}\n").allowed_paths == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("filesystem: {allowed_path: [src]}\n", 'Did you mean "allowed_paths"'),
        ("filesytem: {allowed_paths: [src]}\n", 'Did you mean "filesystem"'),
        ("allowed_paths: [src]\n", 'Did you mean "filesystem.allowed_paths"'),
        ("filesystem: {allowed_paths: src}\n", "expected a list, found text"),
        ("filesystem: {allowed_paths: [3]}\n", "expected a string"),
        ("filesystem: {allowed_paths: ['']}\n", "expected text that is not empty"),
        ("filesystem: [src]\n", "expected a mapping"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_what_was(loaded, text, said):
    with pytest.raises(ConfigError, match=said) as raised:
        loaded(text)
    assert raised.value.where.endswith("toolyard.yaml:1")
