"""Whatever a server sends as a schema: it compiles, it is a tool file, it can be run and called."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolyard.codemode.files import compile_server
from toolyard.core.upstream import ServerListing, ToolSchema

KEYWORDS = [
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$defs",
    "definitions",
    "enum",
    "const",
    "default",
    "additionalProperties",
    "patternProperties",
    "description",
    "title",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "nullable",
    "not",
    "if",
    "then",
    "self",
    "from",
    "a-b",
    "class",
    "str",
    "readOnly",
    "deprecated",
    "uniqueItems",
    "multipleOf",
]
WORDS = st.sampled_from(
    ["string", "object", "array", "integer", "null", "#", "#/$defs/from", "#/properties/self", "#/allOf/0", "#/", "x"]
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(alphabet=st.characters(), max_size=8)
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYWORDS), st.text(max_size=4)), inner, max_size=5),
    ),
    max_leaves=25,
)
objects = st.dictionaries(st.one_of(st.sampled_from(KEYWORDS), st.text(max_size=4)), json_values, max_size=7)
quick = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(json_values, json_values, json_values)
def test_any_json_as_schemas_gives_a_tool_file_that_runs(files, given_in, given_out, learnt):
    tool = ToolSchema("probe", "", given_in, given_out)  # type: ignore[arg-type]
    compiled = compile_server(ServerListing("server", (tool,)), {"probe": learnt})
    text = compiled.files["probe.py"]
    files.check_file(text)
    assert repr(files.run_file(text).probe) == "<tool server.probe>"
    json.loads(compiled.files["index.json"])


@quick
@given(objects, st.dictionaries(st.sampled_from(KEYWORDS), objects, max_size=4))
def test_any_object_as_a_schema_gives_a_tool_file_that_runs(files, schema, properties):
    tool = ToolSchema("probe", "", {**schema, "properties": properties}, {**schema, "properties": properties})
    text = compile_server(ServerListing("server", (tool,))).files["probe.py"]
    function = files.check_file(text)
    files.run_file(text)
    named = len(function.args.args) + len(function.args.kwonlyargs)
    assert named >= sum(1 for key in properties if properties[key] is not False)


@quick
@given(st.text(alphabet=st.characters(), max_size=200), st.text(alphabet=st.characters(), max_size=100))
def test_any_name_and_description_give_a_tool_file_that_runs(files, name, description):
    compiled = compile_server(ServerListing(name, (ToolSchema(name, description),), version=description))
    (tool,) = compiled.tools
    text = compiled.files[f"{tool.module}.py"]
    assert files.check_file(text).name == tool.function
    assert getattr(files.run_file(text), tool.function).name == name
    for name, text in compiled.files.items():
        name.encode()
        text.encode()


@quick
@given(st.dictionaries(st.text(alphabet=st.characters(), max_size=12), scalars, max_size=8), st.data())
async def test_any_arguments_arrive_as_they_were_given(files, arguments, data):
    from toolyard_runtime import calls
    from toolyard_runtime.results import Result

    needed = [key for key in arguments if data.draw(st.booleans())]
    schema = {"type": "object", "properties": dict.fromkeys(arguments, True), "required": needed}
    text, _ = files.compile_tool(schema)
    probe = files.run_file(text).probe
    by_key = {key: name for name, key in _names(text).items()}
    sent = []

    async def call(server, tool, given_arguments):
        sent.append(json.dumps(given_arguments))
        return Result()

    kept, calls.call_mcp_tool = calls.call_mcp_tool, call
    try:
        await probe(**{by_key[key]: value for key, value in arguments.items()})
    finally:
        calls.call_mcp_tool = kept
    assert sent == [json.dumps(arguments)]


def _names(text):
    """Parameter -> the key it is sent as, read from the file alone."""
    import ast

    function = ast.parse(text).body[-1]
    assert isinstance(function, ast.AsyncFunctionDef)
    (decorator,) = function.decorator_list
    assert isinstance(decorator, ast.Call)
    renamed = ast.literal_eval(decorator.args[2]) if len(decorator.args) > 2 else {}
    every = [*function.args.args, *function.args.kwonlyargs]
    return {one.arg: renamed.get(one.arg, one.arg) for one in every}
