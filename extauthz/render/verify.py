"""The filter that has the API server say who a client is, before the gate is asked (``--anonymous verify``).

Envoy sends the client's ``authorization`` header along with a read of its own. An API server answers 401 to a bearer
token that it does not take, whatever is read (https://kubernetes.io/docs/reference/access-authn-authz/authentication/),
and takes who shows none for anonymous (``k8s.io/apiserver/pkg/authentication/request/bearertoken``). Without an answer
the gate is asked, as without this filter.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua

from . import clusters
from .options import VERIFY_TIMEOUT_S

NAME: Final = "envoy.filters.http.lua"

READ: Final = "/version"
"""What everybody may read whom an API server knows (ClusterRole ``system:public-info-viewer``), at next to no cost."""

_SOURCE: Final = """\
-- Over HTTP/1.1: on HTTP/2 an API server leaves the whole connection when it does not know somebody.
function envoy_on_request(handle)
  local given = handle:headers():get("authorization") or ""
  local word = given:match("^%%s*(%%S+) [^ ]")
  if word == nil or word:lower() ~= "bearer" then
    handle:respond({[":status"] = "401"}, "")
    return
  end
  local answer = handle:httpCall("%(cluster)s", {
    [":method"] = "GET",
    [":path"] = "%(read)s",
    [":authority"] = "%(authority)s",
    ["authorization"] = given,
  }, nil, %(timeout_ms)d)
  if answer[":status"] == "401" then
    handle:respond({[":status"] = "401"}, "")
  end
end
"""


def verify_filter(apiserver_name: str) -> lua.Lua:
    """Answers 401 to whom the API server does not know."""
    source = _SOURCE % {
        "cluster": clusters.APISERVER_UPGRADE,
        "read": READ,
        "authority": apiserver_name,
        "timeout_ms": timedelta(seconds=VERIFY_TIMEOUT_S) // timedelta(milliseconds=1),
    }
    return lua.Lua(default_source_code=core.DataSource(inline_string=source))
