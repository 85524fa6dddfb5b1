"""Renders the catalogue as an HTML page without scripts or external resources. Pure.

Descriptions and schemas may come from upstream servers, so every string is escaped, and the content security policy
allows only the page's own style.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from toolyard import __version__

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2rem 0 .25rem; font-size: 1.15rem; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: 6px; }
small { margin-left: .5rem; padding: 0 .5rem; border: 1px solid #8886; border-radius: 1rem; font-weight: normal; }
p { margin: .25rem 0; white-space: pre-line; }
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
_USAGE = """curl --no-buffer "$ADDRESS/execute" --header "Authorization: Bearer $TOOLYARD_TOKEN" \\
    --header "Content-Type: application/json" --data '{"tool_name": "NAME", "args": {}}'"""


def docs_page(tools: Sequence[Mapping[str, Any]]) -> str:
    """Returns the page for a catalogue."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Toolyard</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Toolyard {escape(__version__)}</h1>\n"
        f"<p>{len(tools)} tools here. <code>GET /tools</code> lists them. <code>POST /execute</code> runs "
        "one and answers with JSON objects, one a line: <code>progress</code>, <code>output</code>, and last a "
        "<code>result</code> or an <code>error</code>. <code>GET /openapi.json</code> is for programs.</p>\n"
        f"<pre>{escape(_USAGE)}</pre>\n{''.join(map(_tool_section, tools))}</body>\n</html>\n"
    )


def _tool_section(tool: Mapping[str, Any]) -> str:
    marks = [
        "read only" if tool["read_only"] else "changes files" if tool["destructive"] else "adds",
        "may be repeated" if tool["idempotent"] else "once",
    ]
    marks_html = "".join(f"<small>{escape(mark)}</small>" for mark in marks)
    return (
        f"<section>\n<h2><code>{escape(tool['name'])}</code>{marks_html}</h2>\n<p>{escape(tool['description'])}</p>\n"
        f"{_schema_details('args', tool['input_schema'])}"
        f"{_schema_details('structured', tool['output_schema'])}</section>\n"
    )


def _schema_details(title: str, schema: Mapping[str, Any]) -> str:
    text = escape(json.dumps(schema, indent=2, ensure_ascii=False))
    return f"<details><summary><code>{title}</code></summary><pre>{text}</pre></details>\n"
