// Requests of the server, and what goes wrong with them.
const byId = (id) => document.getElementById(id);

export function headers() {
  const key = byId('key').value.trim();
  return { 'Content-Type': 'application/json', ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function message_of(response) {
  if (response.status === 401) {
    return byId('key').value.trim() ? 'this is not a key of the server: see Settings, Key' : 'the server needs a key: put it into Settings, Key';
  }
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

// The answer to a request. Throws an Error whose message a reader understands.
export async function ask(path, body, signal) {
  let response = null;
  try {
    response = await fetch(path, { headers: headers(), signal, ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}) });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('the server cannot be reached');
  }
  if (!response.ok) throw Object.assign(new Error(await message_of(response)), { status: response.status });
  return response;
}

// The objects of a stream of server-sent events.
export async function* chunks(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      throw error.name === 'AbortError' ? error : new Error('the connection to the server broke off');
    });
    if (done) return;
    held += value;
    const lines = held.split('\n');
    held = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}

// Whether all fields hold what they may; the first that does not says so.
export function fields_are_valid(ids) {
  return ids.every((id) => byId(id).reportValidity());
}
