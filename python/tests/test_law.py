"""Bounds of five sigma: a test fails by chance below once in a million seeds; the seeds are fixed."""

import math

import numpy as np
import pytest

from forerun import law

N = 20_000
KEY = law.Key(seed=11)
P = np.log([0.5, 0.3, 0.2])
Q = np.log([0.2, 0.3, 0.5])
TARGET, DRAFT = np.tile(P, (N, 1)), np.tile(Q, (N, 1))


def near(share, expected, n=N):
    return abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / n)


def certified(outputs, draft=DRAFT):
    test = law.TokenCertificate()
    test.add_outputs(TARGET, outputs, KEY.uniform("certificate", N))
    test.add_sampled_drafts(TARGET, draft, outputs)
    return test.report()


def test_outputs_have_the_targets_law_and_drafts_are_kept_as_often_as_they_can_be():
    drafted = law.sample_draft(DRAFT, KEY)
    out = law.couple(TARGET, DRAFT, drafted, KEY)
    assert near(out.accepted.mean(), 1 - law.total_variation(P, Q)[0])
    assert all(near((out.values == t).mean(), math.exp(P[t])) for t in range(3))
    assert certified(out.values).passed
    np.testing.assert_array_equal(out.values[out.accepted], drafted[out.accepted])


def test_the_certificate_rejects_keeping_every_draft():
    assert not certified(law.sample_draft(DRAFT, KEY)).passed


def test_chosen_drafts():
    out = law.couple(TARGET, None, np.zeros(N, int), KEY, rule="match")
    assert near(out.accepted.mean(), 0.5)
    np.testing.assert_array_equal(out.values == 0, out.accepted)
    np.testing.assert_array_equal(out.values, law.draw(TARGET, KEY, rule="match"))


def test_shared_noise_gives_the_plain_text_whatever_the_draft():
    plain = law.draw(TARGET, KEY, rule="shared-noise")
    for draft in (None, DRAFT):
        out = law.couple(TARGET, draft, law.sample_draft(DRAFT, KEY), KEY, rule="shared-noise")
        np.testing.assert_array_equal(out.values, plain)


def test_block_keeps_more_of_a_draft_than_maximal():
    kept = {"maximal": 0, "block": 0}
    for place in range(0, 12_000, 6):
        key = law.Key(seed=1, position=place)
        drafted = law.sample_draft(DRAFT[:5], key)
        for rule in kept:
            out = law.resolve(TARGET[:6], DRAFT[:5], drafted, key, rule=rule)
            assert len(out.outputs) == out.kept + 1
            np.testing.assert_array_equal(out.outputs[:out.kept], drafted[:out.kept])
            kept[rule] += out.kept
    assert kept["block"] > 1.03 * kept["maximal"]


def test_reflection():
    dim, sigma, shift = 4, 0.7, 0.5
    rng = np.zeros((N, dim), np.float32)
    target, draft = rng, rng + np.float32([shift, 0, 0, 0])
    noise = KEY.normal("draft", N, dim)
    drafted = draft + np.float32(sigma) * noise
    out = law.reflect(target, draft, sigma, drafted, KEY)
    assert near(out.accepted.mean(), math.erfc(shift / (2 * sigma) / math.sqrt(2)))
    for values, passes in ((out.values, True), (drafted, False)):
        test = law.GaussianCertificate()
        test.add(target, sigma, values, draft)
        assert test.report().passed == passes


def test_sampling_parameters():
    logits = np.float32([2.0, 1.0, 0.0, -1.0])
    kept = law.apply_sampling(logits, temperature=0.5, top_k=2)[0]
    assert np.isneginf(kept[2:]).all() and kept[0] - kept[1] == pytest.approx(2.0)
    assert np.isfinite(law.apply_sampling(logits, temperature=0.0)[0]).tolist() == [True, False, False, False]


def test_wrong_arrays_are_named():
    with pytest.raises(ValueError, match="target and draft differ in shape"):
        law.couple(TARGET, DRAFT[:5], np.zeros(N, int), KEY)
    with pytest.raises(ValueError, match="drafted: 3 is no token of 3"):
        law.couple(P, Q, 3, KEY)
    with pytest.raises(ValueError, match="score k \\+ 1 rows"):
        law.resolve(TARGET[:5], DRAFT[:5], np.zeros(5, int), KEY)
    with pytest.raises(ValueError, match="no rule 'luck'"):
        law.couple(P, Q, 0, KEY, rule="luck")
    with pytest.raises(TypeError, match="token ids are integers, not float64"):
        law.couple(P, Q, 1.5, KEY)
    with pytest.raises(ValueError, match="token ids are from 0 to 2147483647; there are 4294967297 to 4294967297"):
        law.couple(P, Q, 2**32 + 1, KEY)
    assert law.resolve(TARGET[:1], None, [], KEY).kept == 0


def test_more_numbers_than_memory_has_are_refused():
    for rows, dim in ((2**62, 4), (2**32, 2**32), (2**62, 1)):
        with pytest.raises(ValueError, match="rows \\* dim"):
            KEY.normal("draft", rows, dim)
    assert KEY.normal("draft", 2, 0).shape == (2, 0)
