"""What ripgrep prints, read back, whatever stands in it."""

from toolyard.files.search.ripgrep_output import (
    DESCRIPTOR,
    WALKED,
    FileMatches,
    parse_blocks,
    parse_counts,
    parse_names,
    possible_names,
)


def test_a_torn_end_is_dropped_and_what_is_whole_is_kept():
    assert parse_names(b"./a\0./b/c\0./to", WALKED) == ["a", "b/c"]
    assert list(parse_counts(b"/dev/fd/3\x0012\n/dev/fd/4\x001", DESCRIPTOR)) == [FileMatches("3", b"12")]
    assert list(parse_blocks(b"./a\x001:x\n2:y\n\n./b\x001:z", WALKED, torn=True)) == [FileMatches("a", b"1:x\n2:y")]


def test_what_is_said_of_binary_files_is_a_record_of_its_own():
    said = b'./a\n\n./b: binary file matches (found "\\0" byte around offset 5)\n\n./c\x001:x\n'
    assert list(parse_blocks(said, WALKED, torn=False)) == [FileMatches("a\n\n./b", b""), FileMatches("c", b"1:x")]


def test_a_message_nobody_knows_cannot_hide_the_name_that_follows_it():
    (found,) = parse_blocks(b"./odd: something new\n\n./secret\x001:x\n", WALKED, torn=False)
    assert list(possible_names(found.name)) == ["odd: something new\n\n./secret", "secret"]
