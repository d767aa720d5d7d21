"""A file that is no longer what a plan was made from is found."""

import os

import numpy as np


def test_other_bytes_of_the_same_size_and_time_are_found_by_check(gcbs, folder):
    assert gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q").exit_code == 0
    times = os.stat("y.npy").st_mtime_ns
    array = np.load("y.npy")
    array[7, 3] += 1
    np.save("y.npy", array)
    os.utime("y.npy", ns=(times, times))
    ended = gcbs("check", "-p", "perm.npy", "x.npy", "y.npy")
    assert ended.exit_code == 1
    assert "Y is not what the plan was made from" in ended.stderr
