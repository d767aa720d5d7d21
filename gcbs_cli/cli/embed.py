"""`gcbs embed`: texts in, embeddings out."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gcbs_cli.cli.inputs import files_read
from gcbs_cli.cli.output import Output
from gcbs_cli.data.files import one_line, shown
from gcbs_cli.data.row_values import read_row_values, read_texts, text_of
from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.writing import check_outputs
from gcbs_cli.settings.others import Embed
from gcbs_cli.system.errors import BadInput


def embed(settings: Embed) -> None:
    """Embed both sides, and write them."""
    out = Output(settings, settings.output)
    if Path(settings.output).suffix.lower() != ".parquet":
        raise BadInput(f"--output {shown(settings.output)}: expected a .parquet file")
    check_outputs([settings.output], files_read(settings), force=settings.force)
    texts = {
        "x": read_texts(settings.texts, settings.x_text, "--x-text"),
        "y": read_texts(settings.texts, settings.y_text, "--y-text"),
    }
    encoder = load_model(settings.model, settings.device)
    out.note(f"embedding {len(texts['x']):,} texts of {settings.x_text}, then those of {settings.y_text}")
    columns = read_ids(settings.texts)
    for side, prompt in (("x", settings.x_prompt), ("y", settings.y_prompt)):
        rows = encoder.encode(
            [prompt + text for text in texts[side]],
            batch_size=settings.encode_batch,
            normalize_embeddings=True,
            show_progress_bar=out.on_terminal,
        )
        columns[f"{side}_text"] = texts[side]
        columns[side] = pa.FixedSizeListArray.from_arrays(np.asarray(rows, np.float32).reshape(-1), rows.shape[1])
    with writing.file(Path(settings.output), force=settings.force) as file:
        pq.write_table(pa.table(columns), file)
    out.table(f"{len(rows):,} pairs × {rows.shape[1]} written to {settings.output}")
    out.note(f"hint: gcbs plan {settings.output} -o perm.npy")
    out.result({"rows": len(rows), "dim": int(rows.shape[1]), "written": settings.output, "model": settings.model})


def read_ids(path: str) -> dict[str, Any]:
    """The column `id` as texts; nothing where the file has none."""
    try:
        return {"id": [text_of(value) for value in read_row_values(path, "", "id")]}
    except BadInput:
        return {}


HUB_SECONDS = 10.0


def load_model(name: str, device: str) -> Any:
    """Load a SentenceTransformer from a folder, or from the hub by its name. Raises BadInput."""
    is_folder = os.path.isdir(name)
    if not is_folder and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        raise BadInput(f"--model {shown(name)}: found no such folder; on the hub a name is OWNER/MODEL")
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as library_messages
    except ImportError:
        raise BadInput("gcbs embed needs sentence-transformers; pip install 'gcbs[st]'") from None
    disable_progress_bar: Any = library_messages.disable_progress_bar  # loading takes a second
    disable_progress_bar()
    options: Any = {} if device == "auto" else {"device": device}
    try:
        return SentenceTransformer(name, local_files_only=True, **options)
    except Exception as error:  # its parts raise errors of many kinds
        if is_folder:
            raise BadInput(f"--model {shown(name)}: cannot be loaded ({one_line(error)})") from None
    try:
        import huggingface_hub

        huggingface_hub.model_info(name, timeout=HUB_SECONDS)  # asks once, where loading would try for minutes
        return SentenceTransformer(name, **options)
    except Exception as error:
        raise BadInput(f"--model {shown(name)}: not in the cache, nor on the hub ({one_line(error)})") from None
