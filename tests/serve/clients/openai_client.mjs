// The official JavaScript client against a server: usage openai_client.mjs URL MODEL EXPECTED
import assert from "node:assert/strict";
import OpenAI from "openai";

const [url, model, expected] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0 });
const asked = {
  model, seed: 3, temperature: 0.8, max_completion_tokens: 24,
  messages: [{ role: "system", content: "You answer briefly." }, { role: "user", content: "Name three colours." }],
};

assert.equal((await client.models.list()).data[0].id, model);
const whole = await client.chat.completions.create({ ...asked, logprobs: true, top_logprobs: 2 });
assert.equal(whole.choices[0].message.content, expected);
assert.ok(whole.choices[0].logprobs.content.length > 0);

let text = "", usage = null;
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, expected);
assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

const runner = client.chat.completions.stream(asked);
assert.equal(await runner.finalContent(), expected);

const held = await client.chat.completions.create({
  ...asked, response_format: { type: "json_schema", json_schema: { name: "a", strict: true, schema: { enum: ["x", "y"] } } },
});
assert.ok(["x", "y"].includes(JSON.parse(held.choices[0].message.content)));

const plain = await client.completions.create({ model, prompt: ["The sky is", "One, two,"], max_tokens: 4, seed: 1, logprobs: 1 });
assert.equal(plain.choices.length, 2);

const answered = { model, seed: 3, temperature: 0.8, max_output_tokens: 24, instructions: asked.messages[0].content, input: asked.messages[1].content };
const response = await client.responses.create(answered);
assert.equal(response.output_text, expected);
const types = [];
let said = "";
for await (const event of await client.responses.create({ ...answered, stream: true })) {
  types.push(event.type);
  if (event.type === "response.output_text.delta") said += event.delta;
}
assert.equal(said, expected);
assert.equal(types.at(-1), `response.${response.status}`);
await assert.rejects(client.responses.create({ ...answered, store: true }), OpenAI.BadRequestError);

// A stream that is left in the middle.
for await (const _ of await client.chat.completions.create({ ...asked, max_completion_tokens: 400, stream: true })) break;

await assert.rejects(client.chat.completions.create({ ...asked, temperature: 5000 }), OpenAI.BadRequestError);
await assert.rejects(client.chat.completions.create({ ...asked, model: "another" }), OpenAI.NotFoundError);
