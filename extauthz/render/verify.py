"""The filter that has the API server say who a client is and what it may write, before the gate is asked
(``--anonymous verify``).

Envoy sends the client's ``authorization`` header, and whom it impersonates, along with a question of its own: a
SelfSubjectAccessReview of the very write (https://kubernetes.io/docs/reference/access-authn-authz/authorization/). The
API server answers 401 to a token that it does not take, and else whether that person may write this. It reads the path
as the API server does (``k8s.io/apiserver/pkg/endpoints/request/requestinfo.go``), so it asks what the API server will
ask itself. Without an answer nobody is asked.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua

from . import clusters
from .options import VERIFY_TIMEOUT_S

NAME: Final = "envoy.filters.http.lua"

REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""What everybody may ask whom an API server knows (ClusterRole ``system:basic-user``)."""

_SOURCE: Final = """\
local VERBS = {POST = "create", PUT = "update", PATCH = "patch"}

local function text(value)
  return '"' .. (value or ""):gsub('[%%c"\\\\]', function(c) return ("\\\\u%%04x"):format(c:byte()) end) .. '"'
end

-- What a SelfSubjectAccessReview asks about a request.
local function question(method, target)
  local path = target:match("^[^?]*"):gsub("%%%%(%%x%%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  local verb = VERBS[method] or method:lower()
  local parts = {}
  for part in (path:gsub("^/+", "") .. "/"):gmatch("([^/]*)/") do parts[#parts + 1] = part end
  while parts[#parts] == "" do parts[#parts] = nil end  -- a pattern for this would try each of many slashes
  if #parts < 3 or (parts[1] ~= "api" and parts[1] ~= "apis") then
    return '"nonResourceAttributes":{"path":' .. text(path) .. ',"verb":' .. text(method:lower()) .. "}"
  end
  local at, group, namespace = 2, "", ""
  if parts[1] == "apis" then
    at, group = 3, parts[2]
  end
  if parts[at + 1] == "namespaces" then
    namespace = parts[at + 2]
    if parts[at + 3] and parts[at + 3] ~= "status" and parts[at + 3] ~= "finalize" then at = at + 2 end
  end
  return '"resourceAttributes":{"verb":' .. text(verb) .. ',"group":' .. text(group) .. ',"version":' .. text(parts[at])
    .. ',"namespace":' .. text(namespace) .. ',"resource":' .. text(parts[at + 1]) .. ',"name":' .. text(parts[at + 2])
    .. ',"subresource":' .. text(parts[at + 3]) .. "}"
end

-- Over HTTP/1.1: on HTTP/2 an API server leaves the whole connection when it does not know somebody.
function envoy_on_request(handle)
  local given = handle:headers():get("authorization") or ""
  local word = given:match("^%%s*(%%S+) [^ ]")
  if word == nil or word:lower() ~= "bearer" then
    handle:respond({[":status"] = "401"}, "")
    return
  end
  local asked = {
    [":method"] = "POST",
    [":path"] = "%(review)s",
    [":authority"] = "%(authority)s",
    ["authorization"] = given,
    ["content-type"] = "application/json",
    ["accept"] = "application/json",
  }
  for name, value in pairs(handle:headers()) do
    if name:sub(1, 12) == "impersonate-" then
      asked[name] = asked[name] or {}
      table.insert(asked[name], value)
    end
  end
  local about = question(handle:headers():get(":method"), handle:headers():get(":path"))
  local body = '{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{' .. about .. "}}"
  local answer, review = handle:httpCall("%(cluster)s", asked, body, %(timeout_ms)d)
  local status = answer[":status"]
  if status == "201" and review and review:find('"allowed":%%s*true') then return end
  if status == "201" then
    handle:respond({[":status"] = "403"}, "the API server does not let you write this")
  else
    handle:respond({[":status"] = status:sub(1, 1) == "4" and status or "503"}, "")
  end
end
"""


def verify_filter(apiserver_name: str) -> lua.Lua:
    """Answers 401 to whom the API server does not know, and 403 to whom it does not let write."""
    source = _SOURCE % {
        "cluster": clusters.APISERVER_UPGRADE,
        "review": REVIEW,
        "authority": apiserver_name,
        "timeout_ms": timedelta(seconds=VERIFY_TIMEOUT_S) // timedelta(milliseconds=1),
    }
    return lua.Lua(default_source_code=core.DataSource(inline_string=source))
