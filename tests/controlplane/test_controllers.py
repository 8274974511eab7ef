"""The simulated controllers are true: what they leave behind is what the real ones leave behind, in drawn scripts.

``EXTAUTHZ_SEED`` draws the scripts of an earlier run again, ``EXTAUTHZ_SCRIPTS`` sets how many there are.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import Plane, running_plane
from tests.controlplane.scripts import STUCK, drawn, played, simulated
from tests.support.kubelet import Kubelet
from tests.worlds.pods.objects import word_of

pytestmark = pytest.mark.controlplane("kube-controller-manager")

# Taken out of the environment: a gate refuses settings that it does not know.
SEED = int(os.environ.pop("EXTAUTHZ_SEED", "") or random.SystemRandom().randrange(1 << 32))
SCRIPTS = int(os.environ.pop("EXTAUTHZ_SCRIPTS", "") or 100)
AT_ONCE = 24
WAYS = 2
"""So often is each script simulated, with other delays: where they matter, there is more than one end."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """An API server of its own, with the real controllers and pods that run at once."""
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        ControllerManager(plane, plane.url, tmp_path_factory.mktemp("manager")),
        Kubelet(plane.url, plane.tls) as kubelet,
    ):
        kubelet.broken_images.add(STUCK)
        yield plane


def test_controllers_leave_behind_what_the_real_ones_leave_behind(cluster: Plane, tell):
    tell(f"{SCRIPTS} scripts by EXTAUTHZ_SEED={SEED}")
    scripts = [drawn(random.Random(f"{SEED} {number}")) for number in range(SCRIPTS)]
    ways = [[simulated(script, seed) for seed in range(WAYS)] for script in scripts]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [
            pool.submit(played, cluster, f"script-{number}", script, ways[number])
            for number, script in enumerate(scripts)
        ]
    off = [str(error) or repr(error) for job in jobs if (error := job.exception()) is not None]
    assert not off, f"EXTAUTHZ_SEED={SEED}: {len(off)} end otherwise:\n" + "\n\n".join(off[:10])
    words = Counter(word_of(script.name) for script in scripts)
    rests = sum(len(one[0]) for one in ways)
    tell(f"the same at {rests} rests: {', '.join(f'{word}: {count}' for word, count in sorted(words.items()))}")
