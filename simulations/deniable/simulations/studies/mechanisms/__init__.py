"""Every mechanism beside the least error that is possible: measured, foretold, and what it costs.

Errors are n times the variance that noise and rounding add: of one option's share where all shares
are alike, or of the mean of numbers that all stand at the worst place, with the range as [-1, 1].
So they do not depend on the people. The least that is known to be possible is that of
`deniable plan`.

The JSON form: `options` and `rows` (`mechanism`, `kind`, `epsilon`, `size`: options, or steps of a
number's grid, `predicted_n_variance`, `measured_n_variance`, `measurement_error`, `limit`: null
where none is known closely, `payload_bytes`, `client_ns` and `tally_ns`: for one report).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deniable.server.planning.least_variance import least_n_variance
from deniable.shared.privacy.mechanisms import mechanisms, sizes
from deniable.simulations.engine import option
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.studies.mechanisms.measuring import made_of, measured
from deniable.simulations.studies.mechanisms.report import report

OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.Option(
        "options",
        "4,16,128,1024,8192,65536",
        option.several(option.whole(2, 65_536)),
        "how many options",
    ),
    option.repetitions(200, 100),
)


def cells(options: Options) -> Sequence[Cell]:
    """Numbers are on the grid where each mechanism errs least."""
    asked = [("bit", name, 2) for name in mechanisms("bit")]
    asked += [("number", name, 0) for name in mechanisms("number")]
    asked += [
        ("choice", name, k)
        for k in options["options"]
        for name in mechanisms("choice")
        if k <= sizes("choice", name)[1]
    ]
    times = options["repetitions"]
    return [
        {"kind": kind, "mechanism": name, "size": size, "epsilon": epsilon, "repetitions": times}
        for kind, name, size in asked
        for epsilon in options["epsilon"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    made, times = made_of(cell), int(cell["repetitions"])
    squares = measured(made, times, generator)
    return [
        {
            "mechanism": made.name,
            "kind": made.kind,
            "epsilon": str(made.epsilon),
            "size": made.size,
            "predicted_n_variance": made.n_variance(),
            "measured_n_variance": float(squares.mean()),
            "measurement_error": float(squares.std(ddof=1) / math.sqrt(len(squares))),
            "limit": least_n_variance(made),
            "payload_bytes": made.payload_size,
        }
    ]


STUDY = Study(
    name="mechanisms",
    question="How near does each way of randomizing come to the least error there can be?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(("what is compared", 'n · "variance" / "least"'),),
)
