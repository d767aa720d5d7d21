import pytest

from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_memory, parse_size, show_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1500000", 1_500_000),
        ("0", 0),
        ("512M", 512 * 2**20),
        ("4GiB", 4 * 2**30),
        ("4g", 4 * 2**30),
        ("4GB", 4 * 2**30),
        ("1.5k", 1536),
        (" 2 T ", 2 * 2**40),
        ("7b", 7),
    ],
)
def test_sizes_as_people_write_them(text, size):
    assert parse_size(text, "--max-memory") == size


@pytest.mark.parametrize("text", ["", "G", "-4G", "4X", "4GG", "1e9", "4 G 5", "1,5G", "nan", "inf"])
def test_what_is_no_size_is_refused_by_its_option(text):
    with pytest.raises(BadInput, match=r"^--max-memory .*expected a size such as"):
        parse_size(text, "--max-memory")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2**40, "1.0 TiB"),
        (3000 * 2**40, "3000.0 TiB"),
    ],
)
def test_sizes_for_people(size, text):
    assert show_size(size) == text


def test_a_size_that_is_shown_can_be_read():
    for size in (700, 3 * 2**10, 5 * 2**20, 7 * 2**30, 9 * 2**40):
        assert parse_size(show_size(size).replace("bytes", ""), "--max-memory") == size


def test_some_memory_is_left():
    assert 2**20 < available_memory() < 2**50


def test_a_limit_on_the_address_space_counts(monkeypatch):
    resource = pytest.importorskip("resource")
    without = available_memory()
    limit = 2**36
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert 0 <= available_memory() <= min(without + 2**28, limit)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**20, 2**20))
    assert available_memory() == 0
