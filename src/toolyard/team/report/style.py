"""Style sheet of the report: light or dark like the reader's system, and plain on paper."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--ink:#1f2328;--dim:#667078;--line:#e3e1dc;--soft:#f3f1ec;
--accent:#0b6e75;--good:#1a7f4b;--bad:#c23934;--warn:#9a6700;--add:#e3f6e8;--del:#fdeaea;--hunk:#eef3fb;
--bar:#7fb8bd;--bar2:#a9c9b0}
@media (prefers-color-scheme:dark){:root{--bg:#15181b;--card:#1c2024;--ink:#e4e6e8;--dim:#98a1a9;--line:#30363c;
--soft:#23282d;--accent:#5cc2c9;--good:#58c98a;--bad:#f0837e;--warn:#e0b34c;--add:#173524;--del:#40201f;--hunk:#1d2a3d;
--bar:#2f7379;--bar2:#3d6b4b}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1060px;margin:0 auto;padding:2.2rem 1.4rem 4rem}
h1{font-size:1.05rem;font-weight:600;color:var(--dim);margin:0 0 .3rem}
h1 code{color:var(--ink)}
h2{font-size:1.25rem;margin:2.8rem 0 .9rem}
h3{font-size:1.05rem;margin:1.8rem 0 .6rem}
.task{font-size:1.45rem;line-height:1.35;font-weight:600;margin:.2rem 0 1rem;white-space:pre-wrap;
overflow-wrap:anywhere}
.task.long{font-size:1rem;font-weight:400;max-height:16rem;overflow:auto}
.dim{color:var(--dim)}
.why{margin:.4rem 0 0}
.pill{display:inline-block;padding:.1rem .7rem;border-radius:99px;font-size:.85rem;font-weight:600;
border:1px solid currentColor;margin-right:.6rem}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:.8rem;margin:1.4rem 0 0}
.figure{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.7rem .9rem}
.figure b{display:block;font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums}
.figure span{display:block;color:var(--dim);font-size:.82rem;line-height:1.4}
nav{margin:1.2rem 0 0;font-size:.9rem}
nav a{margin-right:1.1rem}
a{color:var(--accent);text-underline-offset:2px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem 1.2rem;
overflow-wrap:anywhere}
.card.won{border-color:var(--good)}
.text>:first-child{margin-top:0}.text>:last-child{margin-bottom:0}
.text p,.text ul,.text ol{margin:.6rem 0}
.text h1,.text h2,.text h3{font-size:1.05rem;color:inherit;margin:1rem 0 .4rem}
.text pre{margin:.7rem 0}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{background:var(--soft);padding:.1em .35em;border-radius:4px;overflow-wrap:anywhere}
pre{background:var(--soft);border-radius:8px;padding:.7rem .9rem;margin:.4rem 0;overflow:auto;max-height:34rem;
white-space:pre-wrap;overflow-wrap:anywhere;tab-size:4}
pre code{background:none;padding:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th{text-align:left;font-weight:600;color:var(--dim);font-size:.82rem;white-space:nowrap}
th,td{padding:.45rem .7rem .45rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
tr:last-child td{border-bottom:0}
.scroll td:not(.n){min-width:6rem}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
svg.line{display:block;width:100%;height:auto;font:11px system-ui,sans-serif}
.line .grid{stroke:var(--line)}.line .mark{fill:var(--dim);text-anchor:middle}
.line .lane{fill:var(--ink);text-anchor:end;font-size:13px;font-weight:600}
.line .bar.odd{fill:var(--bar)}.line .bar.even{fill:var(--bar2)}.line .bar.failed{fill:var(--bad);opacity:.55}
.line .tick{fill:var(--ink);opacity:.55}.line .tick.wrong{fill:var(--bad);opacity:1}
.line .wait{fill:var(--warn)}.line .answer{fill:var(--card);stroke:var(--good);stroke-width:3}
.line .vote{fill:var(--good);stroke:var(--card);stroke-width:2}
.legend{color:var(--dim);font-size:.82rem;margin:.5rem 0 0}
details{margin:.35rem 0}
summary{cursor:pointer;list-style-position:inside}
summary:hover{color:var(--accent)}
details.part{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.7rem 1.2rem;
margin:.8rem 0}
details.part>summary{font-weight:600}
details.part>summary .dim{font-weight:400;margin-left:.5rem}
.step{margin:.55rem 0;padding-left:.9rem;border-left:2px solid var(--line);overflow-wrap:anywhere}
.step.thought{font-style:italic;color:var(--dim)}
.step.wrong{border-left-color:var(--bad)}.step.right{border-left-color:var(--good)}
.step.note{color:var(--warn)}.step.files{border-left-color:var(--accent)}
.step summary code:first-of-type{font-weight:600}
.label{color:var(--dim);font-size:.8rem;margin:.5rem 0 0}
details.file{border:1px solid var(--line);border-radius:8px;background:var(--card);margin:.6rem 0;padding:.4rem .8rem}
.plus{color:var(--good)}.minus{color:var(--bad)}
pre.diff{padding:.5rem 0;background:var(--card);white-space:pre;overflow-wrap:normal}
pre.diff code{display:inline-block;min-width:100%}
pre.diff span{display:block;min-height:1.5em;padding:0 .8rem}
.diff .add{background:var(--add)}.diff .del{background:var(--del)}.diff .hunk{background:var(--hunk);color:var(--dim)}
.diff .head,.diff .note{color:var(--dim)}
footer{margin-top:3rem;color:var(--dim);font-size:.85rem}
@media print{body{background:#fff;font-size:11pt}main{max-width:none;padding:0}nav{display:none}
pre{max-height:none;white-space:pre-wrap!important}.card,details.part,.figure{break-inside:avoid-page;border-color:#ccc}
details::details-content{content-visibility:visible;height:auto}}
"""
