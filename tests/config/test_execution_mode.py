from __future__ import annotations

import pytest

from toolyard.config.execution_mode import check_execution_mode
from toolyard.config.loader import load_config
from toolyard.config.models import Config, ToolyardSection
from toolyard.core.errors import ConfigError


@pytest.mark.parametrize("key", ["massgen", "toolyard"])
def test_tools_as_files_without_code_execution_are_refused_with_the_line_and_the_way_out(tmp_path, key):
    path = tmp_path / "toolyard.yaml"
    path.write_text(f"{key}:\n  execution_mode: filesystem_first\n  code_execution:\n    enabled: false\n")
    with pytest.raises(ConfigError) as caught:
        check_execution_mode(load_config(str(path), env={}))
    assert caught.value.where == f"{path}:4"
    assert "filesystem_first` needs code execution: in this mode the servers' tools are files" in caught.value.message
    assert "`execution_mode: context_based`" in caught.value.hint


def test_it_is_refused_where_there_is_no_file_to_name():
    section = ToolyardSection.model_validate(
        {"execution_mode": "filesystem_first", "code_execution": {"enabled": False}}
    )
    with pytest.raises(ConfigError, match="needs code execution"):
        check_execution_mode(Config(toolyard=section))


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"execution_mode": "filesystem_first"},
        {"execution_mode": "filesystem_first", "code_execution": {"enabled": True, "mode": "docker"}},
        {"execution_mode": "context_based", "code_execution": {"enabled": False}},
    ],
)
def test_every_other_mode_may_start(section):
    check_execution_mode(Config.model_validate({"toolyard": section}))
