"""The syntax nodes that an outline shows, by language. Data only; imports no parser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Grammar:
    """Kinds of nodes. Nodes in none of these sets are skipped with their content."""

    package: str
    imports: frozenset[str]
    """Shown unchanged, on one line."""
    heads: frozenset[str]
    """Shown up to their body."""
    opened: frozenset[str] = frozenset()
    """Heads whose content is also shown, indented."""
    through: frozenset[str] = frozenset()
    """Not shown; their content is, at the same depth."""
    wraps: frozenset[str] = frozenset()
    """As `through`, but the entry starts where the wrapper does: `export`, `template <...>`."""
    matching: Mapping[str, re.Pattern[bytes]] = field(default_factory=dict[str, re.Pattern[bytes]])
    """Kinds that are shown unchanged if their text matches."""
    holding: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Kinds that are shown up to the body of such a node, if they contain one."""
    function: str = "language"
    """The package's function that returns the language."""


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTION_VALUES: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    ("lexical_declaration", "variable_declaration", "field_definition", "public_field_definition"),
    ("arrow_function", "function_expression", "generator_function", "class"),
)
_REQUIRED: Final = re.compile(rb"[^=\n]{1,200}=\s*require\(")
_PROTOTYPES: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    ("declaration", "field_declaration"), ("function_declarator",)
)
_PREPROCESSOR: Final = "preproc_if preproc_ifdef preproc_else preproc_elif linkage_specification declaration_list"


def _javascript(package: str, function: str = "language") -> Grammar:
    return Grammar(
        package,
        imports=_kinds("import_statement"),
        heads=_kinds(
            "class_declaration abstract_class_declaration function_declaration generator_function_declaration"
            " function_signature method_definition method_signature abstract_method_signature interface_declaration"
            " type_alias_declaration enum_declaration internal_module module"
        ),
        opened=_kinds("class_declaration abstract_class_declaration interface_declaration internal_module module"),
        through=_kinds(
            "class_body interface_body object_type statement_block ambient_declaration expression_statement"
        ),
        wraps=_kinds("export_statement"),
        matching=dict.fromkeys(("lexical_declaration", "variable_declaration"), _REQUIRED),
        holding=_FUNCTION_VALUES,
        function=function,
    )


_C: Final = Grammar(
    "tree_sitter_c",
    imports=_kinds("preproc_include"),
    heads=_kinds("function_definition struct_specifier union_specifier enum_specifier type_definition"),
    through=_kinds(_PREPROCESSOR),
    holding=_PROTOTYPES,
)

GRAMMARS: Final[Mapping[str, Grammar]] = {
    "python": Grammar(
        "tree_sitter_python",
        imports=_kinds("import_statement import_from_statement future_import_statement"),
        heads=_kinds("class_definition function_definition decorator"),
        opened=_kinds("class_definition"),
        through=_kinds(
            "decorated_definition block if_statement elif_clause else_clause try_statement except_clause"
            " finally_clause with_statement"
        ),
    ),
    "javascript": _javascript("tree_sitter_javascript"),
    "typescript": _javascript("tree_sitter_typescript", "language_typescript"),
    "tsx": _javascript("tree_sitter_typescript", "language_tsx"),
    "java": Grammar(
        "tree_sitter_java",
        imports=_kinds("package_declaration import_declaration"),
        heads=_kinds(
            "class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration"
            " method_declaration constructor_declaration compact_constructor_declaration"
        ),
        opened=_kinds("class_declaration interface_declaration enum_declaration record_declaration"),
        through=_kinds("class_body interface_body enum_body enum_body_declarations"),
    ),
    "go": Grammar(
        "tree_sitter_go",
        imports=_kinds("package_clause import_declaration"),
        heads=_kinds("function_declaration method_declaration type_declaration"),
    ),
    "rust": Grammar(
        "tree_sitter_rust",
        imports=_kinds("use_declaration extern_crate_declaration"),
        heads=_kinds(
            "mod_item struct_item enum_item union_item trait_item impl_item function_item function_signature_item"
            " type_item macro_definition"
        ),
        opened=_kinds("mod_item trait_item impl_item"),
        through=_kinds("declaration_list foreign_mod_item"),
    ),
    "c": _C,
    "cpp": Grammar(
        "tree_sitter_cpp",
        imports=_kinds("preproc_include using_declaration"),
        heads=_C.heads | _kinds("class_specifier namespace_definition alias_declaration concept_definition"),
        opened=_kinds("class_specifier struct_specifier namespace_definition"),
        through=_C.through | _kinds("field_declaration_list"),
        wraps=_kinds("template_declaration"),
        holding=_PROTOTYPES,
    ),
    "csharp": Grammar(
        "tree_sitter_c_sharp",
        imports=_kinds("using_directive file_scoped_namespace_declaration"),
        heads=_kinds(
            "namespace_declaration class_declaration interface_declaration struct_declaration record_declaration"
            " enum_declaration delegate_declaration method_declaration constructor_declaration property_declaration"
        ),
        opened=_kinds(
            "namespace_declaration class_declaration interface_declaration struct_declaration record_declaration"
        ),
        through=_kinds("declaration_list"),
    ),
    "ruby": Grammar(
        "tree_sitter_ruby",
        imports=frozenset(),
        heads=_kinds("module class singleton_class method singleton_method"),
        opened=_kinds("module class singleton_class"),
        through=_kinds("body_statement"),
        matching={"call": re.compile(rb"require|(include|extend|prepend)\s|attr_")},
    ),
    "php": Grammar(
        "tree_sitter_php",
        imports=_kinds("namespace_use_declaration"),
        heads=_kinds(
            "namespace_definition class_declaration interface_declaration trait_declaration enum_declaration"
            " method_declaration function_definition"
        ),
        opened=_kinds(
            "namespace_definition class_declaration interface_declaration trait_declaration enum_declaration"
        ),
        through=_kinds("declaration_list enum_declaration_list compound_statement"),
        matching={"expression_statement": re.compile(rb"require|include")},
        function="language_php",
    ),
    "bash": Grammar(
        "tree_sitter_bash",
        imports=frozenset(),
        heads=_kinds("function_definition"),
        through=_kinds("if_statement else_clause elif_clause"),
        matching={"command": re.compile(rb"(source|\.)\s")},
    ),
}
"""By name of the language."""
