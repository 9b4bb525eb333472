"""The page in a real browser: a conversation, its marks, a certificate, the keyboard, a phone; screenshots to look at.

usage: page_test.py FORERUN [MODEL] [--shots FOLDER]   (from the repository's folder, for the image model that ships)

Needs Debian's chromium, and the Python package playwright in a virtual environment that is running this:
  python3 -m venv v && v/bin/pip install playwright && v/bin/python tests/serve/page_test.py build/release/bin/forerun
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

from serve_support import FORERUN, Server, make_reasoning_model, user

IMAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "fashion-mnist", "")
CHECK = """() => {
  const bad = [];
  const colours = (e) => { const s = getComputedStyle(e); let b = e, bg = s.backgroundColor;
    while (b && /rgba\\(.*, 0\\)|transparent/.test(bg)) { b = b.parentElement; bg = b ? getComputedStyle(b).backgroundColor : 'rgb(255,255,255)'; }
    return [s.color, bg]; };
  const light = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  for (const e of document.querySelectorAll('body *')) {
    if (!e.textContent.trim() || e.children.length || !e.getClientRects().length || e.disabled || e.closest('svg')) continue;
    const [a, b] = colours(e).map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`contrast ${ratio.toFixed(2)}: ${e.textContent.trim().slice(0, 40)}`);
  }
  for (const e of document.querySelectorAll('button, input, select, textarea'))
    if (!(e.labels && e.labels.length) && !e.textContent.trim() && !e.getAttribute('aria-label')) bad.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  if (document.documentElement.scrollWidth > window.innerWidth) bad.push('wider than the window');
  return bad;
}"""


def serve(program, model):
    # Always drafts: what pays depends on what else this machine does.
    args = [program, "serve", "--port", "0", "--fixed-draft", "--max-draft", "6", *(["-m", model] if model else []),
            "--image-model", IMAGES + "dit", "--image-drafter", f"free:{IMAGES}free", "--image-steps", "24"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    return process, re.match(r"(http://\S+)  ", line)[1]


def make_images(page, shots, name):
    """Pictures change while they are made, and are whole at the end; Stop ends them."""
    page.get_by_label("Class").fill("7")
    page.get_by_role("spinbutton", name="Images", exact=True).fill("2")
    page.get_by_label("Seed of images").fill("5")
    page.get_by_role("button", name="Make images").click()
    seen = set()
    while page.locator("#image-make").is_disabled():
        seen.add(page.locator("#pictures img").first.get_attribute("src"))
        page.wait_for_timeout(20)
    assert len(seen) >= 4, f"{len(seen)} pictures were seen, that of the beginning counted"
    page.get_by_text("2 images in").wait_for()
    page.wait_for_function("[...document.querySelectorAll('#pictures img')].every((i) => i.complete && i.naturalWidth >= 28)",
                           timeout=10_000)
    assert page.locator("#image-note").get_by_text("drafts kept, seed 5").count() == 1
    assert page.get_by_role("img", name="Image 2 of class 7", exact=True).count() == 1
    page.locator("#images").screenshot(path=os.path.join(shots, f"{name}-images.png"))
    page.get_by_role("spinbutton", name="Images", exact=True).fill("10")
    page.get_by_role("button", name="Make images").click()
    page.get_by_role("button", name="Stop images").click()
    page.locator("#image-note").get_by_text("stopped").wait_for()


def ask(page, text, tokens):
    page.get_by_label("Tokens at most").fill(str(tokens))
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Certify this answer").last.wait_for(timeout=300_000)


def talk(page, shots, name):
    problems = []
    page.on("console", lambda m: problems.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: problems.append(f"script: {e}"))
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    page.goto(URL)
    page.get_by_text("rule shared-noise").wait_for()
    problems += page.evaluate(CHECK)
    page.get_by_label("Temperature").fill("0")
    ask(page, "Rewrite in the past tense: The river rises in the mountains and flows through three valleys. It turns the "
        "wheels of the old mills and waters the fields of the farmers.", 60)
    said = page.locator(".turn.assistant .said").last.inner_text()
    assert len(said) > 20, said
    for kind in ("kept",):
        assert page.locator(f".said .piece.{kind}").count() > 0, f"no piece is marked {kind}"
    assert page.locator("#tree svg .node").count() > 0
    assert page.locator("#positions .column").count() > 0
    page.get_by_role("button", name="Certify this answer").last.click()
    page.locator(".below .passed").wait_for(timeout=300_000)
    verdict = page.locator(".below .passed").inner_text()
    assert "identical" in verdict, verdict
    make_images(page, shots, name)
    problems += page.evaluate(CHECK)
    page.screenshot(path=os.path.join(shots, f"{name}.png"))
    # The keyboard alone: Escape stops an answer, Tab reaches every control, the next turn knows the last.
    page.get_by_label("Tokens at most").fill("800")
    page.get_by_label("Message", exact=True).fill("Tell a long story about a river.")
    page.keyboard.press("Enter")
    page.locator(".turn.assistant").nth(1).locator(".piece").nth(3).wait_for(timeout=120_000)
    page.keyboard.press("Escape")
    page.locator("#turns").get_by_text("stopped").wait_for()
    reached = set()
    for _ in range(45):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    for control in ("image-class", "image-make", "text", "send", "fresh", "drafter", "temperature", "tokens", "seed", "system", "key", "marks"):
        assert control in reached, f"Tab does not reach {control}: {reached}"
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".turn").count() == 0
    outside = [u for u in asked if not u.startswith(URL)]
    assert not outside, f"the page asks others: {outside}"
    return problems


def say(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


def mishaps(page, shots, name):
    """What was refused, left or mistyped stays out of the conversation; the reader's place and focus are left alone."""
    problems, sent = [], []
    page.on("pageerror", lambda e: problems.append(f"script: {e}"))
    page.on("request", lambda r: sent.append(json.loads(r.post_data)) if r.url.endswith("/chat/completions") else None)
    page.goto(URL)
    page.get_by_text("rule shared-noise").wait_for()
    ready = page.locator("#send:enabled")
    long = "word " * 20_000
    say(page, long)
    page.locator(".below .error").wait_for()
    ready.wait_for()
    assert page.get_by_label("Message", exact=True).input_value() == long.strip(), "the refused question is gone"
    page.get_by_label("Tokens at most").fill("8")
    say(page, "Hi")
    page.get_by_role("button", name="Certify this answer").wait_for(timeout=60_000)
    assert [m["content"] for m in sent[-1]["messages"]] == ["Hi"], sent[-1]
    # A new conversation begins in the middle of an answer.
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Tokens at most").fill("3000")
    say(page, "Tell a long story.")
    page.locator(".turn.assistant .piece").nth(20).wait_for(timeout=60_000)
    page.get_by_role("button", name="New conversation").click()
    assert page.locator("#rate").inner_text() == "\u2013" and page.locator("#tree svg").count() == 0
    ready.wait_for()
    say(page, "Tell a long story.")
    assert len(sent[-1]["messages"]) == 1, sent[-1]
    # Who scrolls back stays there, whoever writes elsewhere goes on; the end of the answer is seen by others.
    while page.locator(".turn.assistant .said").last.evaluate("e => e.clientHeight") < 900:
        assert page.locator("#stop").is_enabled(), "the answer was too short: choose another seed"
        page.wait_for_timeout(100)
    phone = page.viewport_size["width"] < 500
    gap = ("document.getElementById('turns').getBoundingClientRect().bottom - document.getElementById('ask').getBoundingClientRect().top"
           if phone else "(b => b.scrollHeight - b.scrollTop - b.clientHeight)(document.getElementById('turns'))")
    page.wait_for_timeout(500)
    assert page.evaluate(gap) < 60, "the end of the answer is out of sight"
    page.screenshot(path=os.path.join(shots, f"{name}-long.png"))
    page.evaluate("(document.querySelector('#turns').scrollTop ? document.getElementById('turns') : window).scrollBy(0, -50)")
    place = "document.getElementById('turns').scrollTop + scrollY"
    at = page.evaluate(place)
    page.wait_for_timeout(1500)
    assert page.evaluate(place) == at, "the reader was moved"
    page.get_by_label("System message").click()
    page.get_by_role("button", name="Stop", exact=True).evaluate("b => b.click()")
    ready.wait_for()
    assert page.evaluate("document.activeElement.id") == "system", "the focus was taken"
    # Numbers that the server would be sent otherwise than they were typed.
    for field, value in (("Seed", "9007199254740993"), ("Seed", "1.5"), ("Temperature", ""), ("Tokens at most", "0")):
        known = page.get_by_label(field, exact=True).input_value()
        page.get_by_label(field, exact=True).fill(value)
        before = len(sent)
        say(page, "Hi")
        page.wait_for_timeout(200)
        assert len(sent) == before, f"{field} {value} was sent"
        page.get_by_label(field, exact=True).fill(known)
    return problems


