"""The images of one run: figures, images shown with display(), and a last value that is an image."""

from __future__ import annotations

import sys
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64

from toolyard_runtime.notebook_errors import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_IMAGES = 20
MAX_IMAGE_BYTES = 5 * 1024 * 1024
MAX_TOTAL_BYTES = 15 * 1024 * 1024
MAX_NAMED_OMITTED = 10
MAX_NOTES = 20

PNG = "image/png"
_METHODS = (("_repr_png_", PNG), ("_repr_jpeg_", "image/jpeg"))


class ImageCollector:
    """Collects the images of one run within limits, and notes on those that it omits."""

    def __init__(self) -> None:
        self.images: list[dict[str, str]] = []
        self._notes: list[str] = []
        self._total = 0
        self._omitted: list[str] = []

    def add(self, media_type: str, data: bytes, label: str) -> None:
        """Adds an image, or notes that it was left out."""
        if len(data) > MAX_IMAGE_BYTES:
            self.add_note(f"{label} left out: it has {len(data):,} bytes, more than {MAX_IMAGE_BYTES:,}.")
        elif self.is_full() or self._total + len(data) > MAX_TOTAL_BYTES:
            self._omitted.append(label)
        else:
            self._total += len(data)
            self.images.append({"media_type": media_type, "data": b2a_base64(data, newline=False).decode("ascii")})

    def add_figure(self, figure: Any, label: str) -> None:
        """Renders a matplotlib figure as PNG and adds it."""
        if self.is_full():
            self._omitted.append(label)
            return
        import io
        import warnings

        target = io.BytesIO()
        # Warnings while drawing do not point to a line of the agent's code, so they become notes.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                figure.savefig(target, format="png", bbox_inches="tight")
            except Exception as fault:  # noqa: BLE001 (the figure's content is the agent's and may raise anything)
                self.add_note(f"{label} could not be drawn: {summary(fault)}")
                return
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.add_note(f"{label}: {text}")
        self.add(PNG, target.getvalue(), label)

    def add_value(self, value: object) -> bool:
        """Adds the value if it is an image. Returns whether it was."""
        label = f"The image of a {type(value).__name__}"
        if _is_figure(value):
            self.add_figure(value, label)
            return True
        found = False
        try:
            for media_type, data in _encoded_images(value):
                self.add(media_type, data, label)
                found = True
        except Exception as fault:  # noqa: BLE001 (the value's own methods run here)
            self.add_note(f"{label} could not be made: {summary(fault)}")
        return found

    def is_full(self) -> bool:
        return len(self.images) >= MAX_IMAGES

    def add_note(self, text: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(text)

    def notes(self) -> list[str]:
        if not self._omitted:
            return self._notes
        names = ", ".join(self._omitted[:MAX_NAMED_OMITTED])
        more = len(self._omitted) - MAX_NAMED_OMITTED
        names = f"{names} and {more:,} more" if more > 0 else names
        size = MAX_TOTAL_BYTES // (1024 * 1024)
        return [*self._notes, f"Left out, as a run shows at most {MAX_IMAGES} images and {size} MB: {names}."]


class _CurrentRun:
    """The collector of the current run: matplotlib loads its backend by name and passes no arguments."""

    collector: ImageCollector | None = None


def new_image_collector() -> ImageCollector:
    """Returns the collector for a new run."""
    _CurrentRun.collector = ImageCollector()
    return _CurrentRun.collector


def take_figure(figure: Any, label: str) -> None:
    """Adds a figure to the current run, if there is one, and closes it."""
    if _CurrentRun.collector is not None:
        _CurrentRun.collector.add_figure(figure, label)
        close_figure(figure)


def take_open_figures() -> None:
    """Adds and closes the figures that pyplot has open."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):  # absent, or only half imported
        return
    for number in pyplot.get_fignums():
        take_figure(pyplot.figure(number), f"Figure {number}")


def close_figure(value: object) -> None:
    """Closes the value if it is a figure, so that it is not shown again as an open one."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and _is_figure(value):
        pyplot.close(value)


def _is_figure(value: object) -> bool:
    module = sys.modules.get("matplotlib.figure")
    kind = getattr(module, "Figure", None)
    return isinstance(kind, type) and isinstance(value, kind)


def _encoded_images(value: object) -> Iterator[tuple[str, bytes]]:
    # Looked up on the class: objects with every attribute (mocks, proxies) are not images.
    for name, media_type in _METHODS:
        method = getattr(type(value), name, None)
        if method is None:
            continue
        data = _as_bytes(method(value))
        if data:
            yield media_type, data
            return
    if _is_pillow_image(value):
        yield PNG, _pillow_png(value)


def _as_bytes(data: Any) -> bytes | None:
    if isinstance(data, tuple) and data:  # notebooks allow (data, metadata)
        data = data[0]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(data, str):
        try:
            return a2b_base64(data)
        except (Base64Error, ValueError):
            return None
    return bytes(data) if isinstance(data, bytes | bytearray) else None


def _is_pillow_image(value: object) -> bool:
    module = sys.modules.get("PIL.Image")
    kind = getattr(module, "Image", None)
    return isinstance(kind, type) and isinstance(value, kind)


def _pillow_png(value: Any) -> bytes:
    import io

    target = io.BytesIO()
    value.convert("RGB").save(target, "PNG")
    return target.getvalue()
