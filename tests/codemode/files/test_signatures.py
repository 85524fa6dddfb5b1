"""What a schema becomes: the signature, the types and the docstring of its tool file."""

import ast
import inspect

import pytest


def object_of(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def signature_of(files, schema, **more):
    text, tool = files.compile_tool(schema, **more)
    files.check_file(text)
    return tool.signature


def types_of(files, schema, **more):
    """The lines of a file that define types."""
    text, _ = files.compile_tool(schema, **more)
    files.check_file(text)
    head = text.partition("@tool")[0].split("\n")
    return [line for line in head if line and not line.startswith("from ")]


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({}, "Any"),
        (True, "Any"),
        ({"description": "no type"}, "Any"),
        ({"type": "unheard-of"}, "Any"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"type": ["integer", "number"]}, "float"),
        ({"enum": ["a", "b", "a"]}, 'Literal["a", "b"]'),
        ({"type": "string", "enum": ["it's", 'say "x"']}, 'Literal["it\'s", \'say "x"\']'),
        ({"enum": ["a", 1, True, None]}, 'Literal["a", 1, True] | None'),
        ({"enum": [1.5, 2]}, "Literal[2] | float"),
        ({"enum": [{"a": 1}, [1]]}, "dict[str, Any] | list[Any]"),
        ({"enum": []}, "Any"),
        ({"const": "fixed"}, 'Literal["fixed"]'),
        ({"const": -1}, "Literal[-1]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"type": "array", "items": {"enum": ["x"]}}, 'list[Literal["x"]]'),
        ({"items": {"type": "integer"}}, "list[int]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "tuple[str, int]"),
        ({"type": "array", "items": [{"type": "number"}, {"type": "number"}]}, "tuple[float, float]"),
        (
            {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
            "list[str | int]",
        ),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "patternProperties": {"^x": {"type": "string"}}}, "dict[str, str]"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "str | int"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"anyOf": [{"enum": ["a"]}, {"const": "b"}, {"type": "null"}]}, 'Literal["a", "b"] | None'),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "str"),
        ({"type": "string", "anyOf": [{"format": "uri"}, {"pattern": "x"}]}, "str"),
        ({"$ref": "#/$defs/Kind"}, 'Literal["k"]'),
        ({"$ref": "#/definitions/a~1b%20c"}, "int"),
        ({"$ref": "#/properties/other"}, "bool"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"$ref": "https://elsewhere.example/schema.json"}, "Any"),
        ({"$ref": "#/$defs/Loop"}, "Any"),
    ],
)
def test_a_schema_is_written_as(files, schema, written):
    root = {
        **object_of(["value"], value=schema, other={"type": "boolean"}),
        "$defs": {"Kind": {"enum": ["k"]}, "Loop": {"$ref": "#/$defs/Loop"}},
        "definitions": {"a/b c": {"type": "integer"}},
    }
    assert signature_of(files, root) == f"probe(value: {written}, *, other: bool = ...) -> Result"


def test_required_parameters_come_first_in_the_order_of_the_schema(files):
    schema = object_of(["c", "a"], a={"type": "string"}, b={"type": "string"}, c={"type": "string"})
    assert signature_of(files, schema) == "probe(a: str, c: str, *, b: str = ...) -> Result"


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        ({"type": "string", "default": "utf-8"}, '"utf-8"'),
        ({"type": "integer", "default": 3}, "3"),
        ({"type": "number", "default": 3}, "3"),
        ({"type": "boolean", "default": False}, "False"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, "None"),
        ({"enum": ["a", "b"], "default": "b"}, '"b"'),
        ({"type": "array", "default": []}, "[]"),
        ({"type": "object", "default": {}}, "{}"),
        # Not of their own type: said in words, not in the signature.
        ({"type": "string", "default": None}, "..."),
        ({"type": "string", "default": 5}, "..."),
        ({"type": "integer", "default": True}, "..."),
        ({"type": "integer", "default": 1.5}, "..."),
        ({"type": "boolean", "default": 1}, "..."),
        ({"enum": ["a"], "default": "z"}, "..."),
        ({"enum": [1], "default": True}, "..."),
        ({"type": "array", "default": {}}, "..."),
        ({"type": "array", "default": ["x"]}, "..."),
        ({"type": "string", "default": "x" * 5_000}, "..."),
        ({"type": "number", "default": float("inf")}, "..."),
    ],
)
def test_a_default_is_shown_where_its_type_takes_it(files, schema, default):
    assert signature_of(files, object_of(value=schema)).endswith(f" = {default}) -> Result")


def test_a_default_that_cannot_be_shown_is_told(files):
    text, _ = files.compile_tool(object_of(value={"type": "array", "default": ["x"], "description": "Which."}))
    assert '        value: Which. (default ["x"])' in text


def test_a_required_parameter_has_no_default(files):
    assert signature_of(files, object_of(["x"], x={"type": "integer", "default": 5})) == "probe(x: int) -> Result"


