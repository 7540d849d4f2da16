"""Projective geometry: report a set of options that is one of few, told by its number.

Options are points of a finite geometry, a report is one of its hyperplanes, which speaks for the
points on it: a share 1 / q of them where the field has q elements, any two as often together as by
chance. A hyperplane through the answer is e^ε times as probable as any other. There are hardly
more symbols than options, so a report is two bytes or three, where a set of them would be
thousands; the tally counts symbols. How that is drawn: `shapes/cyclic.py`. Where the sets come
from: `geometries.py`.

Privacy: a symbol has two probabilities, w / N and w / N + (1 - w) / r, whatever the sets are: only
their size r enters. w is rounded up, and (1 + 2^-100) put in front of the second makes up for
choosing by a die of 128 bits.
Fit: more options than a report can name. With the share of options that a report speaks for near
1 / (e^ε + 1) the variance is next to the least, which subset selection has; of the geometries with
enough points and at most 300,000 symbols that one is taken whose variance is least, summed over
options whose shares are alike:

    (r (N - r) e + (k - 1) (λ e + r - λ) ((r - λ) e + N - 2 r + λ)) / (r - λ)^2      e = e^ε

Up to ε = 4 and 65,536 options it is within 2.3 % of the least.
Local hashing with the linear functions as its family, whose collisions are the same for any two
options, is this; with q = 2 it is Hadamard response.

Source: Feldman, Nelson, Nguyen, Talwar 2022, "Private frequency estimation via projective
geometry", ICML.
"""

from __future__ import annotations

from array import array
from functools import cached_property

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.cyclic import CyclicDesign
from deniable.shared.privacy.geometries import Geometry, difference_set, geometries
from deniable.shared.privacy.thresholds import exp_interval

PRECISION = 192


class ProjectiveGeometry(CyclicDesign):
    name, label, kind = "projective-geometry", "projective geometry", "choice"
    sizes = range(2, 65_537)
    proved_sizes = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096, 8_192, 20_000, 65_536)

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        self.geometry = best_geometry(epsilon, options)
        super().__init__(epsilon, options, self.geometry.sizes)

    @property
    def integers(self) -> tuple[int, ...]:
        return self.geometry.q, self.modulus, self.blind

    @cached_property
    def difference_set(self) -> array[int]:
        return difference_set(self.geometry)


def best_geometry(epsilon: Epsilon, options: int) -> Geometry:
    e = exp_interval(*epsilon.ratio, PRECISION).low
    one = 1 << PRECISION

    def spread(geometry: Geometry) -> int:
        symbols, r, both = geometry.sizes
        apart = r - both
        lies = (both * e + apart * one) * (apart * e + (symbols - r - apart) * one)
        return (r * (symbols - r) * e * one + (options - 1) * lies) // apart**2

    return min(geometries(options), key=spread)
