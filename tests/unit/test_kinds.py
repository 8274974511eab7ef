"""One table of kinds: whatever names kinds elsewhere names the same ones."""

import pytest

from extauthz.cluster import object_readers
from extauthz.cluster.live import PHASES
from extauthz.core import kinds
from extauthz.core.intake import routes
from extauthz.core.kinds import BY_KEY, GATED, KINDS, WorkloadKind
from extauthz.core.model import Unreadable
from extauthz.core.resources import Treatment, treatment
from extauthz.doctor.cluster import RIGHTS

IDS = [kind.name for kind in KINDS]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=IDS)


@every_kind
def test_it_is_watched_as_the_table_has_it(kind: WorkloadKind):
    watched = {(one.group, one.plural): one for phase in PHASES for one in phase}

    assert (watched[kind.key].kind, watched[kind.key].version) == (kind.name, kind.version)


@every_kind
def test_the_doctor_asks_for_the_right_to_watch_it(kind: WorkloadKind):
    assert {right.verb for right in RIGHTS if (right.group, right.resource) == kind.key} == {"list", "watch"}


@every_kind
def test_whoever_creates_it_is_listed_before(kind: WorkloadKind):
    phase_of = {(one.group, one.plural): number for number, phase in enumerate(PHASES) for one in phase}

    creators = [] if kind.key == kinds.REVISIONS else kind.created_by  # these count only once a StatefulSet runs them
    assert all(phase_of[creator] < phase_of[kind.key] for creator in creators)


def test_each_is_read_but_revisions_which_count_only_where_a_stateful_set_runs_them():
    read = {kinds.BY_NAME[name].key for name in object_readers.COUNTED}

    assert read == BY_KEY.keys() - {kinds.REVISIONS}


@pytest.mark.parametrize("kind", GATED, ids=[kind.name for kind in GATED])
def test_an_odd_path_that_may_name_a_gated_kind_is_not_let_through(kind: WorkloadKind):
    assert isinstance(routes.read("PATCH", f"/apis/apps/v1//namespaces/a/{kind.key[1]}/web"), Unreadable)


@pytest.mark.parametrize("kind", GATED, ids=[kind.name for kind in GATED])
def test_a_quota_may_count_its_objects(kind: WorkloadKind):
    group, plural = kind.key

    assert treatment(f"count/{plural}.{group}" if group else f"count/{plural}") is not Treatment.NOT_COUNTED