def reasoning(page, shots, name):
    """The reasoning stands in a block of its own before the answer, as text, and is not sent back."""
    problems, sent = [], []
    page.on("pageerror", lambda e: problems.append(f"script: {e}"))
    page.on("request", lambda r: sent.append(json.loads(r.post_data)) if r.url.endswith("/chat/completions") else None)
    with tempfile.TemporaryDirectory() as folder:
        make_reasoning_model(folder, "<think>\n")
        server = Server(folder, "--fixed-draft", "--max-draft", "5")
        try:
            body = {"messages": user("a"), "temperature": 1, "max_tokens": 400}
            answers = ((seed, server.post("/v1/chat/completions", {**body, "seed": seed})[1]["choices"][0]["message"])
                       for seed in range(100))
            seed, message = next((s, m) for s, m in answers if m.get("reasoning_content") and len(m["content"]) > 30)
            page.goto(f"http://{server.host}:{server.port}/")
            page.get_by_text("rule shared-noise").wait_for()
            page.get_by_label("Temperature").fill("1")
            page.get_by_label("Seed", exact=True).fill(str(seed))
            ask(page, "a", 400)
            thoughts = page.locator(".turn.assistant .thoughts")
            assert thoughts.count() == 1 and not thoughts.evaluate("e => e.open"), "the reasoning is not closed"
            assert thoughts.locator("p").evaluate("e => e.textContent") == message["reasoning_content"]
            assert page.locator(".turn.assistant .said").evaluate("e => e.textContent") == message["content"]
            thoughts.locator("summary").focus()
            page.keyboard.press("Enter")
            assert thoughts.evaluate("e => e.open"), "the keyboard does not open the reasoning"
            problems += page.evaluate(CHECK)
            page.screenshot(path=os.path.join(shots, f"{name}-reasoning.png"))
            ask(page, "b", 8)
            assert sent[-1]["messages"][1] == {"role": "assistant", "content": message["content"]}, sent[-1]
            assert page.locator(".turn.assistant .thoughts").last.evaluate("e => e.open"), "reasoning that goes on is closed"
        finally:
            server.stop()
    return problems


def main():
    global URL
    arguments = [FORERUN, *sys.argv[1:]]
    shots = tempfile.mkdtemp()
    if "--shots" in arguments:
        at = arguments.index("--shots")
        shots = arguments[at + 1]
        del arguments[at:at + 2]
    server, URL = serve(arguments[0], arguments[1] if len(arguments) > 1 else None)
    failed = []
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, options in (("page-light", {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"}),
                                  ("page-dark", {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"}),
                                  ("page-phone", {"viewport": {"width": 390, "height": 844}, "color_scheme": "light",
                                                  "is_mobile": True, "has_touch": True})):
                context = browser.new_context(**options)
                problems = talk(context.new_page(), shots, name) + mishaps(context.new_page(), shots, name) + \
                    reasoning(context.new_page(), shots, name)
                print(name, problems or "fine")
                failed += problems
                context.close()
            browser.close()
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()
    print("screenshots:", shots)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
