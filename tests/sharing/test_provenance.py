"""Where files came from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolyard.core.errors import ToolyardError
from toolyard.sharing.provenance import MergeOrigin, Provenance

ONE = MergeOrigin("a", b"x.txt", "b", b"x.txt", "0d3c457c96a4", b"digest", "added")


def test_what_is_recorded_together_is_kept_whole_or_not_at_all(tmp_path):
    broken = replace(ONE, path=b"y.txt", digest=None)
    with Provenance(str(tmp_path)) as provenance:
        with pytest.raises(ToolyardError):
            provenance.record([ONE, broken])
        assert provenance.origins_of("a") == []
        provenance.record([ONE, replace(ONE, path=b"y.txt")])
    with Provenance(str(tmp_path)) as again:
        assert sorted(origin.path for origin in again.origins_of("a")) == [b"x.txt", b"y.txt"]
