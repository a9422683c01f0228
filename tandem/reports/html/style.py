"""How the page looks and what its words mean: the colours of hops and statuses, the glossary, the style sheet.

Tables only. A hop has one colour wherever it is drawn; the glossary is what the page ends with.
"""

# Okabe and Ito's colours, which most colour-blind people can tell apart; and the ink that reads on each
HOPS = {
    "sensor": ("#56b4e9", "#111", "sampled → pushed into the DAQ's ring"),
    "ring": ("#009e73", "#fff", "pushed → put on the wire"),
    "wire": ("#0072b2", "#fff", "put on the wire → in the ring the simulator reads"),
    "wait": ("#e69f00", "#111", "there → taken by a step"),
    "step": ("#cc79a7", "#111", "taken → the step's result is there (not part of the age)"),
}
AGE_HOPS = ("sensor", "ring", "wire", "wait")
GREY, BAD = "#8a8f98", "#d55e00"
# by the bit of the status word; one that is new to this table is still shown, in grey
STATUS_COLOURS = {1: BAD, 2: "#e69f00", 4: "#0072b2", 8: "#cc79a7", 16: "#7b3294", 32: "#000", 128: "#009e73", 256: BAD}
STATUS_COLOURS |= {512: "#56b4e9"}


WORDS = {
    "Age at use": "from the sample instant until the step takes the block: sensor + ring + wire + wait.",
    "Hops": "; ".join(f"{name}: {meaning}" for name, (_, _, meaning) in HOPS.items()) + ". Over shared memory ring and"
    " wire are 0 and the wait begins with the push.",
    "Transfer": "from the push into the DAQ's ring until the block can be read from the ring the simulator reads.",
    "Lateness": "from a step's planned to its real start.",
    "Step cost": "from a step's start until its result is pushed.",
    "Deadline miss": "a step not finished when the next is due; “deadline missed” marks the step after it.",
    "Used, superseded, lost": "a block a step took; one no step took because a newer one was there; the rest.",
    "p50, p99, p99.9": "half, 99 %, 99.9 % of the steps were at or below it. A run's own figures come from"
    " histograms exact to 1.6 % (their largest is exact); pictures and worst steps come from the steps recorded.",
    "Known to ±": "how far the clocks of two hosts may be apart; empty where one clock stamps everything.",
    "Locked, holdover": "a step whose instant follows the arrival of blocks; one that did, but had no block to follow.",
    "Epoch": "changes at every gap in the input: a restart, a reconnection, an overrun.",
}

STYLE = """
:root{--paper:#fff;--ink:#1b1f24;--soft:#5b636e;--grid:#e4e7eb;--axis:#9aa1ab;--tint:#f5f7f9;color-scheme:light dark}
@media screen and (prefers-color-scheme:dark){
:root{--paper:#14171b;--ink:#e8eaed;--soft:#a2aab4;--grid:#2b3037;--axis:#68707a;--tint:#1c2026}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
main{max-width:1088px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:15px;font-weight:600;color:var(--soft);margin:0 0 14px;letter-spacing:.02em}
h2{font-size:21px;margin:52px 0 2px;font-weight:650}
h3{font-size:15px;margin:18px 0 2px}
.headline{font-size:25px;line-height:1.35;font-weight:600;margin:0 0 10px;max-width:34em;text-wrap:pretty}
.headline b{color:var(--soft);font-weight:600}
.many .headline{font-size:17px;max-width:none;margin-bottom:4px}
.many .figures{margin-top:16px}
.lead{color:var(--soft);margin:0 0 2px;max-width:62em}
.lead:last-of-type{margin-bottom:14px}
.absent{color:var(--soft);border-left:3px solid var(--axis);background:var(--tint);padding:7px 12px;margin:8px 0}
svg{display:block;width:100%;height:auto;margin:6px 0 10px;overflow:visible}
svg.mini{width:150px;margin:0}
text{font:12px system-ui,"Segoe UI",Roboto,sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
text.tick,text.note{fill:var(--soft);font-size:11.5px}
text.note{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
.spot{fill:none;stroke:var(--ink);stroke-width:1.4}
text.label{font-weight:600;font-size:12.5px}
text.strong{font-weight:600;font-size:13.5px}
text.in{font-size:12.5px;font-weight:600}
path{fill:none}
.grid{stroke:var(--grid);stroke-width:1}
.axis{stroke:var(--axis);stroke-width:1}
.rule{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:5 4}
.curve{stroke-width:1.5;stroke-linejoin:round}
path.band{opacity:.42;stroke-width:.8}
path.mark,path.cap{fill:inherit}
.mark{opacity:.22}
.hover{opacity:0}.hover:hover{opacity:.07}
path.until{fill:var(--ink)}
.part{stroke:var(--paper);stroke-width:1}
.range path{stroke-linecap:butt}
.pairs{display:grid;grid-template-columns:1fr 1fr;gap:16px 24px}
@media screen and (max-width:760px){.pairs{grid-template-columns:1fr}}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums;margin:8px 0 4px}
th{font-weight:600;color:var(--soft);text-align:right;padding:5px 9px;border-bottom:1px solid var(--axis)}
th{vertical-align:bottom}
td{text-align:right;padding:5px 9px;border-bottom:1px solid var(--grid);white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}
.hops td:nth-child(-n+3),.hops th:nth-child(-n+3){text-align:left}
.worst td:nth-child(n+5),.worst th:nth-child(n+5){text-align:left}
.worst td:last-child{white-space:normal;min-width:13em}
.beside td:last-child,.beside th:last-child{text-align:left;white-space:normal;min-width:20em}
td.text,th.text{text-align:left}td.text:not(:first-child){white-space:normal}td.good{color:#0a7d55}
td.bad,.note.bad{color:#d55e00;font-weight:600}.note{margin:2px 0;max-width:72em}.note.warn{color:#b06f00}
header .note{font-size:14px}footer{margin-top:48px;font-size:13px}
.swatch{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 20px;font-size:13.5px}
dt{font-weight:600}dd{margin:0;color:var(--soft)}
@page{size:A4 landscape;margin:11mm}
@media print{main{padding:0;max-width:none}h2{margin-top:26px}h2,h3,.lead{break-after:avoid}section{break-inside:avoid}
#worst,#hops,#age,#motion{break-inside:auto}svg,tr{break-inside:avoid}.scroll{overflow:visible}th,td{padding:4px 6px}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
