"""Which tests a change concerns is worked out from names and imports, and code that none concerns is told of."""

from toolyard.assistant.precommit.word_search import is_code, is_doc, is_test


def test_tests_of_the_name_and_tests_that_import_are_named(repo, look, of):
    repo.commit(
        **{
            "src/shop/cart.py": "a = 1\n",
            "src/shop/price.py": "b = 1\n",
            "tests/shop/test_cart.py": "",
            "tests/other/test_cart.py": "from other import cart\n",
            "tests/test_all.py": "from shop.price import b\nfrom shop import cart\n",
        }
    )
    repo.write("src/shop/cart.py", "a = 2\n")
    repo.write("src/shop/price.py", "b = 2\n")
    assert of(look(), "tests") == (
        "passed",
        [
            ("src/shop/cart.py", 0, "is tested by tests/shop/test_cart.py, tests/test_all.py"),
            ("src/shop/price.py", 0, "is tested by tests/test_all.py"),
        ],
    )


def test_code_that_no_test_concerns_is_a_warning(repo, look, of):
    repo.commit(**{"shop/cart.py": "a = 1\n", "tests/test_other.py": "import other\n"})
    repo.write("shop/cart.py", "a = 2\n")
    found = look()
    assert of(found, "tests") == (
        "warned",
        [("shop/cart.py", 0, "changes, and no test is named after it or imports it")],
    )
    assert found.verdict == "go"


def test_a_repository_without_tests_is_told_as_such(repo, look, of):
    repo.write("cart.py", "a = 1\n")
    assert of(look(), "tests")[1] == [("cart.py", 0, "changes, and there are no tests in this repository")]


def test_tests_that_come_with_the_change_count(repo, look, of):
    repo.write("shop/cart.py", "a = 1\n")
    repo.write("tests/test_shopping.py", "def test_it(): ...\n")
    assert of(look(), "tests") == ("passed", [])


def test_other_languages_have_their_own_ways(repo, look, of):
    repo.commit(
        **{
            "web/src/cart.ts": "export const a = 1\n",
            "web/src/cart.test.ts": "import { a } from './cart'\n",
            "web/src/price.js": "module.exports = 1\n",
            "web/spec/everything.js": "const p = require('../src/price')\n",
            "pkg/cart.go": "package pkg\n",
            "pkg/all_test.go": "package pkg\n",
            "core/lib.rs": "pub fn a() {}\n",
        }
    )
    for name in ("web/src/cart.ts", "web/src/price.js", "pkg/cart.go", "core/lib.rs"):
        repo.write(name, "// changed\n")
    assert of(look(), "tests") == (
        "passed",
        [
            ("pkg/cart.go", 0, "is tested by pkg/all_test.go"),
            ("web/src/cart.ts", 0, "is tested by web/src/cart.test.ts"),
            ("web/src/price.js", 0, "is tested by web/spec/everything.js"),
        ],
    )


def test_a_change_without_code_concerns_no_tests(repo, look, of):
    repo.write("notes.txt", "words\n")
    repo.git("rm", "-q", "a.txt")
    assert of(look(), "tests") == ("skipped", [])


def test_files_are_known_for_what_they_are():
    assert [path for path in ("a.py", "b.TS", "README.md", "a.txt", "Makefile") if is_code(path)] == ["a.py", "b.TS"]
    docs = (
        "README",
        "docs/a.txt",
        "a/b.md",
        "docs/CHANGELOG.md",
        "HISTORY.rst",
        "a.txt",
        "migrations/a.md",
        "new.md",
    )
    assert [path for path in docs if is_doc(path)] == ["README", "docs/a.txt", "a/b.md", "new.md"]
    tests = ("tests/a.py", "test_a.py", "a_test.go", "a.spec.ts", "CartTest.java", "contest.py", "latest/a.py")
    assert [path for path in tests if is_test(path)] == list(tests[:5])
