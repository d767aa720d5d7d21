"""`gcbs embed`: texts in, embeddings out."""

import sys
from functools import partial
from pathlib import Path

from gcbs_cli.cli.output import Output
from gcbs_cli.embed import as_table, embed_texts, load_model, read_ids, read_texts
from gcbs_cli.plan_file.permutation import write_array
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.settings.others import Embed
from gcbs_cli.system.errors import BadInput


def embed(settings: Embed) -> None:
    """Embed both sides, and write them."""
    out, output = Output(settings, settings.output), settings.output
    target = Path(output)
    both = target.suffix.lower() == ".parquet"
    if not both and target.suffix:
        raise BadInput(f"--output {output}: expected a .parquet file, or a folder for x.npy and y.npy")
    files = [target] if both else [target / "x.npy", target / "y.npy"]
    if both or target.exists():
        check_outputs(files, [settings.texts, settings.model], force=settings.force)
    x_texts = read_texts(settings.texts, settings.x_text, "--x-text")
    y_texts = read_texts(settings.texts, settings.y_text, "--y-text")
    encoder = load_model(settings.model, settings.device)
    progress = out.for_people and sys.stderr.isatty()
    named = f"{len(x_texts):,} texts of {settings.x_text}, then as many of {settings.y_text}"
    out.note(f"embedding {named}, on {encoder.device}")
    x = embed_texts(encoder, x_texts, settings.x_prompt, settings.encode_batch, progress)
    y = embed_texts(encoder, y_texts, settings.y_prompt, settings.encode_batch, progress)
    if both:
        import pyarrow.parquet as pq

        table = as_table(x, y, read_ids(settings.texts), (x_texts, y_texts))
        write(target, lambda file: pq.write_table(table, file))
    else:
        target.mkdir(parents=True, exist_ok=True)
        for path, side in zip(files, (x, y), strict=True):
            write(path, partial(write_array, array=side))
    written = [str(file) for file in files]
    out.table(f"{len(x):,} pairs × {x.shape[1]} written to {' and '.join(written)}")
    out.hint(f"gcbs plan {' '.join(written)} -o perm.npy")
    out.result({"rows": len(x), "dim": int(x.shape[1]), "written": written, "model": settings.model})
