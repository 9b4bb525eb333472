// The conversation as it is shown: turns, pieces, notes, and what follows an answer's end.
const byId = (id) => document.getElementById(id);

// On narrow screens the page scrolls, else the box of the turns. An answer is followed until the reader scrolls back.
const narrow = matchMedia('(max-width: 56rem)');
let follow = true, last = 0;

export const on_narrow_screen = () => narrow.matches;
const place = () => (narrow.matches ? window.scrollY : byId('turns').scrollTop);

function below_end() {
  const box = byId('turns');
  if (!narrow.matches) return box.scrollHeight - box.scrollTop - box.clientHeight;
  return box.getBoundingClientRect().bottom - byId('ask').getBoundingClientRect().top;
}

function see_reader() {
  if (place() < last - 1) follow = false;
  else if (below_end() < 4) follow = true;
  last = place();
}

export function scroll(always) {
  see_reader();
  if (always) follow = true;
  const by = below_end();
  if (!follow || by <= 0) return;
  (narrow.matches ? window : byId('turns')).scrollBy({ top: by, behavior: 'instant' });
  last = place();
}

window.addEventListener('scroll', see_reader, { passive: true });
byId('turns').addEventListener('scroll', see_reader, { passive: true });

export function add_turn(role, text) {
  const turn = document.createElement('article');
  turn.className = `turn ${role}`;
  const who = document.createElement('p');
  who.className = 'who';
  who.textContent = role === 'user' ? 'You' : 'Model';
  const said = document.createElement('p');
  said.className = 'said';
  said.dir = 'auto';
  said.textContent = text;
  const below = document.createElement('div');
  below.className = 'below';
  turn.append(who, said, below);
  byId('hint').hidden = true;
  byId('turns').append(turn);
  scroll(true);
  return { said, below, thoughts: null };
}

// Where the reasoning of an answer is shown: before it, closed once it begins.
function thoughts_of(turn) {
  if (turn.thoughts) return turn.thoughts;
  const box = document.createElement('details');
  box.className = 'thoughts';
  box.open = turn.said.textContent === '';
  const title = document.createElement('summary');
  title.textContent = 'Reasoning';
  title.addEventListener('click', () => { box.dataset.chosen = 'by the reader'; });
  turn.thoughts = document.createElement('p');
  turn.thoughts.dir = 'auto';
  box.append(title, turn.thoughts);
  turn.said.before(box);
  return turn.thoughts;
}

function close_thoughts(turn) {
  const box = turn.thoughts && turn.thoughts.parentElement;
  if (box && !box.dataset.chosen) box.open = false;
}

export function clear_turns() {
  byId('turns').replaceChildren(byId('hint'));
  byId('hint').hidden = false;
  last = 0;
}

export function note(turn, text, bad) {
  const p = document.createElement('span');
  p.textContent = text;
  if (bad) {
    p.className = 'error';
    p.setAttribute('role', 'alert');
  }
  turn.below.append(p);
  return p;
}

export function add_button(turn, label, act) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = label;
  button.addEventListener('click', () => act(button));
  turn.below.append(button);
}

function add_piece(to, text, how) {
  const before = to.lastElementChild;
  if (before && before.dataset.how === how && how === 'plain') {
    before.append(text);
    return;
  }
  const span = document.createElement('span');
  span.className = `piece ${how}`;
  span.dataset.how = how;
  span.textContent = text;
  to.append(span);
}

export function show_pieces(turn, pieces) {
  for (const { text, reasoning, how } of pieces) {
    if (reasoning) add_piece(thoughts_of(turn), reasoning, how);
    if (!text) continue;
    if (turn.said.textContent === '') close_thoughts(turn);
    add_piece(turn.said, text, how);
  }
}

// What was held back at the end of an answer belongs to no round.
export function show_rest(turn, { text, reasoning }) {
  const rest = (all, shown) => (all.startsWith(shown) ? all.slice(shown.length) : '');
  show_pieces(turn, [{ reasoning: rest(reasoning, turn.thoughts ? turn.thoughts.textContent : ''), how: 'plain' },
    { text: rest(text, turn.said.textContent), how: 'plain' }]);
}

// Calls `draw` soon, but not so often that drawing takes more than a quarter of the time: a long answer's layout takes
// longer than a round of the model.
export function seldom(draw) {
  let due = 0, timer = 0;
  const now = () => {
    clearTimeout(timer);
    timer = 0;
    const began = performance.now();
    draw();
    due = performance.now() + Math.max(100, 3 * (performance.now() - began));
  };
  return { now, soon: () => { timer ||= setTimeout(now, Math.max(0, due - performance.now())); } };
}
