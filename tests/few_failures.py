"""Exit with 0 when a few tests failed in the last run. Many are no accident; with none, something else went wrong."""

from __future__ import annotations

import json
import pathlib
import sys

_FEW = 3
_CACHE = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "v" / "cache" / "lastfailed"

failed = json.loads(_CACHE.read_text()) if _CACHE.exists() else {}
print(f"{len(failed)} failed: {', '.join(sorted(failed)[:_FEW])}")
sys.exit(not 1 <= len(failed) <= _FEW)
