"""Minimax: what privacy costs at best for a mean, locally and centrally, against the limit.

The study of section 4.2.2 of the notes on two models of privacy, with the constants: for the
families P_k = {E|X|^k <= 1}, the risk of stated estimators as a formula (`estimators.py`), on the
hardest distribution (`distributions.py`) exactly and measured (`measure.py`), the limit
(`limits.py`), and how fast each falls with the people (`slopes.py`).
"""

from deniable.simulations.engine.study import Study
from deniable.simulations.studies.minimax.cell import run_cell
from deniable.simulations.studies.minimax.options import OPTIONS, make_cells
from deniable.simulations.studies.minimax.report import make_report

__all__ = ["STUDY"]

STUDY = Study(
    name="minimax",
    question="What does a mean cost when some numbers may be huge?",
    options=OPTIONS,
    cells=make_cells,
    run=run_cell,
    report=make_report,
    where="pool",
    formulas=(
        ("what is known of the numbers", r"\mathrm{E}\,|X|^k \leq 1"),
        (
            "devices: cut at τ, one bit with C = 1 / tanh(ε / 2)",
            r"\mathrm{risk} \leq b_k^2\, τ^{2 - 2k} + \dfrac{C^2 τ^2}{n}",
        ),
        ("how fast errors fall on devices", r"\mathrm{risk} \sim (n ε^2)^{-(k - 1) / k}"),
        ("no protocol at all is below", r"\mathrm{risk} \geq \dfrac{1}{(1 + \sqrt{n})^2}"),
    ),
)
