"""An agent's memory for the code in its sandbox: the same files, format and lock that the host uses.

    from toolyard_runtime import memory

    memory.remember("The reports need an index on created_at", topic="databases")
    memory.recall("which index do the reports need")

Each change is made under the folder's lock and replaces its file atomically, so code, other agents and the host do
not lose each other's changes. A file that cannot be parsed is left unchanged. `agent` names another agent's memory;
the sandbox decides whether it can be read or written. Use plain file access for `preferences.yaml`: the standard
library has no YAML parser.
"""

from __future__ import annotations

import os

from toolyard_runtime import memory_entries as entries
from toolyard_runtime import shared_file
from toolyard_runtime.json_list import UnreadableFile, decode_text, parse_list, write_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["add_task", "facts", "folder", "forget", "history", "note_pattern", "patterns", "recall", "remember"]

_ROOT, _AGENT = "TOOLYARD_PACKAGES", "TOOLYARD_AGENT"
_ID_BYTES = 8


def folder(agent: str = "") -> str:
    """Returns the folder of the agent's own memory, or another agent's.

    Raises PermissionError if it is not visible.
    """
    root, own = os.environ.get(_ROOT, ""), os.environ.get(_AGENT, "")
    if not root or not own:
        raise RuntimeError("There is no agent memory here: the code runs outside of code mode.")
    if "/" in agent or agent in {".", ".."}:
        raise ValueError(f"{agent!r} is not the name of an agent.")
    path = os.path.join(root, "agents", agent or own, "memory")
    if agent and agent != own and not os.path.isdir(path):
        raise PermissionError(
            f"The memory of {agent!r} is not open to {own!r} (allow_read_from in the configuration)."
        )
    return path


def facts(agent: str = "") -> list[Any]:
    """Returns every fact of `core_memories.json`: an object, or whatever another program wrote."""
    return _read(folder(agent), entries.FACTS, parse_list)


def remember(text: str, topic: str = "", metadata: dict[str, Any] | None = None, agent: str = "") -> Any:
    """Stores a fact and returns its entry. A fact with the same text and topic is not stored twice."""
    _check("text", text, entries.MOST_TEXT)
    entry: dict[str, Any] = {}
    if topic:
        _check("topic", topic, entries.MOST_TOPIC)
        entry["topic"] = topic
    entry |= {"id": _new_id(), "text": text, "created": entries.utc_timestamp()}
    if metadata:
        entry["metadata"] = _json_copy(metadata)
    stored: list[Any] = []

    def change(known: list[Any]) -> list[Any]:
        same = [each for each in known if (entries.text_of_fact(each), entries.topic_of(each)) == (text, topic)]
        stored[:] = same[:1] or [entry]
        if not same and len(known) >= entries.MOST_FACTS:
            raise ValueError(f"A memory holds at most {entries.MOST_FACTS:,} facts. Forget what is not needed.")
        return known if same else [*known, entry]

    _change_list(folder(agent), entries.FACTS, change)
    return stored[0]


def forget(identity: str, agent: str = "") -> Any:
    """Removes a fact and returns its entry. Raises LookupError if there is none with that id."""
    gone: list[Any] = []

    def change(known: list[Any]) -> list[Any]:
        gone[:] = [each for each in known if entries.fact_id(each) == identity]
        if not gone:
            raise LookupError(f"There is no fact {identity}.")
        return [each for each in known if entries.fact_id(each) != identity]

    _change_list(folder(agent), entries.FACTS, change)
    return gone[0]


def history(agent: str = "") -> list[Any]:
    """Returns every task of `task_history.json`, the oldest first."""
    return _read(folder(agent), entries.HISTORY, parse_list)


def add_task(description: str, outcome: str, agent: str = "", **details: Any) -> dict[str, Any]:
    """Adds a finished task. `details` are further keys; a task whose `id` exists is not added again."""
    _check("description", description, entries.MOST_TEXT)
    _check("outcome", outcome, entries.MOST_TEXT)
    more = _json_copy(details) if details else {}
    identity = more.pop("id", None) or _new_id()
    entry = {
        **more,
        "id": identity,
        "description": description,
        "outcome": outcome,
        "finished": entries.utc_timestamp(),
    }

    def change(known: list[Any]) -> list[Any]:
        if any(entries.entry_field(each, "id") == identity for each in known):
            return known
        return [*known, entry][-entries.MOST_TASKS :]

    _change_list(folder(agent), entries.HISTORY, change)
    return entry


def patterns(agent: str = "") -> list[tuple[str, str]]:
    """Returns the sections of `learned_patterns.md`, as title and text."""
    return entries.patterns_in(_read(folder(agent), entries.PATTERNS, decode_text))


def note_pattern(title: str, text: str, agent: str = "") -> None:
    """Adds a section to `learned_patterns.md`."""
    title = " ".join(title.split())
    _check("title", title, entries.MOST_TITLE)
    _check("text", text, entries.MOST_TEXT)
    _change_file(
        folder(agent),
        entries.PATTERNS,
        lambda data: entries.page_with_pattern(decode_text(data), title, text).encode("utf-8", "replace"),
    )


def recall(question: str, top: int = 10, agent: str = "") -> list[dict[str, Any]]:
    """Returns the entries nearest to a question, the best first, each with `file`, `id`, `text` and `score`."""
    from toolyard_runtime.ranking import rank

    candidates = [(entries.FACTS, entries.fact_id(each), _fact_text(each)) for each in facts(agent)]
    for task in history(agent):
        words = (entries.entry_field(task, key) for key in ("description", "outcome"))
        text_of_task = task if isinstance(task, str) else " ".join(word for word in words if isinstance(word, str))
        candidates.append((entries.HISTORY, str(entries.entry_field(task, "id") or ""), text_of_task))
    candidates += [(entries.PATTERNS, title, text) for title, text in patterns(agent)]
    best = rank(question, [f"{identity} {text}" for _, identity, text in candidates], top)
    return [
        {"file": file, "id": identity, "text": text, "score": round(score, 4)}
        for score, position in best
        for file, identity, text in (candidates[position],)
    ]


def _fact_text(entry: object) -> str:
    topic = entries.topic_of(entry)
    return f"{topic}: {entries.text_of_fact(entry)}" if topic else entries.text_of_fact(entry)


def _read(place: str, name: str, parse: Callable[[bytes], Any]) -> Any:
    data = shared_file.read(place, name, entries.FILE_BYTES) or b""
    try:
        return parse(data)
    except UnreadableFile as error:
        raise UnreadableFile(f"{place}/{name} {error}. Correct the file, or move it away.") from None


def _change_list(place: str, name: str, transform: Callable[[list[Any]], list[Any]]) -> None:
    _change_file(place, name, lambda data: write_list(transform(parse_list(data))))


def _change_file(place: str, name: str, transform: Callable[[bytes], bytes]) -> None:
    try:
        shared_file.change(place, name, transform, entries.FILE_BYTES)
    except UnreadableFile as error:
        why = f"{place}/{name} {error}. It was left as it is: correct the file, or move it away."
        raise UnreadableFile(why) from None


def _check(field: str, text: str, most: int) -> None:
    if not text.strip() or len(text) > most:
        raise ValueError(f"{field}: must have 1 to {most:,} characters.")


def _json_copy(values: dict[str, Any]) -> dict[str, Any]:
    import json

    text = json.dumps(values, allow_nan=False)
    if len(text) > entries.MOST_METADATA:
        raise ValueError(f"metadata: has more than {entries.MOST_METADATA:,} characters.")
    return json.loads(text)


def _new_id() -> str:
    return os.urandom(_ID_BYTES).hex()
