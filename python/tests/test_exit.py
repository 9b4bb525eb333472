"""The interpreter exits while a daemon thread is in a call: the process ends as if there were none."""

import subprocess
import sys

import pytest

from conftest import LLAMA, PROMPT

SCRIPT = """
import sys, threading, time
import forerun
forerun.set_threads(1)
model = forerun.Model(sys.argv[2], "f32")
prompt = sys.argv[3]
many = {"max_tokens": 200, "ignore_end": True}
begun = threading.Event()

def through_an_engine():
    engine = forerun.Engine()
    engine.submit(model, prompt, None, **many)
    list(engine)

calls = {"generate": lambda: forerun.generate(model, prompt, None, **many),
         "on_text": lambda: forerun.generate(model, prompt, None, on_text=lambda piece: time.sleep(0.001), **many),
         "engine": through_an_engine,
         "encode": lambda: model.encode(prompt * 100)}

def work():
    while True:
        calls[sys.argv[1]]()
        begun.set()

threading.Thread(target=work, daemon=True).start()
begun.wait()
"""


@pytest.mark.parametrize("call", ["generate", "on_text", "engine", "encode"])
def test_a_daemon_thread_in_a_call_does_not_abort_the_exit(call):
    ended = subprocess.run([sys.executable, "-c", SCRIPT, call, LLAMA, PROMPT], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
