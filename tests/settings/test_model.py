"""One model holds an option's name, type, bounds and default: what it refuses, and what is made from it."""

import pickle

import pytest

from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.settings.model import Settings, leaves, option, words
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput

ASKED = {"batch_size": 32, "top": 8, "rank_window": (3, 9), "fn_margin": 0.9, "refine": True, "partitions": 4}


def test_a_part_of_the_settings_keeps_what_was_given_and_changes_are_checked_again():
    settings = PlanSettings(**ASKED)
    assert settings.only(GraphSettings) == GraphSettings(top=8, rank_window=(3, 9), fn_margin=0.9)
    assert settings.only(GraphSettings).model_fields_set == {"top", "rank_window", "fn_margin"}
    assert pickle.loads(pickle.dumps(settings)) == settings
    settings = PlanSettings(**ASKED)
    changed = settings.changed(top=4, method="metis")
    assert (changed.top, changed.method, changed.fn_margin) == (4, "metis", 0.9)
    assert changed.model_fields_set == {*ASKED, "method"}
    with pytest.raises(BadInput, match="--group-size 5"):
        settings.changed(group_size=5)


def test_words_make_the_same_settings_again():
    for settings in (
        PlanSettings(**ASKED, max_memory="1G", world_size=2),
        PlanSettings(preset="train", method="rcm", top=8),
        MineSettings(negatives=5, device="cpu"),
    ):
        options = {leaf.option: leaf for leaf in leaves(type(settings))}
        found = {}
        said = iter(words(settings))
        for word in said:
            leaf = options[word]
            found[leaf.name] = True if leaf.kind is bool else next(said)
        assert type(settings)(**found) == settings


def test_a_list_takes_one_value_a_text_of_several_or_a_list():
    assert ReportSettings(batch_sizes=8).batch_sizes == (8,)
    assert ReportSettings(temperatures="0.02 0.05").temperatures == (0.02, 0.05)
    assert ReportSettings(loss=["bsc", "simclr"]).loss == ("bsc", "simclr")


def test_names_of_options():
    class Inherited(Settings, panel="More"):
        many: tuple[int, ...] = option((), "-m", option="--one")

    class Model(Inherited):
        file: str = option(..., argument=True)

    found = {leaf.option: (leaf.name, leaf.panel, leaf.many) for leaf in leaves(Model)}
    assert found == {"FILE": ("file", None, False), "--one": ("many", "More", True)}
