#pragma once

#include <string_view>

namespace forerun::cli::report {

// Colours: after Okabe and Ito (2008), darkened to a contrast of at least 3 with the page; shapes
// repeat what they say. The page stays well-formed XML, so no "<" and no "&" here.
inline constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --panel: #f5f7f9; --ink: #1b2026; --soft: #57606a;
  --line: #d5dbe1; --grid: #e6eaee; --good: #116329; --bad: #b3261e; --warn: #7d4e00;
  --s0: #78818b; --s1: #0072b2; --s2: #d4560a; --s3: #0e9a7c; --s4: #8f2d6b; --s5: #3d97e6;
  --s6: #6b3a00; --s7: #30363d; --s8: #a09600;
  --p-drafter: #86a8d4; --p-target: #2f4b7c; --p-rest: #c9ced6; --label: 13rem; }
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #0f1318; --panel: #181e25; --ink: #e4e8ed; --soft: #9aa4b0; --line: #323a44;
    --grid: #232a32; --good: #5fd082; --bad: #ff9c92; --warn: #f0b95a;
    --s0: #8b949e; --s1: #4ba3e3; --s2: #f0803c; --s3: #2bb893; --s4: #e08fbd; --s5: #a5d8f7;
    --s6: #e6b13c; --s7: #dfe4ea; --s8: #f0e442;
    --p-drafter: #b4d0f5; --p-target: #5b86c9; --p-rest: #5d6672; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; padding: 40px 28px 56px; max-width: 1000px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
  Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 2rem; line-height: 1.2; letter-spacing: -.015em; margin: 6px 0 14px; text-wrap: balance; }
h2 { font-size: 1.25rem; letter-spacing: -.005em; margin: 0 0 4px; }
h3 { font-size: .8125rem; font-weight: 600; color: var(--soft); margin: 22px 0 2px; }
p { margin: 0 0 10px; }
section { margin-top: 44px; padding-top: 24px; border-top: 1px solid var(--line); }
.over, .lead, .empty, footer { color: var(--soft); }
.over { font-size: .875rem; margin: 0; }
.lead { max-width: 46rem; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .8125rem; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 12px 14px;
  margin: 0; white-space: pre-wrap; }
.verdict { border-left: 3px solid var(--soft); padding: 1px 0 1px 12px; margin: 0 0 10px; }
.verdict b, .good { color: var(--good); } .verdict.good { border-color: var(--good); color: inherit; }
.verdict.bad b, .bad { color: var(--bad); } .verdict.bad { border-color: var(--bad); color: inherit; }
.verdict.warn b, .warn { color: var(--warn); } .verdict.warn { border-color: var(--warn); color: inherit; }
.verdict.plain b { color: var(--ink); }
dl { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 12px 20px;
  margin: 22px 0; }
dl .wide { grid-column: span 2; }
dt { color: var(--soft); font-size: .8125rem; } dd { margin: 0; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 6px 0 6px 16px; border-bottom: 1px solid var(--grid);
  vertical-align: top; overflow-wrap: normal; }
thead th { font-weight: 500; color: var(--soft); border-bottom-color: var(--line); vertical-align: bottom; }
tbody th, td.name, th.name, thead th:first-child { text-align: left; font-weight: 500; overflow-wrap: anywhere;
  min-width: 7.5rem; }
th:first-child { padding-left: 0; } th.count, thead th:first-child:not(.name) { min-width: 0; }
small { font-size: .8125rem; color: var(--soft); }
td:not(.name) { white-space: nowrap; }
.stack-row small { display: inline-block; min-width: 2.9rem; }
details { margin-top: 18px; } summary { cursor: pointer; color: var(--soft); font-size: .875rem; }
details[open] summary { margin-bottom: 8px; }
svg { display: block; overflow: visible; } .shapes { position: absolute; }
svg.key { flex: none; }
text { font-size: 12px; font-variant-numeric: tabular-nums; }
.tick { fill: var(--soft); } .note { fill: var(--soft); } .value, .tick.strong { fill: var(--ink); }
.tick.strong, .strong { font-weight: 600; }
.value, .note { paint-order: stroke; stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke: var(--grid); } .base { stroke: var(--soft); }
.one { stroke: var(--ink); stroke-width: 1.5; }
.reference { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 5 4; fill: none;
  vector-effect: non-scaling-stroke; }
.curve { fill: none; stroke: var(--c); stroke-width: 2.25; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.saved { fill: var(--s1); opacity: .07; }
.fill { fill: var(--c); } .fill.slower { fill-opacity: .3; stroke: var(--c); stroke-width: 1; }
.mark { fill: var(--c); stroke: var(--page); stroke-width: 1; }
.mark.hollow { fill: var(--page); stroke: var(--c); stroke-width: 1.75; }
.reach { fill: transparent; }
.part { stroke: var(--page); stroke-width: 1; } .p-drafter { fill: var(--p-drafter); }
.p-target { fill: var(--p-target); } .p-rest { fill: var(--p-rest); }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); } .s6 { --c: var(--s6); } .s7 { --c: var(--s7); }
.s8 { --c: var(--s8); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 10px 0; padding: 0;
  font-size: .875rem; }
