// What the rounds of an answer show: speed, the newest tree, drafts kept by position.
const byId = (id) => document.getElementById(id);
const number = (x, digits = 1) => x.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });

const NONE = '\u2013';

export class Rounds {
  // plainMs(): milliseconds of a plain pass; null while it is not known
  constructor(plainMs) {
    this.timed = plainMs;
    this.outputs = 0;
    this.rounds = 0;
    this.ms = 0;
    this.examined = [];
    this.kept = [];
    this.newest = null;
  }

  add(round) {
    this.rounds += 1;
    this.outputs += round.pieces.length;
    this.ms += round.drafter_ms + round.target_ms;
    if (round.drafts.length === 0) return;
    this.newest = round;
    // Along the path of the outputs: the drafts kept, and the one place where none was.
    const kept = round.pieces.filter((p) => p.how === 'kept').length;
    const ended = round.pieces.some((p) => p.how === 'corrected');
    for (let i = 0; i < kept + (ended ? 1 : 0); i += 1) {
      this.examined[i] = (this.examined[i] || 0) + 1;
      this.kept[i] = (this.kept[i] || 0) + (i < kept ? 1 : 0);
    }
  }

  show() {
    this.showSpeed();
    this.showPositions();
    this.showTree();
  }

  showSpeed() {
    const plainMs = this.timed();
    byId('rate').textContent = this.ms > 0 ? `${number(1000 * this.outputs / this.ms)} tok/s` : NONE;
    byId('tau').textContent = this.ms > 0 ? `${number(this.outputs / this.rounds, 2)}` : NONE;
    byId('plain-rate').textContent = plainMs ? `${number(1000 / plainMs)} tok/s` : NONE;
    if (this.ms <= 0 || !plainMs) {
      byId('bar-own').style.width = byId('bar-plain').style.width = '0';
      byId('saved').textContent = '';
      return;
    }
    const plain = this.outputs * plainMs;
    const most = Math.max(plain, this.ms);
    byId('bar-own').style.width = `${100 * this.ms / most}%`;
    byId('bar-plain').style.width = `${100 * plain / most}%`;
    byId('saved').textContent = `${this.outputs} outputs in ${number(this.ms / 1000, 2)} s; plain decoding takes about ` +
      `${number(plain / 1000, 2)} s (a pass of one row, timed when the server began): ratio ${number(plain / this.ms, 2)}.`;
  }

  showPositions() {
    const columns = this.examined.map((examined, i) => {
      const share = this.kept[i] / examined;
      const column = document.createElement('div');
      column.className = 'column';
      column.title = `position ${i + 1}: ${this.kept[i]} of ${examined} kept`;
      const bar = document.createElement('i');
      bar.style.height = `${70 * share}%`;
      column.append(`${Math.round(100 * share)}`, bar, `${i + 1}`);
      return column;
    });
    byId('positions').replaceChildren(...columns);
    if (columns.length === 0) {
      byId('position-note').textContent = 'None yet.';
      return;
    }
    const kept = this.kept.reduce((a, b) => a + b, 0);
    byId('position-note').textContent =
      `${kept} of ${this.examined.reduce((a, b) => a + b, 0)} examined drafts kept; in percent, by place in the draft.`;
  }

  showTree() {
    if (!this.newest) {
      byId('tree').replaceChildren();
      byId('round').textContent = 'Drafts appear here: what follows what, and which were kept.';
      return;
    }
    const { drafts, pieces } = this.newest;
    const kept = drafts.filter((d) => d.kept).length;
    const own = pieces.find((p) => p.how === 'corrected' || p.how === 'bonus');
    const nodes = drafts.map((d) => ({ ...d, children: [] }));
    const root = { text: '', children: [], kept: true };
    nodes.forEach((n) => (n.parent < 0 ? root : nodes[n.parent]).children.push(n));
    if (own) {
      const path = nodes.filter((n) => n.kept);
      (path.length ? path[path.length - 1] : root).children.push({ text: own.text, how: own.how, children: [] });
    }
    byId('tree').replaceChildren(draw(root));
    byId('round').textContent = `${drafts.length} drafted, ${kept} kept; drafting ${number(this.newest.drafter_ms)} ms, ` +
      `the target's pass ${number(this.newest.target_ms)} ms.`;
  }
}

const WIDTH = 92, HEIGHT = 26, GAP = 10;

function element(name, attributes) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  Object.entries(attributes).forEach(([k, v]) => e.setAttribute(k, v));
  return e;
}

// Left to right by depth, top to bottom by leaf.
function draw(root) {
  const lines = [], boxes = [];
  let rows = 0, depth = 0;
  const place = (node, level) => {
    depth = Math.max(depth, level);
    const ys = node.children.map((c) => place(c, level + 1));
    const y = ys.length ? ys[0] : rows * (HEIGHT + GAP);
    if (!ys.length) rows += 1;
    const x = (level - 1) * (WIDTH + 18);
    ys.forEach((to) => {
      if (level > 0) lines.push(element('path', { d: `M${x + WIDTH} ${y + HEIGHT / 2} L${x + WIDTH + 18} ${to + HEIGHT / 2}` }));
    });
    if (level > 0) boxes.push(box(node, x, y));
    return y;
  };
  place(root, 0);
  const svg = element('svg', { width: depth * (WIDTH + 18), height: Math.max(1, rows) * (HEIGHT + GAP) + 4, role: 'img' });
  const title = element('title', {});
  title.textContent = 'Drafts of the newest round';
  svg.append(title, ...lines, ...boxes);
  return svg;
}

// What fits into a box: wide characters count twice. \u2205: bytes of a character that is not whole yet, or the text's end.
function shortened(text) {
  const shown = [...text.replace(/\n/g, '\u21b5').replace(/ /g, '\u00b7')];
  const width = (characters) => characters.reduce((sum, c) => sum + (c >= '\u2e80' ? 2 : 1), 0);
  if (width(shown) <= 11) return shown.join('') || '\u2205';
  while (width(shown) > 10) shown.pop();
  return `${shown.join('')}\u2026`;
}

function box(node, x, y) {
  const g = element('g', { class: node.how ? `node ${node.how}` : node.kept ? 'node kept' : 'node', transform: `translate(${x + 1} ${y + 2})` });
  const text = element('text', { x: 6, y: 17 });
  text.textContent = shortened(node.text);
  g.append(element('rect', { width: WIDTH - 2, height: HEIGHT - 2, rx: 5 }), text);
  return g;
}
