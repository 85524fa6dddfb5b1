"""The reference toolset as a client sees it: names, arguments, annotations."""

from toolyard.app.toolsets import Toolset, tools_of

READS = {"read_only": True, "destructive": False, "idempotent": True}
EXPECTED = {
    "read_file": (["path", "head", "tail"], ["path"], READS),
    "read_text_file": (["path", "head", "tail"], ["path"], READS),
    "read_media_file": (["path"], ["path"], READS),
    "read_multiple_files": (["paths"], ["paths"], READS),
    "write_file": (
        ["path", "content"],
        ["path", "content"],
        {"read_only": False, "destructive": True, "idempotent": True},
    ),
    "edit_file": (
        ["path", "edits", "dryRun"],
        ["path", "edits"],
        {"read_only": False, "destructive": True, "idempotent": False},
    ),
    "create_directory": (["path"], ["path"], {"read_only": False, "destructive": False, "idempotent": True}),
    "list_directory": (["path"], ["path"], READS),
    "list_directory_with_sizes": (["path", "sortBy"], ["path"], READS),
    "directory_tree": (["path", "excludePatterns"], ["path"], READS),
    "move_file": (
        ["source", "destination"],
        ["source", "destination"],
        {"read_only": False, "destructive": True, "idempotent": False},
    ),
    "search_files": (["path", "pattern", "excludePatterns"], ["path", "pattern"], READS),
    "get_file_info": (["path"], ["path"], READS),
    "list_allowed_directories": ([], [], READS),
}


def test_names_arguments_and_annotations_are_the_reference_servers():
    shown = {
        name: (
            list(tool.input_schema["properties"]),
            tool.input_schema.get("required", []),
            {"read_only": tool.read_only, "destructive": tool.destructive, "idempotent": tool.idempotent},
        )
        for name, tool in tools_of(Toolset.REFERENCE).items()
    }
    assert shown == EXPECTED


def test_all_has_the_reference_tools_beside_the_others():
    others = (Toolset.CLAUDE, Toolset.CODE, Toolset.WORKSPACE)
    assert set(tools_of(Toolset.ALL)) == {*tools_of(others), *EXPECTED}