def test_nested_objects_are_typed_dicts(files):
    inner = object_of(
        ["oldText"], oldText={"type": "string", "description": "What\nto find"}, all={"type": "boolean"}
    )
    assert types_of(files, object_of(["edits"], edits={"type": "array", "items": inner})) == [
        "class EditsItem(TypedDict):",
        "    oldText: str  # What to find",
        "    all: NotRequired[bool]",
    ]


def test_an_object_of_options_alone_is_not_total(files):
    assert types_of(files, object_of(box=object_of(x={"type": "number"}))) == [
        "class Box(TypedDict, total=False):",
        "    x: float",
    ]


@pytest.mark.parametrize("key", ["cache-control", "class", "str", "list", "__private", "Any", ""])
def test_keys_that_cannot_stand_in_a_class_are_written_as_text(files, key):
    lines = types_of(files, object_of(box=object_of([key], **{key: {"type": "array", "items": {"type": "string"}}})))
    assert lines == ["Box = TypedDict(", '    "Box",', "    {", f"        \"{key}\": 'list[str]',", "    },", ")"]


def test_literals_that_need_escapes_get_a_name_where_a_type_is_quoted(files):
    """Type checkers refuse escapes in a quoted type."""
    lines = types_of(files, object_of(box=object_of(**{"a-b": {"enum": ["it's", "plain"]}})))
    assert lines[0] == 'ABValues = Literal["it\'s", "plain"]'
    assert "        \"a-b\": 'ABValues'," in lines


def test_recursion_through_an_object(files):
    schema = {
        **object_of(["tree"], tree={"$ref": "#/$defs/Node"}),
        "$defs": {"Node": object_of(["name"], name={"type": "string"}, children={"items": {"$ref": "#/$defs/Node"}})},
    }
    assert types_of(files, schema) == [
        "class Node(TypedDict):",
        "    name: str",
        "    children: NotRequired[list[Node]]",
    ]


def test_recursion_through_a_union_is_an_alias(files):
    schema = {
        **object_of(["value"], value={"$ref": "#/$defs/Json"}),
        "$defs": {"Json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]}},
    }
    assert types_of(files, schema) == ["Json: TypeAlias = 'str | list[Json]'"]


def test_an_object_that_takes_more_than_it_names(files):
    schema = {**object_of(["a"], a={"type": "string"}), "additionalProperties": True}
    assert signature_of(files, object_of(box=schema)) == "probe(*, box: Box | dict[str, Any] = ...) -> Result"


def test_alternatives_of_an_object_have_its_fields_and_names_that_tell_them_apart(files):
    options = [
        object_of(["type", "uri"], type={"const": "uri"}, uri={"type": "string"}),
        object_of(["type"], type={"const": "camera"}),
    ]
    schema = object_of(action={"oneOf": options, "properties": {"label": {"type": "string"}}, "type": "object"})
    assert signature_of(files, schema) == "probe(*, action: UriAction | CameraAction = ...) -> Result"
    assert types_of(files, schema).count("    label: NotRequired[str]") == 2


def test_equal_objects_are_one_class(files):
    point = object_of(["x"], x={"type": "number"})
    assert signature_of(files, object_of(start=point, end=point)) == (
        "probe(*, start: Start = ..., end: Start = ...) -> Result"
    )


def test_root_alternatives_are_joined_and_told(files):
    schema = {
        **object_of(["a"], a={"type": "string"}),
        "oneOf": [object_of(["b"], b={"type": "integer"}), object_of(["c"], c={"type": "integer"})],
    }
    text, tool = files.compile_tool(schema)
    assert tool.signature == "probe(a: str, *, b: int = ..., c: int = ...) -> Result"
    assert "Give one of: b; c." in text


def test_root_all_of_is_worked_in(files):
    schema = {"allOf": [object_of(["a"], a={"type": "string"}), {"$ref": "#/$defs/More"}]}
    schema["$defs"] = {"More": object_of(["b"], b={"type": "integer"})}
    assert signature_of(files, schema) == "probe(a: str, b: int) -> Result"


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "object"}, "probe() -> Result"),
        ({"type": "object", "additionalProperties": False}, "probe() -> Result"),
        ({"type": "object", "additionalProperties": True}, "probe(**arguments: Any) -> Result"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "probe(**arguments: str) -> Result"),
        ({}, "probe(**arguments: Any) -> Result"),
    ],
)
def test_arguments_that_a_schema_does_not_name(files, schema, written):
    assert signature_of(files, schema) == written


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({**object_of(a={"type": "string"}), "required": False}, "probe(*, a: str = ...) -> Result"),
        ({**object_of(a={"type": "string"}), "required": ["ghost"]}, "probe(ghost: Any, *, a: str = ...) -> Result"),
        ({**object_of(a={"type": "string"}), "required": [1, None, {}]}, "probe(*, a: str = ...) -> Result"),
        (object_of(a={"type": "string", "required": True}), "probe(a: str) -> Result"),
        (object_of(a={"type": "integer", "exclusiveMinimum": True}), "probe(*, a: int = ...) -> Result"),
        (object_of(a=False, b=5), "probe(*, b: Any = ...) -> Result"),
        ({"properties": []}, "probe(**arguments: Any) -> Result"),
        ({"type": 5, "properties": {"a": {"type": {}}}}, "probe(*, a: Any = ...) -> Result"),
    ],
)
def test_wrong_schemas_have_a_signature_too(files, schema, written):
    assert signature_of(files, schema) == written


