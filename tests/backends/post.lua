-- One request for wrk, read from the file named by POST_REQUEST (first line: path; then headers; an empty line;
-- then the body). What was measured is written as JSON to POST_OUT. Answers are not looked at here: at some ten
-- thousand a second that would be the time of wrk that is measured. `measure.py` checks them by status and size.

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

local pause = tonumber(os.getenv("POST_PAUSE"))
if pause > 0 then
  -- Between 0 and twice as long, so that callers do not march in step.
  function delay() return math.random(0, 2 * pause) end
end

function init()
  local path, headers, body = read()
  local bytes = wrk.format("POST", path, headers, body)
  request = function() return bytes end
end

function done(summary, latency)
  local errors = summary.errors
  local out = assert(io.open(os.getenv("POST_OUT"), "w"))
  out:write(string.format(
    '{"calls": %d, "bytes": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "max_ms": %f, "wrong": %d, "broken": %d}\n',
    summary.requests, summary.bytes, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, errors.status, errors.connect + errors.read + errors.write + errors.timeout))
  out:close()
end
