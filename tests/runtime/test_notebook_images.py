"""Figures and images come back as images, within limits."""

import base64
import io

import pytest
from PIL import Image

from toolyard_runtime import notebook_images
from toolyard_runtime.notebook_images import ImageCollector

PNG_START = b"\x89PNG\r\n\x1a\n"
DRAW = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);\n"


def kinds(answer) -> list[str]:
    for image in answer["images"]:
        data = base64.b64decode(image["data"], validate=True)
        form = Image.open(io.BytesIO(data)).format
        assert image["media_type"] == f"image/{form.lower()}"
    return [image["media_type"] for image in answer["images"]]


def test_a_figure_left_open_is_an_image_once(talk):
    result = talk(DRAW, "plt.get_fignums()")
    assert kinds(result.answers[0]) == ["image/png"]
    assert result.answers[0]["notes"] == []
    assert result.answers[1]["value"] == "[]"
    assert result.answers[1]["images"] == []
    assert result.err == ["", "", ""]


@pytest.mark.parametrize(
    "show", ["plt.show()", "plt.show(block=True)", "plt.gcf().show()", "display(plt.gcf())", "plt.gcf()"]
)
def test_a_shown_figure_is_an_image_once(talk, show):
    result = talk(DRAW + show)
    assert result.answers[0]["status"] == "ok"
    assert kinds(result.answers[0]) == ["image/png"]
    assert result.err[0] == ""


@pytest.mark.parametrize("show", ["plt.show()", "plt.gcf().show()", "display(plt.gcf())"])
def test_a_figure_is_taken_when_it_is_shown(talk, show):
    assert talk(DRAW + show + "\nprint(plt.get_fignums())").out[0] == "[]\n"


def test_figures_shown_one_after_another_are_all_there(talk):
    answer = talk(
        DRAW + "plt.show()\nplt.figure()\nplt.plot([2, 1])\nplt.show()\nplt.subplots()\nplt.subplots();"
    ).answers[0]
    assert kinds(answer) == ["image/png"] * 4


def test_figures_of_another_backend_are_images_too(talk):
    answer = talk("import matplotlib\nmatplotlib.use('agg')\n" + DRAW).answers[0]
    assert kinds(answer) == ["image/png"]


def test_a_figure_of_code_that_failed_is_kept(talk):
    answer = talk(DRAW + "1 / 0").answers[0]
    assert answer["status"] == "error"
    assert kinds(answer) == ["image/png"]


def test_a_figure_that_cannot_be_drawn_is_a_note(talk):
    result = talk(DRAW + "plt.title('$\\\\frac{$');", "plt.get_fignums()")
    assert result.answers[0]["status"] == "ok"
    assert result.answers[0]["images"] == []
    assert result.answers[0]["notes"][0].startswith("Figure 1 could not be drawn: ValueError:")
    assert result.answers[1]["value"] == "[]"


def test_what_drawing_warns_of_is_a_note(talk):
    result = talk(DRAW + "plt.title('\\U0001F980');")
    assert kinds(result.answers[0]) == ["image/png"]
    assert "Glyph" in result.answers[0]["notes"][0]
    assert result.err[0] == ""


def test_print_options_of_numpy_hold_between_pieces(talk):
    result = talk("import numpy as np\nnp.set_printoptions(precision=2)", "np.array([1 / 3])")
    assert result.answers[1]["value"] == "array([0.33])"


def test_a_pillow_image_as_the_last_value_is_an_image(notebook):
    answer = notebook.run("from PIL import Image\nImage.new('RGB', (4, 3))")
    assert kinds(answer) == ["image/png"]
    assert answer["value"].startswith("<PIL.Image.Image image mode=RGB size=4x3")


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "F", "I", "LAB", "HSV"])
def test_images_of_every_mode_are_shown(notebook, mode):
    answer = notebook.run(f"from PIL import Image\nImage.new({mode!r}, (4, 3))")
    assert len(kinds(answer)) == 1, answer["notes"]


