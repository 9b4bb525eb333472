"use strict";
// The texts of `data` come from files of any origin: they enter the page as text nodes and attribute values only.
const data = JSON.parse(document.getElementById("data").textContent);

// Elements: h for HTML, s for SVG; "p.lead" is a tag with its classes. Strings become text.
const clean = text =>  // control and direction characters could hide or reorder what follows
  String(text).replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
const maker = space => (name, attributes = {}, ...children) => {
  const [tag, ...classes] = name.split(".");
  const node = document.createElementNS(space, tag);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, clean(value));
  const wanted = children.flat(Infinity).filter(child => child != null && child !== false);
  node.append(...wanted.map(child => child instanceof Node ? child : clean(child)));
  return node;
};
const h = maker("http://www.w3.org/1999/xhtml"), s = maker("http://www.w3.org/2000/svg");

// Numbers; what is none reads "n/a".
const finite = v => typeof v === "number" && Number.isFinite(v);
const fixed = (v, digits, unit = "") =>
  finite(v) ? (Math.abs(v) >= 1e6 ? v.toExponential(1) : v.toFixed(digits)) + unit : "n/a";
const times = v => fixed(v, 2, "\u00d7");
const count = v =>
  !finite(v) ? "n/a" : Math.abs(v) >= 1e15 ? v.toExponential(2) : Math.round(v).toLocaleString("en-US");
const short = v => !finite(v) ? "n/a" : Math.abs(v) >= 1000 ? count(v) : String(Number(v.toPrecision(4)));
const ratio = (part, whole) => whole > 0 && finite(part / whole) ? part / whole : null;
const percent = share => finite(share) ? fixed(100 * share, 0, "\u00a0%") : "n/a";
const highest = (values, least) => Math.max(least, ...values.filter(finite));

// Axes: `at` is a value's place in percent from the low end; values beyond the ends lie on them.
function axis(low, high, ticks, scale = v => v) {
  const from = scale(low), span = scale(high) - from;
  return {low, high, ticks, at: v => Math.min(100, Math.max(0, 100 * (scale(v) - from) / span)) || 0};
}
// From 0 to a round number, with about `wanted` steps.
function linear(top, wanted) {
  top = top > 1e-9 ? Math.min(top, 1e12) : 1;
  const power = 10 ** Math.floor(Math.log10(top / wanted));
  const step = power * ([1, 2, 2.5, 5].find(m => m * power * wanted >= top) ?? 10);
  const steps = Math.ceil(top / step - 1e-9);
  return axis(0, steps * step, Array.from({length: steps + 1}, (_, i) => i * step));
}
// Marks at 1, 2, 5; at powers of ten where those are many, at even steps where they are few.
function logarithmic(low, high) {
  const top = Math.max(high, 1.01 * low);
  const marks = digits => {
    const powers = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(top); ++e) powers.push(10 ** e);
    return powers.flatMap(power => digits.map(d => d * power)).filter(v => v >= low && v <= top);
  };
  let ticks = marks([1, 2, 5]);
  if (ticks.length > 8) ticks = marks([1]);
  const a = axis(low, top, ticks, Math.log);
  if (ticks.length >= 4) return a;
  const step = linear(top - low, 6).ticks[1];
  a.ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= top; v += step) {
    if (!a.ticks.length || a.at(v) - a.at(a.ticks.at(-1)) >= 6) a.ticks.push(v);
  }
  return a;
}

// Series 0 is the baseline; colour alone must not tell two others apart, so each has a shape of 5 px about the origin.
const shapes = ["M-4.5-1.5h9v3h-9z", "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0z", "M-4.2-4.2h8.4v8.4h-8.4z",
  "M0-5.4l5.2 9.2h-10.4z", "M0-5.8l5.4 5.8l-5.4 5.8l-5.4-5.8z", "M0 5.4l5.2-9.2h-10.4z",
  "M-1.7-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
  "M0-5.8l1.5 4h4.2l-3.4 2.6l1.3 4.2l-3.6-2.5l-3.6 2.5l1.3-4.2l-3.4-2.6h4.2z",
  "M-5.2 0l2.6-4.5h5.2l2.6 4.5l-2.6 4.5h-5.2z"];
const pct = v => v.toFixed(2) + "%";
const tip = text => s("title", {}, text);
const marker = (series, x, y, hollow) =>
  s("svg", {x, y}, s(`path.mark.s${series}${hollow ? ".hollow" : ""}`, {d: shapes[series]}));
