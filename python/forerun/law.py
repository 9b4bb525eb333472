"""The law itself, on NumPy arrays: couplings of a target's laws with a draft's, and what certifies them.

Laws of tokens are rows of float32 log-weights (natural log, up to a common offset; -inf forbids a token), conditionals of
steps are Gaussians with a mean and a standard deviation. Row i draws the numbers of position key.position + i.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._forerun import CertificateReport
from ._forerun import law as _law

Key = _law.Key

__all__ = ["Coupled", "GaussianCertificate", "Key", "Resolved", "TokenCertificate", "apply_sampling", "couple", "draw",
           "reflect", "resolve", "sample_draft", "total_variation"]


class Coupled(NamedTuple):
    """Outputs, which have the target's law, and whether each is its draft."""
    values: NDArray
    accepted: NDArray[np.bool_]


class Resolved(NamedTuple):
    """Outputs of a round: the kept drafts, then the target's own."""
    outputs: NDArray[np.int32]
    kept: int


def _rows(a: ArrayLike) -> NDArray[np.float32]:
    return np.atleast_2d(np.ascontiguousarray(a, np.float32))


def _ids(a: ArrayLike) -> NDArray[np.int32]:
    ids = np.atleast_1d(np.asarray(a))
    if ids.size and not np.issubdtype(ids.dtype, np.integer):
        raise TypeError(f"token ids are integers, not {ids.dtype}")
    if ids.size and not -2**31 <= ids.min() <= ids.max() < 2**31:
        raise ValueError(f"token ids are from 0 to {2**31 - 1}; there are {ids.min()} to {ids.max()}")
    return np.ascontiguousarray(ids, np.int32)


def _sigma(sigma: ArrayLike, rows: int) -> NDArray[np.float64]:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(sigma, np.float64), rows))


def couple(target: ArrayLike, draft: ArrayLike | None, drafted: ArrayLike, key: Key, *, rule: str = "maximal",
           sampled: bool = True) -> Coupled:
    """Couples each row by itself.

    target  [n, vocab] or [vocab] log-weights
    draft   the same: laws of the drafts; None: they were found without a law
    drafted [n] token ids; sampled from `draft` if `sampled`, else its likeliest or what a search found
    """
    return Coupled(*_law.couple(_rows(target), None if draft is None else _rows(draft), _ids(drafted), key, rule, sampled))


def resolve(target: ArrayLike, draft: ArrayLike | None, drafted: ArrayLike, key: Key, *, rule: str = "maximal",
            sampled: bool = True) -> Resolved:
    """One round over a draft of k tokens: target [k + 1, vocab], draft [k, vocab] or None, drafted [k]."""
    outputs, kept = _law.resolve(_rows(target), None if draft is None else _rows(draft), _ids(drafted), key, rule, sampled)
    return Resolved(outputs, kept)


def draw(target: ArrayLike, key: Key, *, rule: str = "maximal") -> NDArray[np.int32]:
    """Outputs without drafts: what plain decoding with this rule draws."""
    return _law.draw(_rows(target), key, rule)


def sample_draft(draft: ArrayLike, key: Key) -> NDArray[np.int32]:
    """A draft of each row, with the numbers that drafters use."""
    return _law.sample_draft(_rows(draft), key)


def total_variation(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """1/2 sum |a - b| of each row: how often a maximal coupling rejects."""
    return _law.total_variation(_rows(a), _rows(b))


def apply_sampling(logits: ArrayLike, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
                   min_p: float = 0.0) -> NDArray[np.float32]:
    """Log-weights of the law that the parameters make of logits, [n, vocab]; temperature 0 leaves one token."""
    return _law.apply_sampling(_rows(logits), temperature, top_k, top_p, min_p)


def reflect(target: ArrayLike, draft: ArrayLike, sigma: ArrayLike, drafted: ArrayLike, key: Key) -> Coupled:
    """The reflection coupling of Gaussians N(mean, sigma^2 I), each row by itself.

    target, draft [n, dim] or [dim] means; sigma a number or [n]; drafted [n, dim], sampled from the draft's
    """
    means = _rows(target)
    return Coupled(*_law.reflect(means, _rows(draft), _sigma(sigma, len(means)), _rows(drafted), key))


class TokenCertificate(_law.TokenCertificate):
    """Tests whether tokens have the target's laws: give every output, and the draft that was examined there."""

    def add_outputs(self, target: ArrayLike, outputs: ArrayLike, uniform: ArrayLike) -> None:
        """`uniform` [n] in [0, 1), used for nothing else: key.uniform("certificate", n)."""
        super().add_outputs(_rows(target), _ids(outputs), np.atleast_1d(np.asarray(uniform, np.float64)))

    def add_chosen_drafts(self, target: ArrayLike, drafted: ArrayLike, outputs: ArrayLike) -> None:
        super().add_chosen_drafts(_rows(target), _ids(drafted), _ids(outputs))

    def add_sampled_drafts(self, target: ArrayLike, draft: ArrayLike, outputs: ArrayLike) -> None:
        super().add_sampled_drafts(_rows(target), _rows(draft), _ids(outputs))

    def report(self) -> CertificateReport:
        return super().report()


class GaussianCertificate(_law.GaussianCertificate):
    """Tests whether values have the Gaussian laws N(target, sigma^2 I)."""

    def add(self, target: ArrayLike, sigma: ArrayLike, values: ArrayLike, draft: ArrayLike | None = None) -> None:
        means = _rows(target)
        super().add(means, _sigma(sigma, len(means)), _rows(values), None if draft is None else _rows(draft))

    def report(self) -> CertificateReport:
        return super().report()