def test_a_nesting_of_fifty_is_typed_as_far_as_it_helps(files):
    schema = {"type": "string"}
    for _ in range(50):
        schema = object_of(["deeper"], deeper=schema)
    lines = types_of(files, schema)
    assert "    deeper: Any" in lines
    assert len([line for line in lines if line.startswith("class ")]) < 30


def test_a_schema_cannot_make_a_file_endless(files):
    """Each level names the next twice: in full that would be a million million classes."""
    levels = {f"L{n}": object_of(a={"$ref": f"#/$defs/L{n + 1}"}, b={"$ref": f"#/$defs/L{n + 1}"}) for n in range(40)}
    wide = {
        "anyOf": [object_of(x={"const": n}, y={"anyOf": [{"const": m} for m in range(50)]}) for n in range(2_000)]
    }
    text, _ = files.compile_tool({**object_of(a={"$ref": "#/$defs/L0"}, wide=wide), "$defs": levels})
    assert len(text) < 1_000_000


def test_the_facts_of_a_value_are_told(files):
    schema = object_of(
        limit={"type": "integer", "minimum": 1, "maximum": 50, "description": "How many."},
        url={"type": "string", "format": "uri", "pattern": "^https:"},
        tags={"type": "array", "maxItems": 3, "uniqueItems": True},
        score={"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
    )
    text, _ = files.compile_tool(schema)
    assert "        limit: How many. (1 to 50)\n" in text
    assert "        url: (format uri; pattern ^https:)\n" in text
    assert "        tags: (at most 3 items; each once)\n" in text
    assert "        score: (> 0)\n" in text


def test_the_description_is_the_docstring_whole(files):
    said = 'Read "it".\n\n  - one\\two\n\tthree """four"""\n"'
    text, tool = files.compile_tool(description=said)
    function = files.check_file(text)
    assert ast.get_docstring(function) == inspect.cleandoc(said.expandtabs(4))
    assert tool.summary == 'Read "it".'


def test_a_title_stands_in_for_a_description(files):
    text, tool = files.compile_tool(title="Read a file")
    assert '    """Read a file"""' in text
    assert tool.summary == "Read a file"


def test_without_any_words_the_name_is_the_summary(files):
    text, tool = files.compile_tool(name="list-all_things")
    assert tool.summary == "list all things"
    assert '"""' not in text


def test_what_comes_back_has_the_declared_shape(files):
    shape = object_of(["content"], content={"type": "string"}, size={"type": "integer"})
    assert types_of(files, object_of(), output_schema=shape) == [
        "class ProbeResult(TypedDict):",
        "    content: str",
        "    size: NotRequired[int]",
    ]
    assert signature_of(files, object_of(), output_schema=shape) == "probe() -> ProbeResult"


def test_a_shape_that_only_wraps_is_told_as_it_is(files):
    shape = {**object_of(["result"], result={"type": "array", "items": {"type": "string"}})}
    assert types_of(files, object_of(), output_schema=shape) == [
        "class ProbeResult(TypedDict):",
        "    result: list[str]",
    ]


@pytest.mark.parametrize(
    ("shape", "written"),
    [
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": True}, "dict[str, Any]"),
        (None, "Result"),
        ({}, "Result"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
    ],
)
def test_shapes_that_say_little(files, shape, written):
    assert signature_of(files, object_of(), output_schema=shape) == f"probe() -> {written}"


def test_a_shape_can_contain_itself(files):
    shape = object_of(["next"], next={"$ref": "#"})
    assert types_of(files, object_of(), output_schema=shape) == [
        "class ProbeResult(TypedDict):",
        "    next: ProbeResult",
    ]


def test_a_shape_learnt_from_a_result_is_marked(files):
    shape = object_of(["id"], id={"type": "integer"})
    text, tool = files.compile_tool(object_of(), inferred=shape)
    files.check_file(text)
    assert tool.signature == "probe() -> Result[ProbeResult]"
    assert "inferred from a real result" in text


def test_a_declared_shape_is_believed_before_a_learnt_one(files):
    learnt, declared = object_of(["id"], id={"type": "integer"}), object_of(["n"], n={"type": "string"})
    text, tool = files.compile_tool(object_of(), inferred=learnt, output_schema=declared)
    assert tool.signature == "probe() -> ProbeResult"
    assert "inferred" not in text


def test_a_shape_that_is_only_a_reference_takes_the_name_of_the_tool(files):
    shape = {"type": "object", "$ref": "#/$defs/Page", "$defs": {"Page": object_of(["url"], url={"type": "string"})}}
    assert types_of(files, object_of(), output_schema=shape) == ["class ProbeResult(TypedDict):", "    url: str"]