def test_objects_that_draw_themselves_are_images(notebook):
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2)).save(buffer, "JPEG")
    code = f"class Drawn:\n    def _repr_jpeg_(self): return {buffer.getvalue()!r}\nDrawn()"
    assert kinds(notebook.run(code)) == ["image/jpeg"]
    text = base64.b64encode(buffer.getvalue()).decode()
    code = "class Drawn:\n    def _repr_png_(self): return None\n"
    code += f"    def _repr_jpeg_(self): return {text!r}, {{}}\nDrawn()"
    assert kinds(notebook.run(code)) == ["image/jpeg"]


def test_objects_that_only_seem_to_draw_themselves_are_not(notebook):
    code = "from unittest.mock import MagicMock\nclass Drawn:\n    def _repr_png_(self): return b'x'\n"
    assert notebook.run(code + "MagicMock()")["images"] == []
    assert notebook.run("Drawn")["images"] == []


def test_an_object_that_fails_to_draw_itself_is_a_note(notebook):
    answer = notebook.run("class Drawn:\n    def _repr_png_(self): raise KeyError('ink')\nDrawn()")
    assert answer["status"] == "ok"
    assert answer["notes"] == ["The image of a Drawn could not be made: KeyError: 'ink'"]


def test_display_prints_what_is_no_image(talk):
    result = talk("from PIL import Image\ndisplay('text', Image.new('RGB', (1, 1)), [1], display_id=True)")
    assert result.out[0] == "'text'\n[1]\n"
    assert kinds(result.answers[0]) == ["image/png"]


def test_more_images_than_the_limit_are_named_in_the_notes():
    gallery = ImageCollector()
    for number in range(35):
        gallery.add("image/png", b"x", f"Figure {number}")
    assert len(gallery.images) == 20
    names = ", ".join(f"Figure {number}" for number in range(20, 30))
    assert gallery.notes() == [f"Left out, as a run shows at most 20 images and 15 MB: {names} and 5 more."]


def test_figures_past_the_limit_are_not_even_drawn(talk):
    code = "import matplotlib.pyplot as plt\nfor _ in range(3): plt.figure(figsize=(1, 1));\n"
    code = f"from toolyard_runtime import notebook_images\nnotebook_images.MAX_IMAGES = 2\n{code}"
    result = talk(code, "plt.get_fignums()")
    assert len(result.answers[0]["images"]) == 2
    assert result.answers[0]["notes"][0].endswith("Figure 3.")
    assert result.answers[1]["value"] == "[]"


def test_an_image_too_large_or_past_the_total_is_left_out(monkeypatch):
    monkeypatch.setattr(notebook_images, "MAX_IMAGE_BYTES", 100)
    monkeypatch.setattr(notebook_images, "MAX_TOTAL_BYTES", 150)
    gallery = ImageCollector()
    gallery.add("image/png", b"x" * 101, "The wall")
    gallery.add("image/png", b"x" * 100, "The door")
    gallery.add("image/png", b"x" * 60, "The roof")
    gallery.add("image/png", b"x" * 50, "The key")
    assert [len(base64.b64decode(image["data"])) for image in gallery.images] == [100, 50]
    assert gallery.notes()[0] == "The wall left out: it has 101 bytes, more than 100."
    assert gallery.notes()[1].endswith("The roof.")


def test_without_matplotlib_nothing_happens(talk):
    result = talk("import sys\nsys.modules['matplotlib'] = None\n1", "1 + 1")
    assert [answer["value"] for answer in result.answers] == ["1", "2"]


def test_the_backend_outside_a_notebook_shows_nothing(talk):
    script = "import matplotlib.pyplot as plt; plt.plot([1]); plt.show(); print(plt.get_fignums())"
    code = f"import os, subprocess, sys\nscript = {script!r}\n"
    code += "path = os.pathsep.join(p for p in sys.path if p)\n"
    code += "subprocess.run([sys.executable, '-c', script], env={**os.environ, 'PYTHONPATH': path}, check=True);"
    result = talk(code)
    assert result.answers[0]["error"] is None
    assert result.out[0] == "[1]\n"
    assert result.answers[0]["images"] == []
