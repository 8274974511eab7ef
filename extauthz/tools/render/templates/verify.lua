local VERBS = {POST = "create", PUT = "update", PATCH = "patch"}

local function text(value)
  return '"' .. (value or ""):gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

-- What a SelfSubjectAccessReview asks about a request.
local function question(method, target)
  local path = target:match("^[^?]*"):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
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
  local word = given:match("^%s*(%S+) [^ ]")
  if word == nil or word:lower() ~= "bearer" then
    handle:respond({[":status"] = "401"}, "")
    return
  end
  local asked = {
    [":method"] = "POST",
    [":path"] = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    [":authority"] = {{ options.apiserver_name }},
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
  local answer, review = handle:httpCall("apiserver-upgrade", asked, body, {{ (VERIFY_TIMEOUT_S * 1000) | int }})
  local status = answer[":status"]
  if status == "201" and review and review:find('"allowed":%s*true') then return end
  if status == "201" then
    handle:respond({[":status"] = "403"}, "the API server does not let you write this")
  else
    handle:respond({[":status"] = status:sub(1, 1) == "4" and status or "503"}, "")
  end
end
