from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.config import test_source_documents as written
from tests.docs.test_docs_run import PAGES, blocks
from toolyard.config.backends import BACKENDS, backend_kind
from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.config.schema import config_schema, schema_text
from toolyard.core.errors import ConfigError

PUBLISHED = Path(__file__).parents[2] / "docs/toolyard.schema.json"
CONFIGURATION_PAGES = (
    *("configuration", "backends", "server-entries", "tool-access", "tool-lists", "custom-tools"),
    *("sandbox", "file-operations", "permissions"),
)
SCHEMA = config_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

EXAMPLES = {f"{page.name}:{number}": text for page in PAGES for number, text in enumerate(blocks(page, "yaml"))}
EXAMPLES |= {name: text for name, text in vars(written).items() if name.isupper() and isinstance(text, str)}


def problems(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(yaml.safe_load(text))]


def test_what_is_published_is_what_the_model_says():
    assert PUBLISHED.read_text() == schema_text(), "run `toolyard init --schema > docs/toolyard.schema.json`"


def test_it_is_a_schema_itself():
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_every_example_is_valid(example):
    assert problems(EXAMPLES[example]) == []


ACCEPTED = [
    "toolyard:\nagents:\nui:\n",
    "agent: {id: a}\n",
    "massgen: {workspace: w}\n",
    "agents: [{id: a, backend: {type: '${TYPE:-gemini}', temperature: '${T:-0.2}', thinking: off}}]\n",
    "agent: {backend: {type: anthropic, mcp_servers: [github, {name: x, command: [npx, -y], args: [80]}]}}\n",
    "available_mcp_servers: '*'\n",
    "available_mcp_servers: {github: , x: {httpUrl: 'https://x', headers: {A: 1}, oauth: true}}\n",
    "available_mcp_servers: [{name: x, serverUrl: 'https://x', type: http, enabled: false}]\n",
    "available_mcp_servers: [{name: x}]\n",
    "toolyard: {code_execution: {env: {A: 1, B: c}, enabled: '${ON:-true}'}}\n",
    "toolyard: {available_custom_tools: web.screenshot}\n",
    "ui: {display_type: '${DISPLAY:-simple}'}\n",
    "orchestrator: {limits: {rounds: 2, cost: 0.5}, context_paths: [{path: ../x, permission: write}]}\n",
    "tracing: {endpoint: 'http://localhost:4318', headers: {a: b}}\n",
]
REFUSED = [
    "agnts: []\n",
    "agents: [{id: a, backend: {modle: x}}]\n",
    "agents: [{id: a, backend: {type: gemni}}]\n",
    "agents: [{id: a, backend: {thinking: hihg}}]\n",
    "agents: [{id: 'a b'}]\n",
    "agents: {id: a}\n",
    "toolyard: {code_execution: {enabeld: false}}\n",
    "toolyard: {execution_mode: files_first}\n",
    "toolyard: {in_context_tools: {filesystem: all}}\n",
    "available_mcp_servers: [{command: npx}]\n",
    "available_mcp_servers: [{name: x, comand: npx}]\n",
    "orchestrator: {limits: {rounds: 0}}\n",
    "toolyard: {}\nmassgen: {}\n",
    "agents: []\nagent: {}\n",
    "ui: {display_type: rich}\n",
    "source: /etc/passwd\n",
    "available_mcp_servers: [{name: x, command: y, origin: z}]\n",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_loads_is_valid(tmp_path, text):
    path = tmp_path / "toolyard.yaml"
    path.write_text(text)
    load_config(str(path), env={})
    assert problems(text) == []


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_load_is_underlined(tmp_path, text):
    path = tmp_path / "toolyard.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load_config(str(path), env={})
    assert problems(text) != []


@pytest.mark.parametrize(
    "spelled",
    [
        *("claude-code", "claudecode", "gemini-cli", "qwen-code", "llama-cpp", "llama_cpp", "lm-studio"),
        *("openai_compatible", "anthropic", "google"),
    ],
)
def test_a_type_is_valid_however_its_words_are_joined(spelled):
    assert backend_kind(spelled) is not None
    assert problems(f"agents: [{{id: a, backend: {{type: {spelled}}}}}]\n") == []


def test_every_type_that_is_valid_loads():
    (words, _variable), _none = (
        part.get("anyOf", part) for part in SCHEMA["$defs"]["Backend"]["properties"]["type"]["anyOf"]
    )
    assert [word for word in words["enum"] if backend_kind(word) is None] == []
    assert list(BACKENDS) == words["enum"][: len(BACKENDS)]  # what editors offer first


def test_both_spellings_of_the_sections_are_there():
    assert set(SCHEMA["properties"]) == set(Config.keys_of_file())
    assert SCHEMA["properties"]["massgen"]["anyOf"] == SCHEMA["properties"]["toolyard"]["anyOf"]


def test_keys_are_described_as_their_sources_describe_them():
    keys = SCHEMA["$defs"]["Backend"]["properties"]
    assert keys["fresh"]["description"] == "Start with an empty `cwd`; a snapshot of its content is taken first."
    assert SCHEMA["properties"]["ui"]["description"] == "How a run is displayed."
    assert SCHEMA["properties"]["agents"]["description"] == "The agents, each with a unique `id`."


def test_it_says_nothing_of_the_insides():
    assert "source" not in SCHEMA["properties"]
    assert not {"origin", "base"} & set(SCHEMA["$defs"]["ServerEntry"]["properties"])
    assert "core.limits" not in json.dumps(SCHEMA)


def test_the_reference_names_every_key():
    page = "".join((PUBLISHED.parent / f"{name}.md").read_text() for name in CONFIGURATION_PAGES)
    missing = [
        f"{section}.{key}"
        for section, node in {"": SCHEMA, **SCHEMA["$defs"]}.items()
        for key, shape in node.get("properties", {}).items()
        if "Another spelling" not in shape.get("description", "") and not re.search(rf"\b{key}\b", page)
    ]
    assert missing == []


def test_the_reference_names_every_backend():
    page = (PUBLISHED.parent / "backends.md").read_text()
    rows = page.partition("| `type` | speaks to |")[2].partition("\n\n")[0].splitlines()[2:]
    assert sorted(name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])) == sorted(BACKENDS)
    by_name = {re.findall(r"`([^`]+)`", row)[0]: row for row in rows}
    for name, row in by_name.items():
        kind = BACKENDS[name]
        for said in (*kind.key_variables, kind.base_url_variable, kind.base_url, kind.default_model):
            assert not said or f"`{said}`" in row
