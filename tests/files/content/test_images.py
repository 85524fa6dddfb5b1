from __future__ import annotations

import io

import pytest
from PIL import Image as Pillow

from toolyard.core.calls import Image
from toolyard.core.errors import ToolError
from toolyard.files.content.images import IMAGE_BYTES, ImageInfo, load_image, measure_image


def picture(kind: str, **options) -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", (37, 21), (200, 30, 60)).save(out, kind, **options)
    return out.getvalue()


PICTURES = [
    pytest.param(picture("PNG"), "image/png", id="png"),
    pytest.param(picture("JPEG"), "image/jpeg", id="jpeg"),
    pytest.param(picture("JPEG", progressive=True), "image/jpeg", id="progressive jpeg"),
    pytest.param(picture("GIF"), "image/gif", id="gif"),
    pytest.param(picture("WEBP"), "image/webp", id="lossy webp"),
    pytest.param(picture("WEBP", lossless=True), "image/webp", id="lossless webp"),
    pytest.param(picture("WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0"), "image/webp", id="extended webp"),
]


@pytest.mark.parametrize(("data", "media_type"), PICTURES)
def test_an_image_is_measured_from_its_header(data, media_type):
    assert load_image(data) == (Image(data, media_type), ImageInfo(media_type, 37, 21))


@pytest.mark.parametrize(("data", "media_type"), PICTURES)
def test_an_image_cut_short_is_refused(data, media_type):
    for length in (12, 20, len(data) // 2, len(data) - 4):
        with pytest.raises(ToolError, match=f"{media_type} image is damaged"):
            measure_image(data[:length])


def test_a_png_with_a_damaged_header_is_refused():
    data = bytearray(picture("PNG"))
    data[18] ^= 0xFF
    with pytest.raises(ToolError, match="damaged"):
        measure_image(bytes(data))


def test_an_image_too_large_for_a_model_is_refused_with_its_size():
    data = picture("PNG") + bytes(IMAGE_BYTES)
    with pytest.raises(ToolError, match=f"too large to be shown: {len(data)} bytes \\(37x21\\)") as refused:
        load_image(data)

    assert refused.value.hint == "Scale it down or save it as JPEG under another name, and read that."


def test_what_is_no_image_is_refused():
    with pytest.raises(ToolError, match="not a PNG, JPEG, GIF or WebP"):
        measure_image(b"BM....")
