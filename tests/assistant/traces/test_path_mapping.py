"""A path of another machine is mapped to the one file that it can mean, or to none."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.assistant.traces.path_mapping import file_name_of, map_to_workspace
from toolyard.core.errors import ToolError

WORKSPACE = "/home/ann/shop"


def path_of(file, *paths, beside=()):
    return map_to_workspace([*beside, file], paths, WORKSPACE).get(file, "")


@pytest.mark.parametrize(
    "file",
    [
        "/home/ann/shop/src/cart.ts",
        "/app/src/cart.ts",
        "/srv/releases/12/src/cart.ts",
        "src/cart.ts",
        "./src/cart.ts",
        "../shop/src/cart.ts",
        "/app/build/../src/cart.ts",
        "cart.ts",
        r"C:\proj\src\cart.ts",
        "C:/proj/src/cart.ts",
        r"src\cart.ts",
        "file:///app/src/cart.ts",
        "file:///C:/proj/src/cart.ts",
        "http://localhost:3000/src/cart.ts?t=17120",
        "webpack://shop/./src/cart.ts?7c1f",
        "webpack:///src/cart.ts",
        "webpack-internal:///(app-pages-browser)/./src/cart.ts",
        "file:///app/%73rc/cart.ts",
    ],
)
def test_the_longest_common_end_decides(file):
    assert path_of(file, "src/cart.ts", "src/main.ts") == "src/cart.ts"


def test_more_in_common_goes_before_less():
    paths = ("a/src/cart.ts", "b/src/cart.ts", "src/cart.ts")
    assert path_of("/app/b/src/cart.ts", *paths) == "b/src/cart.ts"
    assert path_of("src/cart.ts", *paths) == "src/cart.ts"


def test_where_several_fit_equally_none_is_chosen():
    assert path_of("src/main.rs", "a/src/main.rs", "b/src/main.rs") == ""
    assert path_of("prices.c", "a/prices.c", "b/prices.c") == ""


def test_java_is_found_by_its_package_wherever_the_sources_are():
    paths = ("app/src/main/java/com/acme/Foo.java", "other/Foo.java")
    assert path_of("com/acme/Foo.java", *paths) == paths[0]
    assert path_of("org/lib/Foo.java", *paths) == ""


def test_a_workspace_that_begins_higher_or_lower_than_the_container_is_found_too():
    assert path_of("/app/src/shop/cart.py", "backend/src/shop/cart.py") == "backend/src/shop/cart.py"
    assert path_of("/app/backend/src/shop/cart.py", "src/shop/cart.py") == "src/shop/cart.py"


@pytest.mark.parametrize(
    "file",
    [
        "/usr/lib/python3.11/json/cart.ts",
        "/venv/lib/python3.12/site-packages/src/cart.ts",
        r"C:\Python311\Lib\src\cart.ts",
        "/app/node_modules/lib/src/cart.ts",
        "webpack://shop/./node_modules/lib/src/cart.ts",
        "/root/.cargo/registry/src/x/src/cart.ts",
        "/rustc/5980/library/src/cart.ts",
        "/root/go/pkg/mod/x@v1/src/cart.ts",
        "node:internal/src/cart.ts",
        "<frozen src/cart.ts>",
        "<string>",
        "",
    ],
)
def test_files_of_libraries_are_not_the_users_own(file):
    assert path_of(file, "src/cart.ts") == ""
    assert file_name_of(file) == ""


def test_a_file_with_only_its_name_in_common_is_not_taken_for_it():
    assert path_of("/opt/tool/utils.py", "src/utils.py") == ""


def test_a_file_at_the_root_is_found_beside_others_of_the_same_folder():
    paths = ("setup.py", "shop/orders.py")
    assert path_of("/app/setup.py", *paths) == "setup.py"
    assert path_of("/app/setup.py", *paths, beside=["/app/shop/orders.py"]) == "setup.py"
    assert path_of("/opt/tool/setup.py", *paths, beside=["/app/shop/orders.py"]) == ""


def test_a_path_in_the_workspace_is_itself_or_nothing():
    assert path_of(f"{WORKSPACE}/gone/cart.ts", "cart.ts", "src/cart.ts") == ""
    assert path_of(f"{WORKSPACE}/lib/python3.11/x.py", "lib/python3.11/x.py") == "lib/python3.11/x.py"
    assert path_of(f"{WORKSPACE}/../x/src/cart.ts", "src/cart.ts") in {"", "src/cart.ts"}


def shared(one, other):
    return next((at for at, (a, b) in enumerate(zip(reversed(one), reversed(other), strict=False)) if a != b), None)


def longest_end(file, paths):
    """What `map_to_workspace` promises, looked for the long way."""
    parts, most, best = tuple(file.split("/")), 0, []
    for path in paths:
        other = tuple(path.split("/"))
        count = shared(parts, other)
        count = min(len(parts), len(other)) if count is None else count
        if count and count >= most:
            best, most = ([path] if count > most else [*best, path]), count
    best = [file] if file in best else best
    return best[0] if len(best) == 1 and most >= min(len(parts), 2) else ""


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


@given(file=PATHS, paths=st.sets(PATHS, max_size=12))
def test_it_is_the_longest_end_however_many_share_one(file, paths):
    assert path_of(file, *sorted(paths)) == longest_end(file, paths)


def test_thousands_of_files_of_one_name_are_not_compared_with_each_frame():
    paths = [f"{number}/deep/x.py" for number in range(20_000)]
    files = [f"/s/{number}/deep/x.py" for number in range(20_000, 40_000)]
    began = time.thread_time()
    assert map_to_workspace([*files, "/s/7/deep/x.py"], paths, WORKSPACE) == {"/s/7/deep/x.py": "7/deep/x.py"}
    assert time.thread_time() - began < 5


def test_who_asked_may_leave_between_two_frames():
    looks = []

    def check_time():
        looks.append(1)
        if len(looks) == 3:
            raise ToolError("The call was stopped.")

    with pytest.raises(ToolError):
        map_to_workspace([f"/s/{number}/x.py" for number in range(100)], ["a/x.py"], WORKSPACE, check_time)
    assert len(looks) == 3
