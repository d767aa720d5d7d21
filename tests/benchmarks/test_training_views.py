import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn", reason="the digits come with scikit-learn")

import views
from run_records import read_records


@pytest.mark.slow
def test_views_train_and_the_table_pairs_the_seeds(tmp_path, capsys):
    out = tmp_path / "views.jsonl"
    views.main(["run", "--out", str(out), "--methods", "random", "rcm", "--seeds", "0", "--epochs", "1"])
    records = read_records(out)
    assert records[0]["accuracy"][0] == records[1]["accuracy"][0]
    # one digit is about a tenth of the images, and planning pulls alike images together
    assert records[0]["same_label"] == pytest.approx(0.1, abs=0.01)
    assert records[1]["same_label"] > records[0]["same_label"]
    capsys.readouterr()
    views.main(["table", str(out)])
    assert [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["| random", "| rcm"]


def test_views_differ_and_stay_near_their_image():
    images, draws = views.load_images()[0][:50], torch.Generator().manual_seed(0)
    first, second = (views.draw_views(images, draws) for _ in range(2))
    assert not torch.equal(first, second)
    distances = torch.cdist(first.reshape(50, -1), images.reshape(50, -1))
    assert (distances.diagonal()[:, None] < distances).float().mean() > 0.8
    still = views.Augmentation(rotation=0, scale=0, shift=0, noise=0)
    assert torch.allclose(views.draw_views(images, draws, still), images, atol=1e-5)


def test_neighbours_vote_by_their_similarity():
    train, labels = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.tensor([4, 4, 7])
    test, truth = torch.tensor([[1.0, 0.1], [0.6, 0.8]]), torch.tensor([4, 7])
    assert views.neighbour_accuracy(train, labels, test, truth, 1) == 100.0
    # 0.8 for the one of class 7, 0.6 + 0.68 for the two of class 4
    assert views.neighbour_accuracy(train, labels, test, truth, 3) == 50.0
