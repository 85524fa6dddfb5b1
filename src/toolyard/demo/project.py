"""The small example project that the demo's agent works on."""

from __future__ import annotations

import os

WORKSPACE = "shop"
PRIVATE_FILE = "private/keys.txt"
"""A file beside the workspace that agents must not read."""

_FILES = {
    "README.md": "# Shop\n\nPrices, carts and receipts of a small bookshop.\n",
    ".gitignore": "build/\n",
    "build/bundle.py": "TAX_RATE = 0.19  # generated; searches should not find this\n",
    "shop/__init__.py": "",
    "shop/pricing.py": (
        '"""Prices, in cents."""\n'
        "\n"
        "TAX_RATE = 0.19\n"
        "\n"
        "\n"
        "def gross(net: int) -> int:\n"
        '    """The price a customer pays."""\n'
        "    return round(net * (1 + TAX_RATE))\n"
        "\n"
        "\n"
        "def discounted(net: int, percent: int) -> int:\n"
        "    return net - net * percent // 100\n"
    ),
    "shop/cart.py": (
        "from shop.pricing import TAX_RATE, discounted, gross\n"
        "\n"
        "\n"
        "class Cart:\n"
        "    def __init__(self) -> None:\n"
        "        self.items: list[int] = []\n"
        "\n"
        "    def add(self, net: int) -> None:\n"
        "        self.items.append(net)\n"
        "\n"
        "    def total(self, percent: int = 0) -> int:\n"
        "        return gross(discounted(sum(self.items), percent))\n"
        "\n"
        "    def receipt(self) -> str:\n"
        '        return f"{self.total()} cents, {TAX_RATE:.0%} tax included"\n'
    ),
    "tests/test_cart.py": (
        "from shop.cart import Cart\n"
        "\n"
        "\n"
        "def test_the_discount_comes_off_the_net_price():\n"
        "    cart = Cart()\n"
        "    cart.add(1000)\n"
        "    assert cart.total(percent=10) == 1071\n"
    ),
}


def make_project(folder: str) -> str:
    """Writes the project and the private file beside it; returns the workspace's path."""
    workspace = os.path.join(folder, WORKSPACE)
    for name, text in _FILES.items():
        _write(os.path.join(workspace, name), text)
    _write(os.path.join(folder, PRIVATE_FILE), "nothing an agent may see\n")
    return workspace


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
