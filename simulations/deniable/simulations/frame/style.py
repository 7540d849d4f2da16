"""How a page of a study looks: light and dark, on paper, from 320 px on."""

from deniable.simulations.frame.figures import ON_DARK

_DARK = "; ".join(f"--c{light[1:]}: {dark}" for light, dark in ON_DARK.items())
STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --faint: #5c6370; --line: #d8dbe0;
  --soft: #f4f5f7 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --paper: #16181c; --faint: #a9afbb; --line: #3a3f47; --soft: #1f2228; %s }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 56rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.25; text-wrap: balance }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem }
.finding { font-size: 1.1rem } figure { margin: 1.8rem 0 .4rem } a { color: inherit }
.wide { overflow-x: auto } .wide svg { display: block; width: 100%; min-width: 34rem; height: auto }
.wide:focus-visible, pre:focus-visible { outline: 2px solid currentColor; outline-offset: 2px }
figcaption, .faint { color: var(--faint) } .files { color: var(--faint); font-size: .9rem }
table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left }
pre { font-size: .85rem; overflow-x: auto; padding: .8rem; background: var(--soft) }
dt { margin-top: .9rem } dd { margin: .3rem 0 0 } math { font-size: 1.15rem; text-align: left }
mfrac > * { padding-block: .1em }
math[display="block"] { display: block math; width: max-content; margin: .2rem 0 }
details { margin: .6rem 0 } summary { cursor: pointer; padding: .25rem 0 }
.cards { list-style: none; padding: 0; display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)) }
.cards li { border: 1px solid var(--line); padding: 1rem }
.cards h2 { margin: 0 0 .4rem } .cards p { margin: .6rem 0 0; font-size: .95rem }
.cards img { display: block; width: 100%; height: auto }
@media (prefers-color-scheme: dark) { .cards img { filter: invert(1) hue-rotate(180deg) } }
body:has(.cards) { max-width: 76rem }
@media print {
  body, body:has(.cards) { max-width: none; padding: 0; color: #000; background: #fff }
  .wide, pre { overflow: visible } .wide svg { min-width: 0 } pre { white-space: pre-wrap }
  figure, .cards li, dd, tr { break-inside: avoid } h2 { break-after: avoid }
  .cards img { filter: none } table { font-size: .7rem } nav { display: none }
}
""".replace("%s", _DARK)
