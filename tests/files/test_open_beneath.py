"""Both ways of opening beneath a folder give the same answers, and never one from outside."""

import errno
import os
import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.descriptors import count_open
from tests.support.path_cases import ABSOLUTE_CASES, CASES, FILE, FOLDER, TRAPS, build, expected
from toolyard.files import roots
from toolyard.files.roots import BaseFolder, open_beneath, open_by_kernel, open_by_walk
from toolyard.linux import openat2

NEEDS_OPENAT2 = pytest.mark.skipif(not openat2.is_available(), reason="this kernel has no openat2")
RESOLVERS = [
    pytest.param(open_by_kernel, id="kernel", marks=NEEDS_OPENAT2),
    pytest.param(open_by_walk, id="walk"),
    pytest.param(lambda *a, **k: open_beneath(*a, kernel=True, **k), id="kernel-then-walk", marks=NEEDS_OPENAT2),
    pytest.param(lambda *a, **k: open_beneath(*a, kernel=False, **k), id="without-kernel"),
]


@pytest.fixture
def traps(tmp_path):
    path = build(os.path.realpath(tmp_path), TRAPS)
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY)
    yield BaseFolder(fd, path)
    os.close(fd)


def same(fd, path):
    there, here = os.stat(path), os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def answer(resolver, folder, path, *, links=True):
    """The real path of what was opened, or the error number."""
    try:
        fd = resolver(folder, path, links=links)
    except OSError as error:
        return error.errno
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("resolver", RESOLVERS)
def test_every_resolver_gives_the_same_answer(resolver, case, traps):
    wanted = os.path.normpath(os.path.join(traps.path, case.gives)) if case.gives else case.refused

    assert answer(resolver, traps, case.path, links=case.links) == wanted


@pytest.mark.parametrize("case", ABSOLUTE_CASES, ids=str)
@pytest.mark.parametrize("resolver", RESOLVERS[1:])
def test_absolute_links_that_lead_back_inside_are_followed(resolver, case, traps):
    assert answer(resolver, traps, case.path) == os.path.normpath(os.path.join(traps.path, case.gives))


@NEEDS_OPENAT2
@pytest.mark.parametrize("case", ABSOLUTE_CASES, ids=str)
def test_the_kernel_alone_refuses_absolute_links(case, traps):
    assert answer(open_by_kernel, traps, case.path) == errno.EXDEV


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_forty_links_in_a_row_are_followed_and_one_more_is_not(resolver, tmp_path):
    tree = {"0": FILE, **{str(n): str(n - 1) for n in range(1, 42)}}
    path = build(os.path.realpath(tmp_path), tree)
    fd = os.open(path, os.O_PATH)
    folder = BaseFolder(fd, path)

    assert [answer(resolver, folder, "40"), answer(resolver, folder, "41")] == [f"{path}/0", errno.ELOOP]
    os.close(fd)


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_a_pipe_and_a_device_are_only_looked_at(resolver, traps):
    os.mkfifo(os.path.join(traps.path, "pipe"))

    fd = resolver(traps, "pipe", links=True)

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.read(fd, 1)
    os.close(fd)


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_what_is_opened_is_closed_when_a_program_is_started(resolver, traps):
    fd = resolver(traps, "folder/inner", links=True)

    assert not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_lookup_leaves_a_descriptor_behind(case, traps):
    before = count_open()

    for kernel in (openat2.is_available(), False):
        answer(lambda *a, k=kernel, **o: open_beneath(*a, kernel=k, **o), traps, case.path, links=case.links)

    assert count_open() == before


def test_a_kernel_that_keeps_saying_try_again_gives_way_to_the_walk(traps, monkeypatch):
    calls = []

    def busy(*arguments):
        calls.append(arguments)
        raise BlockingIOError(errno.EAGAIN, "try again")

    monkeypatch.setattr(roots.openat2, "openat2", busy)

    fd = open_beneath(traps, "folder/inner", kernel=True)

    assert same(fd, os.path.join(traps.path, "folder/inner"))
    assert len(calls) == 64
    os.close(fd)


def test_a_kernel_that_keeps_saying_try_again_without_links_refuses(traps, monkeypatch):
    def busy(*arguments):
        raise BlockingIOError(errno.EAGAIN, "try again")

    monkeypatch.setattr(roots.openat2, "openat2", busy)

    assert answer(lambda *a, **k: open_beneath(*a, kernel=True, **k), traps, "file", links=False) == errno.EXDEV


NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(st.one_of(NAMES, st.sampled_from(["..", ".", ""])), min_size=1, max_size=6).map("/".join)
TARGETS = st.one_of(
    STEPS,
    st.sampled_from(["/etc/hosts", "/", "{outside}", "{outside}/secret", "{root}-evil/secret", "../outside/secret"]),
    STEPS.map(lambda steps: "{root}/" + steps),
)
CONTENTS = st.one_of(st.just(FOLDER), st.just(FILE), TARGETS.filter(bool))


@st.composite
def trees(draw):
    """Up to a dozen objects, each in a folder drawn before it."""
    folders, tree = [""], {}
    for _ in range(draw(st.integers(1, 12))):
        path = draw(st.sampled_from(folders)) + draw(NAMES)
        if path in tree:
            continue
        tree[path] = draw(CONTENTS)
        if tree[path] == FOLDER:
            folders.append(path + "/")
    return tree


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tree=trees(), paths=st.lists(STEPS.filter(lambda path: path != ""), min_size=1, max_size=8))
def test_on_any_quiet_tree_both_resolvers_agree_with_plain_path_lookup(tree, paths):
    with tempfile.TemporaryDirectory() as base:
        root = build(os.path.realpath(base), tree)
        fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
        folder = BaseFolder(fd, root)
        try:
            for path in paths:
                wanted = errno.EXDEV if path.startswith("/") else expected(root, path)
                walked = answer(open_by_walk, folder, path)
                assert walked == wanted
                if isinstance(walked, str):
                    assert walked == os.path.realpath(os.path.join(root, path))
                    assert walked == root or walked.startswith(root + "/")
                if openat2.is_available():
                    assert answer(open_beneath, folder, path) == wanted
                    assert answer(open_by_kernel, folder, path) in {wanted, errno.EXDEV}
        finally:
            os.close(fd)
