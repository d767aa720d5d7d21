"""Plans in parts: parts are whole batches of similar rows, and the plan is the same however it is computed."""

import json
import threading
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import LONGEST_WAIT
from unit_data import Listener, make_pair, stream_of, unit

from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.parts import part
from gcbs_cli.planning.parts.part import plan_part
from gcbs_cli.planning.parts.partition import learn_centres, make_partition
from gcbs_cli.planning.parts.plan import plan_in_parts
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import devices
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput

ROWS = 1003
"""15 batches of 64 and 43 rows over."""
FOUR = PlanSettings(partitions=4)


@cache
def clustered():
    generator = np.random.default_rng(3)
    shared = 2.0 * generator.normal(size=(12, 24))[generator.integers(12, size=ROWS)]
    shared += generator.normal(size=shared.shape)
    return PairedRows(*(unit(shared + 0.5 * generator.normal(size=shared.shape)) for _ in "xy"))


def planned(parts=4, block_bytes=1 << 20, **settings):
    return plan_in_parts(stream_of(clustered(), block_bytes), PlanSettings(partitions=parts, **settings))


@pytest.mark.parametrize("kind", ["related", "duplicates", "all-equal", "one-dimension", "1003-dimensions", "hubs"])
@pytest.mark.parametrize("parts", [1, 3, 15])
def test_parts_are_whole_batches_of_all_rows(kind, parts):
    pair = make_pair(kind, ROWS)
    stream = stream_of(pair)
    partition = make_partition(stream, learn_centres(stream, parts, seed=0), 64)
    sizes = np.array([len(rows) for rows in partition])
    assert sorted(np.concatenate(partition).tolist()) == list(range(ROWS))
    assert len(sizes) == parts
    assert (sizes[:-1] % 64 == 0).all()
    assert (sizes >= 64).all()
    assert np.ptp(sizes // 64) <= 1
    assert all((np.diff(rows) > 0).all() for rows in partition)


@pytest.mark.parametrize(("method", "parts"), [("rcm", 4), ("rcm", 1), ("random", 4), ("knn-groups", 4)])
def test_each_part_is_planned_as_if_it_were_all(tmp_path, method, parts):
    pair, settings = clustered(), PlanSettings(method=method)
    plan = plan_in_parts(stream_of(pair), settings.changed(partitions=parts), beside=tmp_path / "perm.npy")
    assert sorted(plan.perm.tolist()) == list(range(ROWS))
    assert plan.partitions is not None
    for found in np.split(plan.perm, np.cumsum(plan.partitions.sizes)[:-1]):
        rows = np.sort(found)
        assert (found == rows[make_plan(PairedRows(pair.x[rows], pair.y[rows]), settings).perm]).all()
    assert list(tmp_path.iterdir()) == []  # the rows in the order of parts are gone


def test_neither_blocks_nor_shards_change_the_plan(tmp_path):
    pair, whole = clustered(), planned().perm
    assert (planned(block_bytes=1000).perm == whole).all()
    for side, cuts in (("x", [100, 700]), ("y", [333])):
        (tmp_path / side).mkdir()
        for number, piece in enumerate(np.split(getattr(pair, side), cuts)):
            np.save(tmp_path / side / f"part-{number}.npy", piece)
    stream = PairStream(*open_pair(str(tmp_path / "x"), str(tmp_path / "y")))
    assert (plan_in_parts(stream, FOUR).perm == whole).all()


def test_groups_are_kept_apart_within_parts():
    groups = np.arange(ROWS) // 2
    plan = plan_in_parts(stream_of(clustered()), FOUR.changed(refine=True), groups=groups)
    for start in range(0, ROWS, 64):
        batch = groups[plan.perm[start : start + 64]]
        assert len(set(batch.tolist())) == len(batch)


def test_batches_are_shuffled_over_all_parts():
    shuffled, plain = planned(shuffle_batches=True).perm, planned().perm
    found, batches = (
        {tuple(batch) for batch in perm[: 15 * 64].reshape(-1, 64).tolist()} for perm in (shuffled, plain)
    )
    assert found == batches
    assert (shuffled[15 * 64 :] == plain[15 * 64 :]).all()
    assert (shuffled != plain).any()


@pytest.mark.parametrize(
    ("settings", "groups", "message"),
    [
        ({"partitions": 16}, None, "--partitions 16: the 1,003 rows make 15 batches of 64"),
        ({"partitions": 15, "per_row": 500}, None, "--per-row 500"),
        ({"partitions": 4}, np.arange(ROWS) % 12, r"part \d of 4 .*--groups"),
    ],
)
def test_what_does_not_fit_is_said(settings, groups, message):
    with pytest.raises(BadInput, match=message):
        plan_in_parts(stream_of(clustered()), PlanSettings(**settings), groups=groups)


@pytest.mark.parametrize("method", ["rcm", "knn-groups"])
def test_parts_dealt_to_devices_are_planned_as_one_after_the_other(method, monkeypatch):
    listener = Listener()
    settings = FOUR.changed(method=method)
    one_after_the_other = planned(method=method).perm
    monkeypatch.setattr("gcbs_cli.planning.parts.plan.devices_named", lambda device: ["cpu", "cpu"])
    dealt = plan_in_parts(stream_of(clustered()), settings, listener)
    assert (dealt.perm == one_after_the_other).all()
    assert listener.done == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_every_device_gets_parts(monkeypatch):
    used = []
    together = threading.Barrier(2)

    def planned_on(task, rows):
        name = task.settings.device
        used.append(name)
        if used.count(name) == 1:
            together.wait(LONGEST_WAIT)
        plan = plan_part(replace(task, settings=task.settings.changed(device="cpu")), rows)
        return replace(plan, device=name)

    monkeypatch.setattr(part, "plan_part", planned_on)
    monkeypatch.setattr(devices, "_cuda_device_count", lambda: 2)
    plan = plan_in_parts(stream_of(clustered()), FOUR.changed(device="cuda:all"))
    assert (sorted(set(used)), len(used)) == (["cuda:0", "cuda:1"], 4)
    assert plan.device == "cuda:0, cuda:1"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pair = clustered()
    np.save("x.npy", pair.x)
    np.save("y.npy", pair.y)
    return tmp_path


def test_a_plan_in_parts_of_columns_can_be_checked(gcbs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pair = clustered()
    columns = {name: list(side) for name, side in (("left", pair.x), ("right", pair.y), ("x", pair.y), ("y", pair.x))}
    pq.write_table(pa.table(columns), "pairs.parquet")
    words = ("pairs.parquet", "--x-column", "left", "--y-column", "right")
    assert gcbs("plan", *words, "--partitions", "4", "-o", "perm.npy").exit_code == 0
    assert gcbs("check", "-p", "perm.npy", *words).exit_code == 0


def test_a_disk_without_room_for_the_rows_is_refused_before_they_are_written(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1 << 10))
    with pytest.raises(BadInput, match=r"^--partitions: a temporary copy of the rows .* needs 188.1 KiB, and 1.0 KiB"):
        planned()


def test_rows_go_to_the_parts_of_their_clusters():
    """On clusters far apart, two rows of one part are more alike than two of different parts."""
    pair, plan = clustered(), planned()
    assert plan.partitions is not None
    label = np.repeat(np.arange(4), plan.partitions.sizes)[inverse(plan.perm)]
    similar, same = pair.x @ pair.x.T, label[:, None] == label
    assert similar[same].mean() > similar[~same].mean() + 0.1


@pytest.mark.parametrize(("words", "parts"), [("", 1), ("--max-memory 80M", 2)])
def test_auto_makes_as_few_parts_as_fit(gcbs, files, words, parts, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = ["--partitions", "auto", "--quantile", "0.2", *words.split()]
    result = gcbs("plan", "x.npy", "y.npy", *words, "--json", "-o", "auto.npy")
    assert json.loads(result.stdout)["partitions"]["parts"] == parts


def test_auto_makes_no_part_of_fewer_rows_than_entries_asked_a_row(gcbs, files):
    words = ["--partitions", "auto", "--per-row", "300", "--max-memory", "30M"]
    assert "--max-memory 30.0 MiB: the plan would need" in gcbs("plan", "x.npy", "y.npy", *words).stderr
