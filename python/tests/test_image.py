import numpy as np
import pytest

import forerun

FAST = {"steps": 20, "guidance": 1.0, "seed": 7}


def test_images_are_arrays_and_depend_on_no_batch(dit):
    labels = [0, 1, 2, 1]
    run = forerun.generate_images(dit, labels, "none", **FAST)
    assert run.images.dtype == np.uint8 and run.images.shape == (4, dit.side, dit.side, dit.channels)
    assert run.values.dtype == np.float32 and run.values.shape == (4, dit.channels, dit.side, dit.side)
    rounded = np.clip((run.values + 1) * 127.5, 0, 255).transpose(0, 2, 3, 1)
    assert np.abs(rounded - run.images).max() <= 1.0
    one_by_one = forerun.generate_images(dit, labels, batch_size=1, **FAST)
    np.testing.assert_array_equal(run.values, one_by_one.values)
    last = forerun.generate_images(dit, labels[3:], first=3, pictures=False, **FAST)
    np.testing.assert_array_equal(run.values[3:], last.values)
    assert last.images.size == 0


def test_drafts_save_passes_and_are_certified(dit):
    drafted = {"max_draft": 3, "fixed_draft": True, **FAST}
    run = forerun.generate_images(dit, [0, 1], "self", **drafted)
    assert run.efficiency > 1.5 and run.statistics.acceptance == 1.0 and run.exact
    certificate = forerun.certify_images(dit, [0, 1, 2, 3] * 4, "frozen", counterfactuals=4, **drafted)
    assert certificate.passed and certificate.counterfactuals == 4 and certificate.violations == 0


def test_the_certificate_finds_a_relaxed_rule(dit):
    drafted = {"max_draft": 3, "fixed_draft": True, "relaxation": [0.0] * FAST["steps"], **FAST}
    assert not forerun.certify_images(dit, [0, 1, 2, 3] * 4, "frozen", counterfactuals=0, **drafted).passed


def test_image_tokens(mar):
    options = {"steps": 8, "seed": 7, "pictures": False}
    plain = forerun.generate_images(mar, [0, 1], **options)
    assert plain.values.shape == (2, mar.channels, mar.side, mar.side) and plain.statistics.outputs == 2 * mar.tokens
    drafted = forerun.generate_images(mar, [0, 1], "self", max_draft=3, fixed_draft=True, rule="stepwise", **options)
    assert drafted.exact and drafted.statistics.drafted > 0 and 0.0 <= drafted.acceptance <= 1.0
    with pytest.raises(forerun.UsageError, match="variance: no 'wide'; use one of calibrated, beta, posterior"):
        forerun.generate_images(mar, [0], variance="wide")


def test_wrong_requests_are_named(dit, tmp_path):
    with pytest.raises(forerun.UsageError):
        forerun.generate_images(dit, [dit.classes + 1], **FAST)
    for labels in (["1"], [1.0]):
        with pytest.raises(TypeError):
            forerun.generate_images(dit, labels, **FAST)
    with pytest.raises(forerun.UsageError, match="no option 'variance'"):
        forerun.generate_images(dit, [0], variance="beta")
    with pytest.raises((forerun.FormatError, forerun.UsageError)):
        forerun.load_image_model(str(tmp_path))