const key = series => s("svg.key", {width: 14, height: 14, "aria-hidden": true}, marker(series, 7, 7));
const swatch = style => s("svg.key", {width: 14, height: 14, "aria-hidden": true},
                          s("rect." + style, {x: 1, y: 1, width: 12, height: 12}));
const words = (style, x, y, anchor, text, more = {}) => s("text." + style, {x, y, "text-anchor": anchor, ...more}, text);

// A chart. Places are percentages and heights pixels: it fits any width and paper, and its text keeps its size.
// curves: {style, points: [[x, y], ...], closed}, where a missing y breaks the line; marks: {series, x, y, text, hollow};
// events: values of x; over: SVG drawn last, placed by px and py.
function plot({label, unit, height = 300, x, y, title, yText = short, curves, marks = [], events = [], over}) {
  const px = v => pct(x.at(v)), py = v => pct(100 - y.at(v));
  const draw = ({style, points, closed}) => {
    const runs = [[]];
    for (const [a, b] of points) {
      if (finite(b)) runs.at(-1).push(`${x.at(a).toFixed(2)},${(100 - y.at(b)).toFixed(2)}`);
      else runs.push([]);
    }
    return runs.filter(run => run.length)
               .map(run => s((closed ? "polygon." : "polyline.") + style, {points: run.join(" ")}));
  };
  return h("div.plot", {}, unit && h("p.unit", {}, unit), s("svg", {width: "100%", height, role: "img", "aria-label": label},
    y.ticks.map(v => [s("line.grid", {x1: -8, x2: "100%", y1: py(v), y2: py(v)}),
                      words("tick", -14, py(v), "end", yText(v), {dy: 4})]),
    s("line.base", {x1: -8, x2: "100%", y1: "100%", y2: "100%"}),
    x.ticks.map(v => words("tick", px(v), "100%", "middle", short(v), {dy: 19})),
    title && words("tick.title", "50%", "100%", "middle", title, {dy: 38}),
    events.map(v => s("line.event", {x1: px(v), x2: px(v), y1: 0, y2: "100%"})),
    s("svg", {width: "100%", height: "100%", viewBox: "0 0 100 100", preserveAspectRatio: "none"}, curves.map(draw)),
    marks.map(m => s("g", {}, tip(m.text), s("circle.reach", {cx: px(m.x), cy: py(m.y), r: 10}),
                     marker(m.series, px(m.x), py(m.y), m.hollow))),
    over && over(px, py)));
}

// Parts of a page.
const section = (id, heading, lead, ...body) =>
  h("section", {id}, h("h2", {}, heading), h("p.lead", {}, lead), body);
const legend = entries => h("ul.legend", {}, entries.map(([sign, text, title = text]) => h("li", {title}, sign, text)));
// The first `names` columns are text, to the left; a phone shows a table of style "summary" as cards.
const table = (label, heads, rows, names = 1, style = "plain") =>
  h("div.scroll", {role: "region", tabindex: 0, "aria-label": label}, h("table." + style, {"aria-label": label},
    h("thead", {}, h("tr", {}, heads.map((head, i) => h("th" + (i < names ? ".name" : ""), {scope: "col"}, head)))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map((cell, i) =>
      i === 0 ? h("th", {scope: "row"}, cell) : h("td" + (i < names ? ".name" : ""), {"data-name": heads[i]}, cell)))))));
const folded = (summary, ...body) => h("details", {}, h("summary", {}, summary), body);
const numbers = (summary, heads, rows, names) => folded(summary, table(summary, heads, rows, names));

// The whole page. facts: [name, value, perhaps the full text]; a value of undefined leaves its fact out.
function show({over, title, notes, facts, command, commandTitle, sections, footer}) {
  document.title = clean(`${over.split(" \u00b7 ")[0]}: ${title}`);
  document.body.append(
    h("header", {}, h("p.over", {}, over), h("h1", {}, title), notes,
      h("dl", {}, facts.map(([name, value, full]) =>
        h("div" + (Math.max(name.length, String(value).length) > 16 ? ".wide" : ""), full ? {title: full} : {}, h("dt", {}, name),
          h("dd", {}, value || "n/a"))))),
    h("main", {}, sections,
      command && h("section", {}, h("h2", {}, commandTitle), h("pre", {tabindex: 0}, h("code", {}, command)))),
    h("footer", {}, `Written by forerun ${version}. `.replace(" .", "."), footer));
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => { d.open = true; }));
