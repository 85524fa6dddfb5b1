"""A matplotlib backend that hands shown figures to the notebook: `MPLBACKEND=module://toolyard_runtime.matplotlib_backend`.

`plt.show()` and `figure.show()` add the figures to the images of the run that is going on. Outside a notebook nothing
is shown, as with Agg.
"""

from __future__ import annotations

from typing import Any

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from toolyard_runtime import notebook_images


class FigureManager(FigureManagerBase):
    """Sends shown figures to the notebook."""

    def show(self) -> None:
        notebook_images.take_figure(self.canvas.figure, f"Figure {self.num}")

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        del block
        notebook_images.take_open_figures()


class FigureCanvas(FigureCanvasAgg):
    manager_class: Any = FigureManager
