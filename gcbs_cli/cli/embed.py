"""`gcbs embed`: texts in, embeddings out."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gcbs_cli.cli import options
from gcbs_cli.cli.edge import at_the_edge

MODEL_PANEL = "Model"


@at_the_edge
def embed(
    texts: Annotated[str, typer.Argument(metavar="TEXTS", help="Pairs of texts: a .parquet, .csv or .jsonl file.")],
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Folder of a sentence-transformers model.", rich_help_panel=MODEL_PANEL),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="A .parquet with the columns x and y (and id), or a folder for x.npy and y.npy.",
            rich_help_panel=options.OUTPUT_PANEL,
        ),
    ] = "embeddings.parquet",
    x_text: Annotated[
        str, typer.Option("--x-text", help="Column with X's texts.", rich_help_panel=options.INPUT_PANEL)
    ] = "x",
    y_text: Annotated[
        str, typer.Option("--y-text", help="Column with Y's texts.", rich_help_panel=options.INPUT_PANEL)
    ] = "y",
    x_prompt: Annotated[
        str,
        typer.Option("--x-prompt", help="Put before each text of X, such as 'query: '.", rich_help_panel=MODEL_PANEL),
    ] = "",
    y_prompt: Annotated[
        str, typer.Option("--y-prompt", help="Put before each text of Y.", rich_help_panel=MODEL_PANEL)
    ] = "",
    encode_batch: Annotated[
        int, typer.Option("--encode-batch", help="Texts that the model takes at once.", rich_help_panel=MODEL_PANEL)
    ] = 64,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Embed pairs of texts with a local sentence-transformers model, for a first plan without code.

    Examples:

      gcbs embed pairs.csv --x-text question --y-text answer --model ./model -o pairs.parquet
    """
    from gcbs_cli.cli.output import Mode, Output, choose_mode
    from gcbs_cli.embed import as_table, embed_texts, load_model, read_texts
    from gcbs_cli.plan_file.writing import check_outputs, write
    from gcbs_cli.system.errors import BadInput

    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    if encode_batch < 1:
        raise BadInput(f"--encode-batch {encode_batch}: expected at least 1")
    target = Path(output)
    both = target.suffix.lower() == ".parquet"
    if not both and target.suffix:
        raise BadInput(f"--output {output}: expected a .parquet file, or a folder for x.npy and y.npy")
    files = [target] if both else [target / "x.npy", target / "y.npy"]
    if both or target.exists():
        check_outputs(files, [texts, model], force=force)
    pairs = read_texts(texts, x_text, y_text)
    encoder = load_model(model, device)
    progress = out.mode is Mode.HUMAN and sys.stderr.isatty()
    out.note(f"embedding {len(pairs.x):,} texts of {x_text}, then as many of {y_text}, on {encoder.device}")
    x = embed_texts(encoder, pairs.x, x_prompt, encode_batch, progress)
    y = embed_texts(encoder, pairs.y, y_prompt, encode_batch, progress)
    if both:
        import pyarrow.parquet as pq

        table = as_table(x, y, pairs.ids)
        write(target, lambda file: pq.write_table(table, file))
    else:
        import numpy as np

        target.mkdir(parents=True, exist_ok=True)
        for path, side in zip(files, (x, y), strict=True):
            write(path, lambda file, side=side: np.save(file, side))  # type: ignore[misc]
    written = [str(file) for file in files]
    out.table(f"{len(x):,} pairs × {x.shape[1]} written to {' and '.join(written)}")
    out.hint(f"gcbs plan {' '.join(written)} -o perm.npy")
    out.result({"rows": len(x), "dim": int(x.shape[1]), "written": written, "model": model})
