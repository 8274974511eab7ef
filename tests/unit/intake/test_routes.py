"""Which request lines can grow a workload, spelled in all the ways that the API server reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.intake import counts
from extauthz.core.intake.counts import PercentError, Route, unquote
from extauthz.core.model import NotAWrite, Operation, Unreadable, WorkloadRef

WEB = WorkloadRef("apps", "deployments", "ns", "web")
OBJECT = "/apis/apps/v1/namespaces/ns/deployments/web"


def route(method: str, target: str) -> Route:
    found = counts.routed(method, target)
    assert isinstance(found, Route), found
    return found


@pytest.mark.parametrize(
    ("target", "ref", "scale"),
    [
        ("/apis/apps/v1/namespaces/ns/deployments/web", WEB, False),
        ("/apis/apps/v1/namespaces/ns/deployments/web/scale", WEB, True),
        ("/apis/apps/v1beta2/namespaces/ns/statefulsets/db", WorkloadRef("apps", "statefulsets", "ns", "db"), False),
        ("/apis/apps/v1/namespaces/ns/replicasets/r/scale", WorkloadRef("apps", "replicasets", "ns", "r"), True),
        (
            "/api/v1/namespaces/ns/replicationcontrollers/rc",
            WorkloadRef("", "replicationcontrollers", "ns", "rc"),
            False,
        ),
        (
            "/api/v1/namespaces/ns/replicationcontrollers/rc/scale",
            WorkloadRef("", "replicationcontrollers", "ns", "rc"),
            True,
        ),
        ("/apis/extensions/v1beta1/namespaces/ns/deployments/web", WEB, False),
        (
            "/apis/argoproj.io/v1/namespaces/ns/rollouts/r/scale",
            WorkloadRef("argoproj.io", "rollouts", "ns", "r"),
            True,
        ),
        ("/apis/example.dev/v1/fleets/all/scale", WorkloadRef("example.dev", "fleets", "", "all"), True),
        ("/apis/apps/v1/namespaces/status/deployments/web", WorkloadRef("apps", "deployments", "status", "web"), False),
        ("/apis/apps/v1/namespaces/ns/deployments/scale", WorkloadRef("apps", "deployments", "ns", "scale"), False),
        (
            "/apis/apps/v1/namespaces/ns/deployments/scale/scale",
            WorkloadRef("apps", "deployments", "ns", "scale"),
            True,
        ),
    ],
)
def test_a_path_names_its_workload(target, ref, scale):
    assert route("PATCH", target) == Route(ref, Operation.PATCH, scale, dry_run=False)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/%77%65b/scale", id="escaped-letters"),
        pytest.param("/%61pis%2Fapps%2fv1/namespaces/ns/deployments/web/scale", id="escaped-slashes"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web/scale/", id="trailing-slash"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web/scale///", id="trailing-slashes"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web/scale%2F", id="escaped-trailing-slash"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web/scale?a=/b?c#d", id="query-noise"),
        pytest.param("https://any.host:6443/apis/apps/v1/namespaces/ns/deployments/web/scale", id="absolute-form"),
        pytest.param("HtTp://u:p@h/apis/apps/v1/namespaces/ns/deployments/web/scale", id="absolute-form-capitals"),
        pytest.param("x:/apis/apps/v1/namespaces/ns/deployments/web/scale", id="scheme-only"),
    ],
)
def test_every_spelling_that_the_server_accepts_is_the_same_route(target):
    assert route("PUT", target) == Route(WEB, Operation.UPDATE, scale=True, dry_run=False)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("//apis/apps/v1/namespaces/ns/deployments/web", id="leading-double-slash"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments//web", id="empty-segment"),
        pytest.param("/apis/apps/v1/namespaces//deployments/web", id="empty-namespace"),
        pytest.param("/apis/apps/v1/namespaces/ns/x/../deployments/web", id="dot-dot"),
        pytest.param("/apis/apps/v1/./namespaces/ns/deployments/web", id="dot"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web/..", id="dot-dot-at-the-end"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web%2f%2e%2e", id="escaped-dots"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web%252Fscale", id="escaped-twice"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web%zz", id="no-escape"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web%", id="half-an-escape"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web%00", id="nul"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web%ff", id="not-utf8"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web#x", id="fragment"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/web/scale;x", id="semicolon"),
        pytest.param("/apis/apps/v1/namespaces/ns\\deployments\\web", id="backslashes"),
        pytest.param("/k8s/clusters/c-1/apis/apps/v1/namespaces/ns/deployments/web", id="prefix"),
        pytest.param("apis/apps/v1/namespaces/ns/deployments/web", id="no-leading-slash"),
        pytest.param("/apis/x.dev/v1/namespaces/ns/foos//a/scale", id="custom-scale"),
        pytest.param("/APIS/apps/v1/namespaces/ns/DEPLOYMENTS/web", id="capitals-before-the-prefix"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/w\ud800b", id="lone-surrogate"),
        pytest.param("/apis/apps/v1/namespaces/ns/deployments/w\ud800%41", id="lone-surrogate-and-escape"),
    ],
)
def test_an_odd_path_that_may_name_a_workload_is_unreadable(target):
    found = counts.routed("PATCH", target)
    assert isinstance(found, Unreadable)
    assert found.code == "odd-path"


@pytest.mark.parametrize(
    "target",
    [
        "/apis//coordination.k8s.io/v1/namespaces/ns/leases/l",
        "/healthz/../livez",
        "/",
        "",
        "*",
        "/api",
        "/apis/",
        "/apis/apps",
        "/apis/apps/v1/",
        "/api/v1",
        "/%zz",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
        "/api/v1/namespaces/ns/pods/deployments",
        "/api/v1/namespaces/ns/pods/web-0/resize",
        "/api/v1/namespaces/deployments/configmaps/scale",
        "/api/v1/namespaces/ns",
        "/api/v1/namespaces/ns/finalize",
        "/apis/Apps/v1/namespaces/ns/deployments/web",
        "/apis/argoproj.io/v1/namespaces/ns/rollouts/r",
        "/api/v1/namespaces/ns/deployments/web",
    ],
)
def test_what_names_no_workload_passes(target):
    assert counts.routed("PATCH", target) == NotAWrite("other-resource", counts._OTHER.why)


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("GET", OBJECT, "read"),
        ("HEAD", OBJECT, "read"),
        ("OPTIONS", "*", "read"),
        ("DELETE", OBJECT, "delete"),
        ("PUT", f"{OBJECT}/status", "status"),
        ("PUT", f"{OBJECT}/rollback", "other-subresource"),
        ("PUT", f"{OBJECT}/Scale", "other-subresource"),
        ("PUT", "/apis/apps/v1/watch/namespaces/ns/deployments/web", "watch"),
        ("PUT", "/api/v1/proxy/namespaces/ns/services/x/scale", "watch"),
    ],
)
def test_what_cannot_grow_a_workload_passes_with_its_reason(method, target, code):
    found = counts.routed(method, target)
    assert isinstance(found, NotAWrite)
    assert found.code == code


@pytest.mark.parametrize(
    ("method", "target"),
    [
        pytest.param("POST", OBJECT, id="create-on-a-name"),
        pytest.param("POST", f"{OBJECT}/scale", id="create-a-scale"),
        pytest.param("PUT", "/apis/apps/v1/namespaces/ns/deployments", id="update-of-a-collection"),
        pytest.param("patch", OBJECT, id="lower-case"),
        pytest.param("A-VERY-LONG-METHOD", OBJECT, id="unknown"),
    ],
)
def test_a_method_that_no_server_serves_there_is_unreadable(method, target):
    found = counts.routed(method, target)
    assert isinstance(found, Unreadable)
    assert (found.code, found.ref is not None) == ("method-not-served", True)


def test_a_create_is_posted_to_the_collection():
    found = route("POST", "/apis/apps/v1/namespaces/ns/statefulsets")
    assert found == Route(WorkloadRef("apps", "statefulsets", "ns", ""), Operation.CREATE, scale=False, dry_run=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dryRun=All", True),
        ("dryRun=All&dryRun=All", True),
        ("d%72yRun=%41ll", True),
        ("&&dryRun=All&", True),
        ("pretty=true;x=1&dryRun=All", True),
        ("bad=%zz&dryRun=All", True),
        ("dryRun=All&dryRun=None;", True),
        ("dryRun=All&dryRun=%zz", True),
        ("", False),
        ("pretty=true", False),
        ("a=%41", False),
        ("dryrun=All", False),
        ("dryRun=all", False),
        ("dryRun", False),
        ("dryRun=", False),
        ("dryRun=true", False),
        ("dryRun=All&dryRun=", False),
        ("dryRun=All&dryRun=None", False),
        ("dryRun=All;x=1", False),
        ("dryRun=All%", False),
        ("dryRun=All%20", False),
        ("dryRun=+All", False),
        ("dryRun[]=All", False),
        ("dryRun=All#x", False),
        ("dryRun=All" + "&" * 10_000, False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_dry_run_is_what_the_server_takes_for_one(text, expected):
    assert counts.dry_run(text) is expected
    assert route("PUT", f"{OBJECT}?{text}").dry_run is expected


@pytest.mark.parametrize(("text", "expected"), [("a%2Fb", "a/b"), ("a+b", "a+b"), ("%C3%A9", "é"), ("%ff", "\udcff")])
def test_escapes_are_decoded_once_and_strictly(text, expected):
    assert unquote(text) == expected


@pytest.mark.parametrize("text", ["%", "%4", "a%4g", "%%41"])
def test_a_percent_sign_without_two_digits_is_refused(text):
    with pytest.raises(PercentError):
        unquote(text)


TARGETS = st.lists(
    st.sampled_from(
        ["/", "apis", "api", "apps", "v1", "namespaces", "deployments", "scale", "web", "%2f", "%", "..", "?", "#", ";"]
    )
    | st.text(max_size=3),
    max_size=14,
).map("".join)


@settings(deadline=None)
@given(st.sampled_from(["PUT", "PATCH", "POST", "GET", "DELETE", "put", ""]) | st.text(max_size=8), TARGETS)
def test_no_request_line_raises(method, target):
    assert isinstance(counts.routed(method, target), Route | NotAWrite | Unreadable)


@settings(deadline=None)
@given(
    st.sampled_from(
        ["/apis/apps/v1/namespaces/ns/deployments/web/scale", "/apis/x.dev/v1/namespaces/ns/foos/a/scale", OBJECT]
    ),
    st.integers(0, 60),
    st.sampled_from(["/", "//", "/./", "/x/../", "%2F", "%2E%2E/", "%5C", ";", "#", "%23", "%00", "\\", "%25"]),
)
def test_a_disturbed_path_of_a_workload_never_passes_unread_for_its_oddity(target, at, noise):
    disturbed = target[:at] + noise + target[at:]
    found = counts.routed("PATCH", disturbed)
    if isinstance(found, NotAWrite):  # then the noise made other words of it, or other segments
        kept = [part for part in unquote(disturbed).split("/") if part not in ("", ".", "..", "x")]
        assert kept != [part for part in target.split("/") if part]


@given(st.from_regex(counts._PLAIN, fullmatch=True))
def test_a_plain_target_is_read_as_if_it_were_spelled_oddly(target: str) -> None:
    plain = counts._PLAIN.fullmatch(target)
    assert counts.workload(*plain.groups("")) == counts._spelled(target)
