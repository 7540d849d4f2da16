"""Options that let each study finish in about a second and still include extreme ε and sizes."""

from pathlib import Path
from typing import Any

SURVEY = Path(__file__).parents[2] / "simulations/deniable/simulations/demo/surveys/app-health.toml"
SMALL: dict[str, dict[str, Any]] = {
    "minimax": {"epsilon": [4, 20], "people": [100, 1e6], "moments": [3, "inf"],
                "repetitions": 400},
    "bit": {"epsilon": [0.1, 1, 20], "people": [2, 1e4], "repetitions": 200},
    "test": {"epsilon": [0.5, 4], "people": [100, 5000], "repetitions": 200},
    "mean": {"epsilon": [0.5, 4, 20], "people": [100, 1e6], "repetitions": 50},
    "histogram": {"epsilon": [0.5, 4, 20], "people": [2, 1e5], "options": [2, 5, 64],
                  "repetitions": 20},
    "select": {"epsilon": [0.5, 4], "options": [2, 16], "people": 2000, "repetitions": 200},
    "texts": {"epsilon": [1, 8], "people": [100, 1e5], "repetitions": 1},
    "median": {"epsilon": [1, 20], "people": [1e3, 1e5], "repetitions": 100, "quantile": 0.3},
    "vector": {"epsilon": [0.5, 20], "people": [2, 1e5], "dimension": [2, 64],
               "repetitions": 20},
    "counts": {"epsilon": [0.5, 20], "people": [64, 1e5], "counts": [1, 7, 64],
               "repetitions": 20},
    "regression": {"epsilon": [0.5, 20], "people": [1e3, 1e6], "repetitions": 9,
                   "attributes": [2, 16]},
    "synthetic": {"epsilon": [0.5, 20], "people": [100, 1e5], "attributes": [2, 5],
                  "repetitions": 9},
    "attack": {"epsilon": 1, "people": 10, "repetitions": 2},
    "privacy": {"epsilon": [0.5, 20], "rounds": 4, "mechanisms": "unary"},
    "compose": {"epsilon": [0.1], "rounds": [1, 10]},
    "repeat": {"epsilon": [1, 20], "rounds": [1, 4]},
    "year": {"people": 1000},
    "survey": {"file": SURVEY, "share": ["crashed=0.03"], "people": [2000], "repetitions": 5},
}  # fmt: skip
