"""A bandit that many choose from at once: arms that pay more for their work are drawn more, none starves, none takes everything."""

from __future__ import annotations

import numpy as np

__all__ = ["CAP", "FLOOR", "Bandit"]

CAP = 0.8  # the largest weight that an arm can have, unless it is alone
FLOOR = 1.0 - CAP  # share of the draws that is dealt out evenly, so that the best of any number of arms can still reach the cap
HALF_LIFE = 2_000.0  # draws after which a reward counts half
PRIOR = 4.0  # imagined draws of each arm, which paid what an arm pays on average
SHARPNESS = 2.0  # weights follow this power of what an arm pays for its work


class Bandit:
    """Weights of K arms from what each has paid for its work, where old rewards are forgotten.

    Discounted as by A. Garivier and E. Moulines, "On upper-confidence bound policies for switching bandit problems", ALT 2011. A whole
    batch is drawn before anything of it is learnt, and what an arm pays falls as it is drawn (coverage can be found only once), so arms are
    drawn in proportion to a power of their estimate, with a floor, and not the one with the highest bound. The estimate of an arm with
    few draws leans towards the mean over all arms.

    With one arm its weight is 1. With two, the better one has at most ``CAP`` and the other what is left. What the cap takes from an arm
    goes to the others in proportion to theirs.

    Args:
        costs: work of one draw of each arm, float [K], more than zero; what the work really was replaces it as draws come in.
        half_life: draws (of all arms) after which a reward counts half.
    """

    def __init__(self, costs: np.ndarray, *, half_life: float = HALF_LIFE) -> None:
        self._costs = np.asarray(costs, dtype=np.float64)
        self._half_life = half_life
        self._draws = np.zeros(len(self._costs))
        self._work = np.zeros(len(self._costs))
        self._reward = np.zeros(len(self._costs))

    def pays(self) -> np.ndarray:
        """float64 [K]: the estimated reward per work of each arm."""
        draws = self._draws + PRIOR
        # Each arm says what an arm pays, the more surely known the more; the arm that is drawn most must not speak for all.
        known = self._draws / draws
        mean = float((self._reward / draws).sum() / known.sum()) if known.any() else 0.0
        reward = (self._reward + PRIOR * mean) / draws
        pays: np.ndarray = reward / ((self._work + PRIOR * self._costs) / draws)
        return pays

    def weights(self, open_: np.ndarray | None = None) -> np.ndarray:
        """float64 [K]: the chance of each arm in the next draw; sums to one. ``open_`` bool [K]: arms that take part, all where None."""
        taking = np.ones(len(self._costs), dtype=bool) if open_ is None else np.asarray(open_, dtype=bool)
        pays = self.pays()
        if not pays.any():  # nothing has paid yet: what is cheap first
            pays = 1.0 / self._costs
        pays = np.where(taking, pays, 0.0)
        if not pays.any():
            pays = taking.astype(np.float64)
        # Relative to the best before the power is taken, so that nothing small becomes zero for all arms.
        sharp = (pays / pays.max()) ** SHARPNESS
        return _capped(np.where(taking, FLOOR / taking.sum(), 0.0) + (1.0 - FLOOR) * sharp / sharp.sum())

    def learn(self, arms: np.ndarray, rewards: np.ndarray, work: np.ndarray | None = None) -> None:
        """Takes in draws: their arms int [N], what each paid float [N], and its work float [N], the declared cost where None."""
        size = len(self._costs)
        kept = 0.5 ** (len(arms) / self._half_life)
        for held in (self._draws, self._work, self._reward):
            held *= kept
        self._draws += np.bincount(arms, minlength=size)
        self._work += np.bincount(arms, weights=self._costs[arms] if work is None else work, minlength=size)
        self._reward += np.bincount(arms, weights=rewards, minlength=size)

    def charge(self, arms: np.ndarray, work: float) -> None:
        """Adds work that arms bool [K] have caused together, without a draw; each bears an even part."""
        self._work[arms] += work / max(1, int(np.count_nonzero(arms)))


def _capped(weights: np.ndarray) -> np.ndarray:
    top = int(weights.argmax())
    rest = 1.0 - weights[top]
    if weights[top] > CAP and np.count_nonzero(weights) > 1:
        weights = weights * (1.0 - CAP) / rest
        weights[top] = CAP
    return weights