.legend li, .label.wraps, .keyed { display: flex; align-items: center; gap: 7px; }
.group { display: grid; grid-template-columns: var(--label) minmax(0, 1fr); column-gap: 16px;
  break-inside: avoid; align-items: start; }
.label { font-size: .875rem; line-height: 1.25; }
.label:not(.wraps) { overflow: hidden; white-space: nowrap; text-overflow: ellipsis; line-height: 22px; }
.label.wraps { min-height: 34px; }
.bar-row { display: grid; grid-template-columns: 14px minmax(0, 1fr) 4.6rem 4rem 3.1rem; column-gap: 10px;
  align-items: center; font-size: .875rem; font-variant-numeric: tabular-nums; text-align: right; }
.head { color: var(--soft); font-size: .8125rem; } .head .bar-row { align-items: end; font-size: .8125rem; }
.group + .group { margin-top: 5px; } .by-category .group + .group { margin-top: 3px; }
.by-category.paired .group + .group { margin-top: 11px; }
.tight .bar-row { font-size: .75rem; line-height: 16px; } .tight .label { line-height: 16px; }
.tight svg.key { transform: scale(.8); }
.by-category .head { position: sticky; top: 0; background: var(--page); z-index: 1; padding-bottom: 2px; }
.plot { padding: 4px 16px 52px 58px; } .unit { margin: 0 0 12px -58px; font-size: .8125rem; color: var(--soft); }
.stack-row { display: grid; grid-template-columns: var(--label) minmax(0, 1fr) 6.6rem 6.6rem 6.6rem 3.6rem;
  column-gap: 12px; align-items: center; text-align: right; font-size: .875rem;
  font-variant-numeric: tabular-nums; margin-top: 6px; break-inside: avoid; }
.stack-row.head { font-size: .8125rem; } .stack-row .label { text-align: left; } .stack-row i { display: none; }
.smalls { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 260px), 1fr)); gap: 28px 36px;
  margin-top: 18px; }
.small { margin: 0 0 22px; break-inside: avoid; }
figcaption { display: flex; align-items: center; gap: 7px; font-size: .875rem; margin-bottom: 22px; }
figcaption span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
figcaption small { margin-left: auto; white-space: nowrap; }
footer { margin-top: 48px; border-top: 1px solid var(--line); padding-top: 14px; font-size: .8125rem; }
@media screen and (max-width: 760px) {
  body { padding: 24px 16px 40px; } h1 { font-size: 1.5rem; }
  dl { grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); }
  .group { grid-template-columns: minmax(0, 1fr); } .label.wraps { min-height: 0; }
  .group .label:not(.wraps) { white-space: normal; overflow: visible; }
  .group + .group, .by-category .group + .group, .by-category.paired .group + .group { margin-top: 8px; }
  .group:not(.head) .bar, .stack-row:not(.head) .bar { overflow: hidden; }
  .bar-row { column-gap: 6px; grid-template-columns: 14px minmax(0, 1fr) 3.2rem 3.2rem 2.4rem; }
  .stack-row { grid-template-columns: repeat(3, 1fr) 3rem; margin-top: 14px; column-gap: 8px; }
  .stack-row.head span { display: none; }
  .stack-row .label, .stack-row .bar { grid-column: 1 / -1; } .stack-row .bar { margin: 2px 0 4px; }
  .stack-row i { display: block; font-style: normal; font-weight: 400; font-size: .75rem; color: var(--soft); }
  .stack-row span { text-align: left; } .stack-row span:last-child { text-align: right; }
  .stack-row .label span { text-align: left; } .stack-row small { min-width: 0; }
  .summary, .summary tbody, .summary th, .summary td { display: block; } .summary thead { display: none; }
  .summary tr { display: grid; grid-template-columns: repeat(6, 1fr); gap: 4px 8px; padding: 10px 0;
    border-bottom: 1px solid var(--grid); }
  .summary th, .summary td { border: 0; padding: 0; text-align: left; grid-column: span 2; white-space: normal; }
  .summary th { grid-column: 1 / -1; } .summary td.counted { grid-column: span 3; order: 1; }
  .summary td::before { content: attr(data-name); display: block; font-weight: 400; font-size: .75rem;
    color: var(--soft); } }
@media print {
  :root { --label: 9.5rem; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, h3, .lead, .legend, .head { break-after: avoid; } .lead, #rounds, #lengths { break-inside: avoid; }
  .plot, .small, tr { break-inside: avoid; } .by-category .head { position: static; }
  details::details-content { content-visibility: visible; height: auto; }
  .scroll { overflow: visible; } }
)css";

}  // namespace forerun::cli::report
