import numpy as np
import pytest

from gcbs_cli.system.arrays import equal_rows, grouped, inverse, ragged


def test_inverse_gives_the_position_of_each_row():
    perm = np.random.default_rng(0).permutation(50)
    assert np.array_equal(inverse(perm)[perm], np.arange(50))
    assert np.array_equal(perm[inverse(perm)], np.arange(50))


@pytest.mark.parametrize("lengths", [[], [0], [3], [2, 0, 3, 0], [0, 1, 1]])
def test_ragged_counts_lists_and_the_places_in_them(lengths):
    lists, places = ragged(np.array(lengths, np.int64))
    entries = [(number, place) for number, length in enumerate(lengths) for place in range(length)]
    assert list(zip(lists.tolist(), places.tolist(), strict=True)) == entries


def test_rows_are_equal_when_their_numbers_are():
    side = np.array([[1, 0], [0, 1], [1, -0.0], [0, 1], [1, 1e-30]], np.float32)
    first, numbers = equal_rows(side)
    assert sorted(first.tolist()) == [0, 1, 4]
    assert numbers[0] == numbers[2]
    assert numbers[1] == numbers[3]
    assert len({int(numbers[row]) for row in (0, 1, 4)}) == 3
    assert np.array_equal(side[first][numbers], side)


def test_grouped_is_a_stable_sort():
    keys = np.random.default_rng(0).integers(7, size=200)
    places, starts = grouped(keys, 9)
    assert np.array_equal(places, np.argsort(keys, kind="stable"))
    assert np.array_equal(starts, np.searchsorted(np.sort(keys), np.arange(10)))
