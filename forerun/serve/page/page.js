// The conversation: asks the server, shows the stream, certifies answers.
import { ask, chunks, fields_are_valid } from '/api.js';
import { offer_images } from '/images.js';
import { Rounds } from '/rounds.js';
import { add_button, add_turn, clear_turns, note, on_narrow_screen, scroll, seldom, show_pieces, show_rest } from '/transcript.js';

const byId = (id) => document.getElementById(id);
const state = { turns: [], plainMs: null, running: null, connections: 0, again: 0 };

// Shows which server this is; asks again while it cannot be reached, or times its plain passes.
async function connect() {
  clearTimeout(state.again);
  const connection = ++state.connections;
  try {
    const props = await (await ask('/props')).json();
    if (connection !== state.connections) return;
    const { forerun } = props;
    state.plainMs = forerun.plain_ms_per_token;
    byId('model').textContent = `${props.model_alias}, ${forerun.precision}, rule ${forerun.rule}` +
      `${forerun.exact ? ' (exact)' : ' (INEXACT)'}`;
    const names = [...new Set([...forerun.drafters, 'none'])];
    const chosen = byId('drafter').value;
    byId('drafter').replaceChildren(...names.map((n) => new Option(n === 'none' ? 'none (plain decoding)' : n, n)));
    if (names.includes(chosen)) byId('drafter').value = chosen;
    offer_images(props);
  } catch (error) {
    if (connection !== state.connections) return;
    byId('model').textContent = error.message;
    state.plainMs = null;
    if (error.status === 401) return;  // a key is the reader's to give
  }
  if (!state.plainMs) state.again = setTimeout(connect, 2000);
}

function body_of() {
  const system = byId('system').value.trim();
  const seed = byId('seed').value;
  return {
    messages: [...(system ? [{ role: 'system', content: system }] : []), ...state.turns],
    temperature: Number(byId('temperature').value),
    max_tokens: Number(byId('tokens').value),
    ...(seed === '' ? {} : { seed: Number(seed) }),
    stream: true,
    speculative: { drafter: byId('drafter').value || 'none', rounds: true },
  };
}

function verdict_of(c) {
  return `${c.passed ? '\u2713' : '\u2717'} ${c.verdict}: ${c.tokens} outputs scored again by plain passes, ` +
    `${c.ties} ties, ${c.differences.length - c.ties} differences` +
    `${c.drafted_tokens ? `; ${c.drafted_tokens} drafted, z = ${c.z.toFixed(2)}, KS p = ${c.ks_p.toPrecision(2)}` : ''}` +
    `${c.same_text ? '' : '; made again the text differed from the one above'}`;
}

function offer_certificate(turn, id) {
  let line = null;
  add_button(turn, 'Certify this answer', async (button) => {
    button.disabled = true;
    if (line) line.remove();
    line = note(turn, 'making the text again and scoring it by plain passes ...');
    line.setAttribute('role', 'status');
    try {
      const c = await (await ask('/v1/forerun/certify', { id })).json();
      line.textContent = verdict_of(c);
      line.className = c.passed ? 'passed' : 'error';
    } catch (error) {
      line.textContent = error.message;
      line.className = 'error';
      button.disabled = false;
    }
  });
}

function offer_copy(turn, text) {
  if (!navigator.clipboard) return;  // browsers have it on this machine and by https alone
  add_button(turn, 'Copy', async (button) => {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
}

// The text of an answer, its reasoning, its id and its last event (null: it failed or was stopped).
async function stream_answer(turn, turns) {
  const out = { text: '', reasoning: '', id: '', end: null };
  const rounds = new Rounds(() => state.plainMs);
  const pieces = [];
  const drawing = seldom(() => {
    show_pieces(turn, pieces.splice(0));
    if (state.turns === turns) rounds.show();
    scroll(false);
  });
  state.running = new AbortController();
  try {
    for await (const chunk of chunks(await ask('/v1/chat/completions', body_of(), state.running.signal))) {
      const choice = chunk.choices[0];
      out.id = chunk.id;
      if (!choice) continue;
      out.text += choice.delta.content || '';
      out.reasoning += choice.delta.reasoning_content || '';
      for (const round of choice.forerun ? choice.forerun.rounds : []) {
        rounds.add(round);
        pieces.push(...round.pieces);
      }
      if (choice.finish_reason) out.end = chunk;
      drawing.soon();
    }
    drawing.now();
    show_rest(turn, out);
  } catch (error) {
    drawing.now();
    if (error.name === 'AbortError') note(turn, 'stopped');
    else note(turn, error.message, true);
  }
  state.running = null;
  return out;
}

async function answer() {
  const { turns } = state;
  const turn = add_turn('assistant', '');
  turn.said.classList.add('pieces');
  const { text, id, end } = await stream_answer(turn, turns);
  // A question without an answer leaves the conversation: the next request would be refused as this one was.
  const answered = text !== '' || end !== null;
  if (answered) turns.push({ role: 'assistant', content: text });
  else turns.pop();
  if (end) {
    const t = end.timings;
    note(turn, `${t.predicted_n} tokens, ${t.draft_n_accepted} of ${t.draft_n} drafts kept, seed ${end.forerun.seed}, ` +
      `prompt ${t.prompt_n} tokens read${t.cache_n ? `, ${t.cache_n} known` : ''}`);
  }
  if (text) offer_copy(turn, text);
  if (end) offer_certificate(turn, id);
  scroll(false);
  connect();  // the server may be another by now
  return answered;
}

async function send() {
  const text = byId('text').value.trim();
  if (!text || state.running || !fields_are_valid(['temperature', 'tokens', 'seed'])) return;
  byId('text').value = '';
  byId('send').disabled = true;
  byId('stop').disabled = false;
  add_turn('user', text);
  const { turns } = state;
  turns.push({ role: 'user', content: text });
  const answered = await answer();
  if (!answered && state.turns === turns && byId('text').value === '') byId('text').value = text;
  // A button that is disabled loses the focus; who went elsewhere meanwhile stays there.
  const here = document.activeElement;
  const idle = !here || here === document.body || here === byId('stop');
  byId('send').disabled = false;
  byId('stop').disabled = true;
  if (idle && !on_narrow_screen()) byId('text').focus();
}

function stop() {
  if (state.running) state.running.abort();
}

function fresh() {
  stop();
  state.turns = [];
  clear_turns();
  new Rounds(() => state.plainMs).show();
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
