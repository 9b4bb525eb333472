import json
import pathlib
import threading

import numpy as np
import pytest

import forerun

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data"
LLAMA = DATA / "tiny" / "llama_plain"
DIT = DATA / "dit" / "reference_pixel"
MAR = DATA / "mar" / "causal"
PROMPT = "a b a b c a b a b c 1 2 1 2 3 1 2 1 2 3"


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    forerun.set_threads(1)


@pytest.fixture(scope="session")
def model():
    return forerun.Model(str(LLAMA), "f32")


@pytest.fixture(scope="session")
def dit():
    return forerun.load_image_model(str(DIT), "f32")


@pytest.fixture(scope="session")
def mar():
    return forerun.load_image_model(str(MAR))


def read_safetensors(path, name):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])[name]
    kind = {"F32": np.float32, "I64": np.int64, "I32": np.int32}[entry["dtype"]]
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[8 + size + begin:8 + size + end], kind).reshape(entry["shape"])


def ticks_during(call):
    """Turns of another Python thread meanwhile."""
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(len(ticks))

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = len(ticks)
        call()
        return len(ticks) - before
    finally:
        done.set()
        thread.join()
