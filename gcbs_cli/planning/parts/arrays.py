"""A plan in parts of rows that are in memory already, for the Python API."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data import EmbeddingSource
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.engines.named import EngineChoice
from gcbs_cli.planning.parts.build import plan_in_parts
from gcbs_cli.planning.parts.record import partitions_record
from gcbs_cli.planning.parts.scattering import beside_no_output
from gcbs_cli.planning.plan import PlanResult
from gcbs_cli.settings.parts import parse_partitions
from gcbs_cli.settings.plan import PlanSettings


def plan_arrays_in_parts(
    sources: tuple[EmbeddingSource, EmbeddingSource],
    settings: PlanSettings,
    partitions: int | str,
    engine: EngineChoice,
    *,
    normalize: bool,
    groups: NDArray[np.int64] | None,
    inputs: Mapping[str, Any],
) -> PlanResult:
    """The plan, with what its parts were as `partitions`; the arguments are those of `gcbs_cli.plan`."""
    stream = PairStream(*sources, normalize=normalize)
    settings.check_rows(stream.rows)
    plan = plan_in_parts(
        stream,
        settings,
        parse_partitions(str(partitions)),
        beside_no_output(),
        groups=groups,
        method_inputs=inputs,
        engine=engine.on(settings.work.device),
    )
    return replace(plan.as_result(), partitions=partitions_record(plan, engine.name, groups=groups is not None))
