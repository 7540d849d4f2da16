"""Counterpart of `peers.py`: it runs in the environment of those libraries, without deniable.

Reads {"epsilon", "held", "trials"} and prints {name: {"unbiased": [...], "as shown": [...]}}: mean
squared errors, one per trial. If a library has no unbiased estimates, they are computed from its
reports with its own p and q.
"""

# mypy: ignore-errors
import json
import math
import sys

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer


def subsets(answers, k, epsilon):
    reports = [SS_Client(answer, k, epsilon) for answer in answers]
    e, d = math.exp(epsilon), len(reports[0])
    p = d * e / (d * e + k - d)
    q = (p * (d - 1) + (1 - p) * d) / (k - 1)
    counts = np.bincount(np.concatenate(reports), minlength=k)
    return line(counts, len(answers), p, q), SS_Aggregator_MI(reports, k, epsilon)


def unary(answers, k, epsilon):
    reports = [UE_Client(answer, k, epsilon, True) for answer in answers]
    counts = np.sum(reports, axis=0)
    raw = line(counts, len(answers), 1 / 2, 1 / (math.exp(epsilon) + 1))
    return raw, UE_Aggregator_MI(reports, epsilon, True)


def k_ary(answers, k, epsilon):
    reports = [GRR_Client(answer, k, epsilon) for answer in answers]
    e = math.exp(epsilon)
    raw = line(np.bincount(reports, minlength=k), len(answers), e / (e + k - 1), 1 / (e + k - 1))
    return raw, GRR_Aggregator_MI(reports, k, epsilon)


def pure_unary(answers, k, epsilon):
    """Return the errors of pure-ldp, whose results are counts and are unbiased by default."""

    def itself(option):
        return option

    client = UEClient(epsilon, k, use_oue=True, index_mapper=itself)
    server = UEServer(epsilon, k, use_oue=True, index_mapper=itself)
    for answer in answers:
        server.aggregate(client.privatise(answer))
    raw = np.array([server.estimate(option, suppress_warnings=True) for option in range(k)])
    return raw / len(answers), raw / len(answers)


def line(counts, people, p, q):
    return (counts / people - q) / (p - q)


PEERS = {
    "multi-freq-ldpy, subset selection": subsets,
    "multi-freq-ldpy, unary": unary,
    "multi-freq-ldpy, k-ary": k_ary,
    "pure-ldp, unary": pure_unary,
}


def main():
    asked = json.load(sys.stdin)
    held, k = np.array(asked["held"]), len(asked["held"])
    truth, answers = held / held.sum(), np.repeat(np.arange(k), held).tolist()
    errors = {}
    for name, run in PEERS.items():
        trials = [run(answers, k, asked["epsilon"]) for _ in range(asked["trials"])]
        kinds = zip(("unbiased", "as shown"), zip(*trials, strict=True), strict=True)
        errors[name] = {
            kind: [float(np.mean((estimate - truth) ** 2)) for estimate in estimates]
            for kind, estimates in kinds
        }
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
