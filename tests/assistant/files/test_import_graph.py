"""Which file uses which of the others, in each language, and which packages of somebody else's."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.files.made import made
from toolyard.assistant.files.import_graph import FileImports, ImportGraph, import_graph
from toolyard.assistant.files.import_statements import expand_use_tree, find_references
from toolyard.assistant.files.syntax.grammars import GRAMMARS

PROJECTS = {
    "python": (
        {
            "src/shop/__init__.py": "",
            "src/shop/cart.py": "import json\nimport requests.auth as r, yaml\nfrom shop.core import prices, Money\n",
            "src/shop/core/__init__.py": "from .prices import (\n    price,  # (net)\n    tax,\n)\n",
            "src/shop/core/prices.py": '"""\nimport nothing\nfrom here import there\n"""\nfrom .. import cart\n',
            "src/shop/json.py": "",
            "tests/test_cart.py": "def test():\n    from shop.cart import a\n    import pytest\n    import other.c\n",
        },
        {
            "src/shop/cart.py": (("src/shop/core/__init__.py", "src/shop/core/prices.py"), ("requests", "yaml")),
            "src/shop/core/__init__.py": (("src/shop/core/prices.py",), ()),
            "src/shop/core/prices.py": (("src/shop/cart.py",), ()),
            "tests/test_cart.py": (("src/shop/cart.py",), ("pytest", "other")),
        },
    ),
    "typescript": (
        {
            "src/a.ts": 'import { b } from "./b.js";\nimport fs from "node:fs";\nexport * from "../lib";\n'
            'import "@scope/x/y";\n',
            "src/b.tsx": 'import React, {\n  useState,\n} from "react";\nconst a = await import("@/a");\n'
            '// import "no"\n',
            "lib/index.js": 'const a = require("../src/a"), l = require("lodash/fp");\n',
        },
        {
            "src/a.ts": (("src/b.tsx", "lib/index.js"), ("@scope/x",)),
            "src/b.tsx": (("src/a.ts",), ("react",)),
            "lib/index.js": (("src/a.ts",), ("lodash",)),
        },
    ),
    "java": (
        {
            "app/A.java": "package com.acme;\nimport com.acme.db.*;\nimport static com.acme.B.VALUE;\n"
            "import java.util.List;\n",
            "app/B.java": "package com.acme;\nimport org.slf4j.Logger;\n",
            "db/C.java": "package com.acme.db;\n",
        },
        {"app/A.java": (("db/C.java", "app/B.java"), ()), "app/B.java": ((), ("org.slf4j",))},
    ),
    "go": (
        {
            "go.mod": "module example.com/shop\n",
            "main.go": 'package main\nimport (\n\t"fmt"\n\tp "example.com/shop/prices"\n\t"github.com/x/y/z"\n)\n',
            "prices/prices.go": 'package prices\nimport "os"\n',
            "prices/prices_test.go": "package prices\n",
        },
        {"main.go": (("prices/prices.go",), ("github.com/x/y",))},
    ),
    "rust": (
        {
            "src/main.rs": "mod cart;\nuse std::fs;\nuse serde::Deserialize;\n",
            "src/cart.rs": "pub mod item;\nuse crate::prices::{\n    Price,\n    tax::{self, Rate as R},\n};\n",
            "src/cart/item.rs": "use super::super::prices::Price;\n",
            "src/prices/mod.rs": "pub mod tax;\n",
            "src/prices/tax.rs": "",
        },
        {
            "src/main.rs": (("src/cart.rs",), ("serde",)),
            "src/cart.rs": (("src/cart/item.rs", "src/prices/mod.rs", "src/prices/tax.rs"), ()),
            "src/cart/item.rs": (("src/prices/mod.rs",), ()),
            "src/prices/mod.rs": (("src/prices/tax.rs",), ()),
        },
    ),
    "c": (
        {
            "src/a.c": '#include <stdio.h>\n#include "a.h"\n#  include <shop/b.h>\n#include <boost/x.hpp>\n',
            "src/a.h": "",
            "include/shop/b.h": '#include "../../src/a.h"\n',
        },
        {
            "src/a.c": (("src/a.h", "include/shop/b.h"), ("boost",)),
            "include/shop/b.h": (("src/a.h",), ()),
        },
    ),
    "ruby": (
        {
            "lib/shop/cart.rb": 'require "json"\nrequire "shop/item"\nrequire_relative "../tax"\n',
            "lib/shop/item.rb": "",
            "lib/tax.rb": "",
        },
        {"lib/shop/cart.rb": (("lib/shop/item.rb", "lib/tax.rb"), ("json",))},
    ),
    "php": (
        {
            "src/Cart.php": "<?php\nnamespace Acme\\Shop;\nuse Acme\\Db\\{Store, Row as R};\nuse Monolog\\Logger;\n"
            "require __DIR__ . '/boot.php';\nclass A {\n    use Trait1;\n}\n",
            "src/boot.php": "<?php\n",
            "db/Store.php": "<?php\nnamespace Acme\\Db;\n",
            "db/Row.php": "<?php namespace Acme\\Db;\n",
        },
        {"src/Cart.php": (("db/Store.php", "db/Row.php", "src/boot.php"), ("Monolog",))},
    ),
    "csharp": (
        {
            "A.cs": "using System.IO;\nusing Acme.Db;\nusing Newtonsoft.Json;\nnamespace Acme.App {}\n",
            "db/B.cs": "namespace Acme.Db;\nusing Acme.App;\nusing (var x = y) {}\n",
        },
        {"A.cs": (("db/B.cs",), ("Newtonsoft",)), "db/B.cs": (("A.cs",), ())},
    ),
}


@pytest.mark.parametrize("language", PROJECTS)
def test_who_uses_whom_is_found(language):
    files, wanted = PROJECTS[language]

    graph = import_graph([made(path, text) for path, text in files.items()])

    assert {each.path: (each.files, each.packages) for each in graph.imports} == wanted


def test_what_a_project_has_of_its_own_is_no_package_though_it_is_not_among_the_sources():
    assert not import_graph([made("src/shop/cart.py", "import shop.other\n")]).imports


def test_the_trees_of_rust_are_taken_apart():
    assert expand_use_tree("a::{b, c::{d, e as f}, self}") == ("a::b", "a::c::d", "a::c::e", "a::self")


def test_a_graph_is_told_in_a_few_lines():
    graph = ImportGraph(
        (
            FileImports("a.py", ("c.py", "b.py"), ("yaml",)),
            FileImports("b.py", ("c.py",), ("yaml",)),
            FileImports("d.py", (), ("x",)),
        )
    )

    assert graph.render() == (
        "Used by most others: c.py (2), b.py (1)\nPackages: yaml (2), x (1)\na.py -> c.py, b.py\nb.py -> c.py"
    )
    assert import_graph([]).render() == "None of these files uses another."


def test_a_large_graph_is_cut():
    many = ImportGraph(
        tuple(FileImports(f"{n}.py", tuple(f"{m}.py" for m in range(100)), (f"p{n}",)) for n in range(500))
    )

    text = many.render(4_000)

    assert len(text) < 4_100
    assert text.endswith("more files use others")
    assert "and 70 more" in text


@given(
    st.sampled_from([*GRAMMARS, "vue", "objective-c"]),
    st.text(alphabet="import from use{}()::.;,\"'\\/\n#<>*@ abAB require", max_size=500),
)
def test_any_text_can_be_asked_what_it_uses(language, text):
    source = replace(made("x/a.py", text), language=language)

    assert len(find_references(source)) <= 500
    import_graph([source, made("x/b.py", text)])


def test_huge_files_and_lines_are_looked_at_only_at_their_beginning():
    source = made("a.py", "import first\n" + "import x, " * 500_000 + "\nimport last\n")

    assert "last" not in {reference.target for reference in find_references(source)}
    assert "first" in {reference.target for reference in find_references(source)}
