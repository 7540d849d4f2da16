"""The simulator: what privacy costs, before you ask anyone.

    from deniable.simulations import simulate

    result = simulate("mean", epsilon=["0.5", 1], people=[1e4, 1e6], seed=1)
    result.findings, result.rows, result.frame(), result.figure("error"), result.write("out")

Your own study is a `Study`. Run it with `simulate(STUDY)`, or by its name if your package declares
an entry point for it in the group `deniable.studies`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.simulations.engine.option import Option
    from deniable.simulations.engine.study import Figure, Report, Study, Table
    from deniable.simulations.engine.study_result import StudyResult, simulate

__all__ = ["Figure", "Option", "Report", "Study", "StudyResult", "Table", "simulate"]

if not TYPE_CHECKING:  # names are imported on first use: `--help` must not wait for numpy
    MODULES = {"Option": "option", "StudyResult": "study_result", "simulate": "study_result"}

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.engine.{MODULES.get(name, 'study')}"), name)
