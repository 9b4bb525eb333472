// The conversation: asks the server, shows the stream, certifies answers.
import { offer_images } from '/images.js';
import { Rounds } from '/rounds.js';

const byId = (id) => document.getElementById(id);
const state = { turns: [], plainMs: null, running: null };

function headers() {
  const key = byId('key').value.trim();
  return { 'Content-Type': 'application/json', ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function message_of(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

async function connect() {
  try {
    const response = await fetch('/props', { headers: headers() });
    if (!response.ok) throw new Error(await message_of(response));
    const props = await response.json();
    const { forerun } = props;
    state.plainMs = forerun.plain_ms_per_token;
    byId('model').textContent = `${props.model_alias}, ${forerun.precision}, rule ${forerun.rule}` +
      `${forerun.exact ? ' (exact)' : ' (INEXACT)'}`;
    const names = [...new Set([...forerun.drafters, 'none'])];
    const chosen = byId('drafter').value;
    byId('drafter').replaceChildren(...names.map((n) => new Option(n === 'none' ? 'none (plain decoding)' : n, n)));
    if (names.includes(chosen)) byId('drafter').value = chosen;
    offer_images(props, { headers, message_of, chunks });
    if (!state.plainMs) setTimeout(connect, 2000);  // it is still being timed
  } catch (error) {
    byId('model').textContent = error.message;
  }
}

function add_turn(role, text) {
  const turn = document.createElement('article');
  turn.className = `turn ${role}`;
  const who = document.createElement('p');
  who.className = 'who';
  who.textContent = role === 'user' ? 'You' : 'Model';
  const said = document.createElement('p');
  said.className = 'said';
  said.textContent = text;
  const below = document.createElement('div');
  below.className = 'below';
  turn.append(who, said, below);
  byId('hint').hidden = true;
  byId('turns').append(turn);
  scroll(true);
  return { said, below };
}

function scroll(always) {
  const box = byId('turns');
  if (always || box.scrollHeight - box.scrollTop - box.clientHeight < 120) box.scrollTop = box.scrollHeight;
}

function note(turn, text, bad) {
  const p = document.createElement('span');
  p.textContent = text;
  if (bad) {
    p.className = 'error';
    p.setAttribute('role', 'alert');
  }
  turn.below.append(p);
  return p;
}

function show_pieces(turn, pieces) {
  for (const { text, how } of pieces) {
    if (!text) continue;
    const last = turn.said.lastElementChild;
    if (last && last.dataset.how === how && how === 'plain') {
      last.append(text);
      continue;
    }
    const span = document.createElement('span');
    span.className = `piece ${how}`;
    span.dataset.how = how;
    span.textContent = text;
    turn.said.append(span);
  }
}

// The objects of a stream of server-sent events.
async function* chunks(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const lines = held.split('\n');
    held = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
      yield JSON.parse(line.slice(6));
    }
  }
}

function body_of() {
  const system = byId('system').value.trim();
  const seed = byId('seed').value;
  return {
    messages: [...(system ? [{ role: 'system', content: system }] : []), ...state.turns],
    temperature: Number(byId('temperature').value) || 0,
    max_tokens: Math.max(1, Math.round(Number(byId('tokens').value) || 400)),
    ...(seed === '' ? {} : { seed: Math.round(Number(seed)) }),
    stream: true,
    speculative: { drafter: byId('drafter').value || 'none', rounds: true },
  };
}

function add_certificate(turn, id) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Certify this answer';
  button.addEventListener('click', async () => {
    button.disabled = true;
    const line = note(turn, 'making the text again and scoring it by plain passes ...');
    line.setAttribute('role', 'status');
    try {
      const response = await fetch('/v1/forerun/certify', { method: 'POST', headers: headers(), body: JSON.stringify({ id }) });
      if (!response.ok) throw new Error(await message_of(response));
      const c = await response.json();
      line.textContent = `${c.passed ? '\u2713' : '\u2717'} ${c.verdict}: ${c.tokens} outputs scored again by plain passes, ` +
        `${c.ties} ties, ${c.differences.length - c.ties} differences` +
        `${c.drafted_tokens ? `; ${c.drafted_tokens} drafted, z = ${c.z.toFixed(2)}, KS p = ${c.ks_p.toPrecision(2)}` : ''}` +
        `${c.same_text ? '' : '; made again the text differed from the one above'}`;
      line.className = c.passed ? 'passed' : 'error';
    } catch (error) {
      line.textContent = error.message;
      line.className = 'error';
      button.disabled = false;
    }
  });
  turn.below.append(button);
}

async function answer() {
  const turn = add_turn('assistant', '');
  turn.said.classList.add('pieces');
  const rounds = new Rounds(() => state.plainMs);
  const abort = new AbortController();
  state.running = abort;
  let text = '', id = '', last = null;
  try {
    const response = await fetch('/v1/chat/completions',
      { method: 'POST', headers: headers(), body: JSON.stringify(body_of()), signal: abort.signal });
    if (!response.ok) throw new Error(await message_of(response));
    for await (const chunk of chunks(response)) {
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices[0];
      id = chunk.id;
      if (!choice) continue;
      text += choice.delta.content || '';
      for (const round of choice.forerun ? choice.forerun.rounds : []) {
        rounds.add(round);
        show_pieces(turn, round.pieces);
      }
      if (choice.finish_reason) last = chunk;
      rounds.show();
      scroll(false);
    }
    // What was held back at the end belongs to no round.
    const shown = turn.said.textContent;
    if (text.startsWith(shown)) show_pieces(turn, [{ text: text.slice(shown.length), how: 'plain' }]);
  } catch (error) {
    if (error.name === 'AbortError') note(turn, 'stopped');
    else note(turn, error.message, true);
  }
  state.running = null;
  state.turns.push({ role: 'assistant', content: text });
  if (last) {
    const t = last.timings;
    note(turn, `${t.predicted_n} tokens, ${t.draft_n_accepted} of ${t.draft_n} drafts kept, seed ${last.forerun.seed}, ` +
      `prompt ${t.prompt_n} tokens read${t.cache_n ? `, ${t.cache_n} known` : ''}`);
    add_certificate(turn, id);
  }
  scroll(false);
}

async function send() {
  const text = byId('text').value.trim();
  if (!text || state.running) return;
  byId('text').value = '';
  byId('send').disabled = true;
  byId('stop').disabled = false;
  add_turn('user', text);
  state.turns.push({ role: 'user', content: text });
  await answer();
  byId('send').disabled = false;
  byId('stop').disabled = true;
  byId('text').focus();
}

function stop() {
  if (state.running) state.running.abort();
}

function fresh() {
  stop();
  state.turns = [];
  byId('turns').replaceChildren(byId('hint'));
  byId('hint').hidden = false;
  byId('text').focus();
}

byId('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  send();
});
byId('text').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') stop();
});
byId('stop').addEventListener('click', stop);
byId('fresh').addEventListener('click', fresh);
byId('key').addEventListener('change', connect);
byId('marks').addEventListener('change', () => byId('turns').classList.toggle('marked', byId('marks').checked));
byId('turns').classList.toggle('marked', byId('marks').checked);
connect();
