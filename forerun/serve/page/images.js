// Images: asks the server for some, shows what the model predicts of each while it is made, and how many drafts were kept.
import { ask, chunks } from '/api.js';

const byId = (id) => document.getElementById(id);

const kPreviews = 12;
const kNothing = 'data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==';  // no mark of a missing picture
let running = null;

function add_picture(index, label) {
  const figure = document.createElement('figure');
  const img = document.createElement('img');
  img.alt = `Image ${index + 1} of class ${label}, not begun`;
  img.src = kNothing;
  img.width = img.height = 96;
  const progress = document.createElement('progress');
  progress.max = 1;
  progress.value = 0;
  progress.setAttribute('aria-label', `Progress of image ${index + 1}`);
  const caption = document.createElement('figcaption');
  caption.textContent = 'waits';
  figure.append(img, progress, caption);
  byId('pictures').append(figure);
  return { img, progress, caption };
}

function show(picture, index, label, event) {
  const { forerun } = event;
  picture.img.src = `data:image/png;base64,${event.b64_json}`;
  if (event.type === 'image_generation.completed') {
    picture.img.alt = `Image ${index + 1} of class ${label}`;
    picture.progress.value = 1;
    picture.caption.textContent = `${forerun.steps} steps in ${forerun.rounds} rounds` +
      (forerun.draft_n ? `, ${forerun.draft_n_accepted} of ${forerun.draft_n} drafts kept` : '');
  } else {
    picture.img.alt = `Image ${index + 1} of class ${label}, step ${forerun.step}`;
    picture.progress.value = event.partial_image_index / kPreviews;
    picture.caption.textContent = `step ${forerun.step}`;
  }
}

function body_of() {
  const seed = byId('image-seed').value;
  return {
    prompt: String(Number(byId('image-class').value)),
    n: Number(byId('image-count').value),
    ...(seed === '' ? {} : { seed: Number(seed) }),
    stream: true,
    partial_images: kPreviews,
    speculative: { off: !byId('image-drafts').checked },
  };
}

function say(text, bad) {
  byId('image-note').textContent = text;
  byId('image-note').className = bad ? 'small error' : 'small';
}

async function make() {
  const body = body_of();
  running = new AbortController();
  byId('pictures').replaceChildren();
  const pictures = Array.from({ length: body.n }, (_, i) => add_picture(i, body.prompt));
  say('making ...');
  const began = performance.now();
  let done = 0, seed = null, kept = 0, rounds = 0, steps = 0;
  try {
    for await (const event of chunks(await ask('/v1/images/generations', body, running.signal))) {
      show(pictures[event.index], event.index, body.prompt, event);
      if (event.type !== 'image_generation.completed') continue;
      ++done;
      ({ seed } = event.forerun);
      kept += event.forerun.draft_n_accepted;
      rounds += event.forerun.rounds;
      steps += event.forerun.steps;
    }
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    say(`${done} image${done === 1 ? '' : 's'} in ${seconds} s, ${(steps / rounds).toFixed(2)} steps a pass, ` +
      `${kept} drafts kept, seed ${seed}`);
  } catch (error) {
    say(error.name === 'AbortError' ? 'stopped' : error.message, error.name !== 'AbortError');
    for (const { progress, caption } of pictures.filter((p) => p.progress.value < 1)) {
      progress.remove();
      caption.textContent = `${caption.textContent === 'waits' ? 'not begun' : caption.textContent}, stopped`;
    }
  }
  running = null;
}

/// Shows the card if the server makes images.
export function offer_images(props) {
  const { image_model: model, image_classes: classes } = props.forerun;
  byId('images').hidden = !model;
  if (!model) return;
  const offer = `${model}: classes 0 to ${classes - 1}. Each picture shows what the model predicts of it while it is made.`;
  if (byId('images').dataset.offer === offer) return;
  byId('images').dataset.offer = offer;
  byId('image-class').max = classes - 1;
  say(offer);
}

byId('image-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  if (running) return;
  byId('image-make').disabled = true;
  byId('image-stop').disabled = false;
  await make();
  byId('image-make').disabled = false;
  byId('image-stop').disabled = true;
});
byId('image-stop').addEventListener('click', () => running && running.abort());
