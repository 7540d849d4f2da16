"""Lower bounds: what no estimator at all can beat on P_k, in explicit numbers.

Without privacy   (1)  1 / (1 + √n)^2, the minimax risk of the mean of n answers of +1 or -1 [1].
Locally, for every ε, also when later people may be asked in the light of earlier reports:
   (2)  two points: X = 0, or X = u^(-1/k) with probability u. A report tells them apart by at most
        chi^2 = u^2 / V, V = e^ε / (e^ε - 1)^2, hence, with r = 2 (k - 1) / k and for any u,
            risk >= u^r (1 - √(n / 2 · ln(1 + u^2 / V))) / 8
   (3)  van Trees' inequality on +1 and -1 with means within h of 0 and a cosine prior:
            risk >= 1 / (n t^2 / (1 - h t) + π^2 / h^2),    t = tanh(ε / 2), for any h
Centrally
   (4)  the same two points, coupled: they differ in each person with probability u, so that
            risk >= u^r (1 - u (1 - e^-ε))^n / 8 for any u; best at u = r / ((r + n)(1 - e^-ε))
and (1) holds everywhere. The largest is taken.

[1] Hodges, Lehmann 1950, "Some problems in minimax point estimation", Annals of Mathematical
    Statistics 21(2): the constant-risk estimate of a binomial probability.
(2) and (3) follow Duchi, Jordan, Wainwright 2018, (4) Barber, Duchi 2014, with constants kept.
"""

from __future__ import annotations

import math

import numpy as np

FINENESS = 20_001  # of the search over u or h: any value gives a valid bound


def lower_bound(model: str, moments: float, epsilon: float, users: int) -> float:
    bounds = [1 / (1 + math.sqrt(users)) ** 2]
    if model == "local":
        bounds += [two_points_locally(moments, epsilon, users), signs_locally(epsilon, users)]
    elif model == "central":
        bounds.append(two_points_centrally(moments, epsilon, users))
    return max(bounds)


def two_points_locally(moments: float, epsilon: float, users: int) -> float:
    inverse_v = (2 * math.sinh(epsilon / 2)) ** 2
    u = np.geomspace(1e-9, 1, FINENESS)
    apart = 1 - np.sqrt(users / 2 * np.log1p(u**2 * inverse_v))
    return float(np.max(u ** _exponent(moments) * apart / 8))


def signs_locally(epsilon: float, users: int) -> float:
    t = math.tanh(epsilon / 2)
    h = np.geomspace(1e-6, 1, FINENESS)
    return float(np.max(1 / (users * t**2 / (1 - h * t) + (np.pi / h) ** 2)))


def two_points_centrally(moments: float, epsilon: float, users: int) -> float:
    r, differ = _exponent(moments), -math.expm1(-epsilon)
    u = min(1.0, r / ((r + users) * differ))
    if u * differ >= 1:
        return 0.0
    return math.exp(r * math.log(u) + users * math.log1p(-u * differ)) / 8


def _exponent(moments: float) -> float:
    return 2 - 2 / moments
