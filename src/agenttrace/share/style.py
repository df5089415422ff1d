"""The style sheet of a shared HTML file: light and dark as the reader's system is set, and for paper."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--ink:#1d2024;--soft:#5a5e65;--line:#dfdcd4;--back:#fdfcfa;--card:#f4f3ef;--bad:#a72f24;
--ask:#e4e7f3;--accent:#34509c;--add:#e2f0e4;--cut:#f8e3df;--mask:#f7dd8b;--note:#f6ead2;
--key:#34509c;--str:#1f6331;--num:#7d4a05;--fun:#7a3b78}
@media (prefers-color-scheme:dark){:root{--ink:#e3e3df;--soft:#a3a8ae;--line:#2f343a;--back:#15181b;--card:#1c2024;
--bad:#f2938a;--ask:#262d3d;--accent:#9db4f2;--add:#183226;--cut:#3d2222;--mask:#5c4a14;--note:#33291a;
--key:#9db4f2;--str:#8fcf9c;--num:#e5b87a;--fun:#dba4da}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.25rem 4rem;max-width:64rem;background:var(--back);color:var(--ink);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif}
h1{font-size:1.4rem;line-height:1.3;margin:0 0 1rem;overflow-wrap:anywhere}
h2{display:flex;flex-wrap:wrap;gap:0 .75rem;align-items:baseline;font-size:.95rem;margin:2.25rem 0 .75rem;
padding-bottom:.25rem;border-bottom:1px solid var(--line)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:0 0 1rem}
dt,.figures,.label,.role,.head,.remark,.path,footer{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere} p{margin:0 0 .5rem}
.figures{font-weight:400;font-size:.86em;font-variant-numeric:tabular-nums;margin-left:.75rem}
h2 .figures,.head .figures,summary .figures{margin-left:auto;padding-left:.75rem;text-align:right}
.head,summary{display:flex;flex-wrap:wrap;align-items:baseline;gap:0 .5rem}
.head,.label,.role,.path,.remark{font-size:.86em;margin:.75rem 0 .2rem}
.head .role,.head .figures{font-size:1em}
.role{font-weight:600} .head .role{color:var(--accent)} .path{margin:.4rem 0 .2rem}
code,pre{font:12.5px/1.5 ui-monospace,"SF Mono","Cascadia Mono",Consolas,"Liberation Mono","Noto Sans Mono CJK SC",
monospace;unicode-bidi:plaintext;tab-size:4}
pre{margin:0 0 .5rem;padding:.5rem .75rem;border-radius:6px;background:var(--card);white-space:pre-wrap;
overflow-wrap:anywhere}
pre.prompt,pre.text{font:inherit} pre.prompt{background:var(--ask)} pre.text{background:none;padding:0}
pre.thinking{font:inherit;font-style:italic;color:var(--soft);background:none;padding:0}
pre.error{border-left:3px solid var(--bad)} pre.command{font-weight:600}
.hk{color:var(--key)} .hs{color:var(--str)} .hn{color:var(--num)} .hf{color:var(--fun)} .hc{color:var(--soft)}
.piece{display:block;content-visibility:auto;contain-intrinsic-size:auto 40rem}
.diff{padding:.35rem 0} .diff>span{display:block;padding:0 .75rem}
.added{background:var(--add)} .removed{background:var(--cut)} .skipped{color:var(--soft)}
.text{max-width:52rem;overflow-wrap:anywhere} .text>:first-child{margin-top:0}
.text p,.text ul,.text ol,.text blockquote,.text table{margin:0 0 .6rem} .text ul,.text ol{padding-left:1.4rem}
.text li>p{margin:0} .text .heading{font-weight:600;margin-top:.8rem}
.text code{background:var(--card);border-radius:4px;padding:.1em .3em} .text pre code{padding:0}
.text blockquote{border-left:3px solid var(--line);padding-left:.75rem;color:var(--soft)}
.text hr{border:0;border-top:1px solid var(--line)} a{color:var(--accent)}
table{border-collapse:collapse;max-width:100%} th,td{border:1px solid var(--line);padding:.2rem .5rem;text-align:left;
overflow-wrap:anywhere} .outcomes table{width:100%} .outcomes td{border:0;border-top:1px solid var(--line)}
.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;color:var(--soft)}
details{margin:.4rem 0;border:1px solid var(--line);border-radius:6px;padding:.3rem .75rem}
details[open]{padding-bottom:.5rem} summary{cursor:pointer;list-style-position:outside}
summary::before{content:"▸";color:var(--soft);font-size:.8em} details[open]>summary::before{content:"▾"}
summary:focus-visible,a:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
details[open]>summary{margin-bottom:.4rem} .aside{border:0;padding:0;color:var(--soft)}
.tool.error{border-color:var(--bad);border-left-width:3px} .error>summary b,.error>h2 bdi{color:var(--bad)}
.glimpse{flex:0 1 auto;min-width:0;max-width:75%;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;
color:var(--soft)} details[open]>summary .glimpse{display:none}
mark{background:var(--mask);color:inherit;border-radius:3px;padding:0 .15em}
.notes{list-style:none;margin:.4rem 0 .75rem;padding:0} .notes li{display:flex;flex-wrap:wrap;align-items:baseline;
padding:.25rem .75rem;border-left:3px solid var(--mask);background:var(--note);white-space:pre-wrap;
overflow-wrap:anywhere} .notes .figures{margin-left:auto;padding-left:.75rem}
section section,section section .tool{margin-left:0} .tool section{margin-left:.5rem} .tool h2{margin-top:.75rem}
bdi{unicode-bidi:isolate} footer{margin-top:3rem;font-size:.85em;border-top:1px solid var(--line);padding-top:.75rem}
@media (max-width:40rem){body{padding:1rem .75rem 3rem} dl{grid-template-columns:1fr;gap:0} dd{margin-bottom:.35rem}
.glimpse{max-width:100%}}
@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--back:#fff;--card:#fff;--bad:#900;--ask:#fff;--accent:#225;
--add:#e6f2e8;--cut:#f9e6e3;--mask:#eee;--note:#fff;--key:#225;--str:#141;--num:#520;--fun:#414}
body{max-width:none;padding:0;font-size:11px} code,pre{font-size:10px} pre{border:1px solid var(--line)}
h2,.head,summary{break-after:avoid} tr,.notes li{break-inside:avoid} summary::before{content:""}
mark,.added,.removed{print-color-adjust:exact} mark{outline:1px solid #999}
details::details-content,.piece{content-visibility:visible;block-size:auto}}
"""
