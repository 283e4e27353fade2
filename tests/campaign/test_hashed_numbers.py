"""Numbers drawn for many addresses at once are the published generator's, spread evenly, and each depends on its own key alone."""

from __future__ import annotations

import numpy as np

from gate.randomness import hashed, key, uniforms


def test_the_stream_of_a_key_is_splitmix64() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]  # seed 1234567
    found = hashed(np.array([1234567], dtype=np.uint64), np.arange(5, dtype=np.uint64))
    assert found.tolist() == published


def test_a_number_depends_on_its_key_and_index_alone() -> None:
    keys = np.array([key(5, "judging", f"s-{row}") for row in range(200)], dtype=np.uint64)
    whole = uniforms(keys, 3)
    assert uniforms(keys[40:41], 3)[0] == whole[40]
    np.testing.assert_array_equal(uniforms(keys[::-1], 3), whole[::-1])
    assert (uniforms(keys, 4) != whole).all()
    assert len(set(keys.tolist())) == 200


def test_they_are_spread_evenly_and_never_one() -> None:
    drawn = uniforms(np.array([key(0, "any")], dtype=np.uint64), np.arange(100_000, dtype=np.uint64))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, bins=50, range=(0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 100  # chi-squared, 49 degrees of freedom: beyond it less than once in 10,000
