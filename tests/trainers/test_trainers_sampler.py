"""The sampler alone, in one process: contents, order, length, ranks, resuming, and plans that do not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launching import save
from torch.utils.data import DataLoader
from toy_pairs import BATCH, ROWS, Pairs, check_epoch, planned_batches

from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers import PlannedBatchSampler, PlanWarning, interleave_batches


def test_yields_the_planned_batches_and_shuffles_all_but_the_short_one(plan_path, perm):
    for sampler in (PlannedBatchSampler(perm, BATCH), PlannedBatchSampler(plan_path)):
        assert list(sampler) == planned_batches(perm)
        assert len(sampler) == 9
        assert all(type(row) is int for batch in sampler for row in batch)
    sampler = PlannedBatchSampler(perm, BATCH, shuffle_batches=True, seed=3)
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert sorted(map(tuple, batches)) == sorted(map(tuple, planned_batches(perm)))
        assert batches[-1] == planned_batches(perm)[-1]
        orders.append(batches)
    assert orders[0] != orders[1] != orders[2]
    again = PlannedBatchSampler(perm, BATCH, shuffle_batches=True, seed=3)
    again.set_epoch(2)
    assert list(again) == orders[2]


@given(
    rows=st.integers(2, 60),
    size=st.integers(1, 12),
    ranks=st.integers(1, 5),
    gather=st.booleans(),
    drop_last=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_whole_batches_once_and_as_many_steps_on_each_rank(rows, size, ranks, gather, drop_last, epoch):
    perm = np.random.default_rng(rows).permutation(rows)
    size = size * ranks if gather else size
    try:
        samplers = [
            PlannedBatchSampler(perm, size, drop_last, True, 5, rank, ranks, gather=gather) for rank in range(ranks)
        ]
    except BadInput as error:
        assert "are too few for" in str(error)  # noqa: PT017
        assert rows // size < (1 if gather else ranks) or drop_last
        return
    for sampler in samplers:
        sampler.set_epoch(epoch)
    lists = [list(sampler) for sampler in samplers]
    assert [len(batches) for batches in lists] == [len(sampler) for sampler in samplers]
    assert len({len(batches) for batches in lists}) == 1
    steps = zip(*lists, strict=True)
    seen = [[r for part in step for r in part] for step in steps] if gather else [b for part in lists for b in part]
    left_out = samplers[0].left_out()
    check_epoch(seen, perm, set(left_out.tolist()), size)
    assert len(left_out) < (size if gather else ranks * size)


@pytest.mark.parametrize(("workers", "fetched_ahead"), [(0, False), (2, True)])
def test_resumes_in_the_middle_of_an_epoch(workers, fetched_ahead, plan_path):
    sampler = PlannedBatchSampler(plan_path, shuffle_batches=True)
    sampler.set_epoch(1)
    batches = iter(DataLoader(Pairs(), batch_sampler=sampler, num_workers=workers))
    first = [next(batches)["row"].tolist() for _ in range(3)]
    assert (sampler.state_dict()["step"] > 3) is fetched_ahead
    state = sampler.state_dict(step=3)
    resumed = PlannedBatchSampler(plan_path, shuffle_batches=True)
    resumed.load_state_dict(state)
    resumed.set_epoch(1)  # frameworks say it again
    rest = list(resumed)
    resumed.set_epoch(1)
    assert (
        first + rest == list(resumed) == [batch["row"].tolist() for batch in DataLoader(Pairs(), batch_sampler=resumed)]
    )
    assert len(rest) == 6


@pytest.mark.parametrize(
    "change",
    [{"plan": np.arange(ROWS)}, {"seed": 1}, {"batch_size": 4}, {"world_size": 2}],
    ids=lambda change: str(*change),
)
def test_resuming_something_else_is_refused(change, perm):
    settings = {"plan": perm, "batch_size": BATCH, "shuffle_batches": True, "rank": 0}
    state = PlannedBatchSampler(**settings).state_dict()
    sampler = PlannedBatchSampler(**settings | change)
    with pytest.raises(BadInput, match="cannot resume"):
        sampler.load_state_dict(state)
    for name, value in (("epoch", None), ("step", -1), ("planned_at", 0.5)):
        with pytest.raises(BadInput, match=f"found {name} {value}; give a state"):
            sampler.load_state_dict(state | {name: value})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dataset": range(ROWS + 4)}, "71"),
        ({"dataset": range(ROWS - 4)}, "67|66"),
        ({"batch_size": 16}, "planned for batches of 8, asked for 16"),
        ({"rank": 0, "world_size": 3, "gather": True}, "batch_size 8: not divisible by world_size 3"),
        ({"rank": 2, "world_size": 2}, "rank 2: expected between 0 and 1"),
        ({"world_size": 10}, "71 rows are too few for 10 ranks"),
    ],
    ids=["longer data", "shorter data", "another batch size", "slices", "rank", "too many ranks"],
)
def test_what_does_not_fit_the_plan_is_refused(settings, said, plan_path):
    with pytest.raises(BadInput, match=said):
        PlannedBatchSampler(plan_path, **settings)


def test_a_plan_without_its_manifest_needs_a_batch_size_and_is_not_another_ones(plan_path, perm):
    np.save(plan_path, perm[::-1])
    with pytest.raises(BadInput, match="the manifest is of another permutation"):
        PlannedBatchSampler(plan_path)
    bare = plan_path.rename(plan_path.with_name("bare.npy"))
    with pytest.raises(BadInput, match="give batch_size"):
        PlannedBatchSampler(bare)
    assert list(PlannedBatchSampler(bare, BATCH)) == planned_batches(perm[::-1])


def test_a_run_keeps_the_plan_it_has_read_and_needs_another_for_more_rows(plan_path, perm):
    rows = list(range(ROWS))
    sampler = PlannedBatchSampler(plan_path, dataset=rows)
    save(plan_path, perm[::-1].copy())
    sampler.set_epoch(1)
    assert list(sampler) == planned_batches(perm)
    rows.append(ROWS)
    with pytest.raises(BadInput, match="found 72 rows, planned for 71"):
        next(iter(sampler))


def test_a_name_pattern_takes_new_plans_as_they_appear(tmp_path, perm):
    save(tmp_path / "perm-0.npy", perm)
    sampler = PlannedBatchSampler(str(tmp_path / "perm-{epoch}.npy"))
    sampler.set_epoch(1)
    assert list(sampler) == planned_batches(perm)  # no new plan: the old one goes on
    newer = perm[::-1].copy()
    save(tmp_path / "perm-2.npy", newer)
    assert list(sampler) == planned_batches(perm)
    sampler.set_epoch(2)
    assert list(sampler) == planned_batches(newer)
    late = PlannedBatchSampler(str(tmp_path / "perm-{epoch}.npy"))
    late.set_epoch(5)
    assert list(late) == planned_batches(newer)
    save(tmp_path / "perm-6.npy", np.arange(ROWS + 1))
    for _ in range(2):  # a plan of other rows is not taken for read
        with pytest.raises(BadInput, match="71"):
            late.set_epoch(6)
    with pytest.raises(BadInput, match="no plan for epoch 0"):
        PlannedBatchSampler(str(tmp_path / "none-{epoch}.npy"))
    (tmp_path / "perm-6.npy").unlink()
    late.set_epoch(7)
    assert list(late) == planned_batches(newer)


def test_a_plan_for_other_ranks_says_so(tmp_path, perm):
    path = save(tmp_path / "perm.npy", perm, world_size=4, gather=True)
    with pytest.warns(PlanWarning, match=r"planned for 4 ranks \(gather: True\), used with 2 ranks \(gather: True\)"):
        PlannedBatchSampler(path, rank=0, world_size=2)
    with pytest.warns(PlanWarning, match=r"used with 4 ranks \(gather: False\)"):
        PlannedBatchSampler(path, rank=0, world_size=4, gather=False)
    assert PlannedBatchSampler(path, rank=1, world_size=4).sharding.gather


@pytest.mark.parametrize(("ranks", "gather"), [(1, False), (2, False), (2, True)])
def test_what_an_epoch_has_left_is_planned_again_and_resumed(ranks, gather, perm):
    """Each row once, whatever is planned again; a resumed run asks for no plan that was made before."""
    asked = []

    def replan(sampler, step, rows):
        asked.append((sampler.epoch, step))
        return np.random.default_rng(step).permutation(rows)

    def make(rank):
        sampler = PlannedBatchSampler(perm, BATCH, None, True, rank=rank, world_size=ranks, gather=gather)
        sampler.replan, sampler.every = replan, 2
        return sampler

    samplers = [make(rank) for rank in range(ranks)]
    lists = list(zip(*samplers, strict=True))
    rows = [row for step in lists for batch in step for row in batch]
    assert len(rows) == len(set(rows)) == ROWS - len(samplers[0].left_out())
    assert asked == [(0, step) for step in range(0, len(lists), 2) if len(lists) - step > 1 for _ in range(ranks)]
    half = make(0)
    first = [batch for batch, _ in zip(half, range(3), strict=False)]
    asked.clear()
    again = make(0)
    again.load_state_dict(half.state_dict(step=3))
    assert first + list(again) == [step[0] for step in lists]
    assert (0, 0) not in asked
    assert (0, 2) not in asked


def test_the_launchers_environment_places_a_sampler(perm, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(PlannedBatchSampler(perm, BATCH)) == planned_batches(perm)[1:8:2]
    monkeypatch.setenv("WORLD_SIZE", "x")
    with pytest.raises(BadInput, match="RANK, WORLD_SIZE: .* 'x'"):
        PlannedBatchSampler(perm, BATCH)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_interleaved_batches_come_whole_from_rows_dealt_in_turn(ranks, perm):
    dealt = interleave_batches(perm, BATCH, ranks)
    whole = ROWS // (BATCH * ranks) * BATCH * ranks
    shares = [dealt[rank:whole:ranks].reshape(-1, BATCH).tolist() for rank in range(ranks)]
    assert [batch for step in zip(*shares, strict=True) for batch in step] == planned_batches(perm[:whole])
    assert dealt[whole:].tolist() == perm[whole:].tolist()
    with pytest.raises(BadInput, match="no full batch for each of 9 ranks"):
        interleave_batches(perm, BATCH, 9)


def test_accelerate_does_not_deal_planned_batches_a_second_time(perm):
    prepare = pytest.importorskip("accelerate.data_loader").prepare_data_loader
    ranks = {"num_processes": 2, "process_index": 0}
    loader = DataLoader(range(ROWS), batch_sampler=PlannedBatchSampler(perm, BATCH, rank=0, world_size=2))
    for settings in ({}, {"use_seedable_sampler": True}, {"dispatch_batches": True, "put_on_device": True}):
        with pytest.raises(BadInput, match="accelerate's prepare: would deal planned batches a second time"):
            prepare(loader, **ranks, **settings)
    # Batches that the sampler has not dealt are accelerate's to deal.
    whole = DataLoader(range(ROWS), batch_sampler=PlannedBatchSampler(perm, BATCH, rank=0, world_size=1))
    dealt = [batch.tolist() for batch in prepare(whole, **ranks)]
    assert dealt[0] == perm[:BATCH].tolist()
    assert dealt[1] == perm[2 * BATCH : 3 * BATCH].tolist()
