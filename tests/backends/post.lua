-- One request for wrk, read from the file named by POST_REQUEST (first line: path; then headers; an empty line;
-- then the body), every answer checked for the words of POST_MUST. What was measured is written as JSON to POST_OUT.

local must = os.getenv("POST_MUST")
local threads = {}
wrong = 0

local function read()
  local file = assert(io.open(os.getenv("POST_REQUEST"), "rb"))
  local path, headers = file:read("*l"), {}
  for line in file:lines() do
    if line == "" then break end
    local name, value = line:match("^(.-): (.*)$")
    headers[name] = value
  end
  return path, headers, file:read("*a")
end

function setup(thread) table.insert(threads, thread) end

function init()
  local path, headers, body = read()
  local bytes = wrk.format("POST", path, headers, body)
  request = function() return bytes end
end

function response(status, _, body)
  if status ~= 200 or not body:find(must, 1, true) then wrong = wrong + 1 end
end

function done(summary, latency)
  local bad, errors = 0, summary.errors
  for _, thread in ipairs(threads) do bad = bad + thread:get("wrong") end
  local out = assert(io.open(os.getenv("POST_OUT"), "w"))
  out:write(string.format(
    '{"calls": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "max_ms": %f, "wrong": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, bad, errors.connect + errors.read + errors.write + errors.timeout))
  out:close()
end
