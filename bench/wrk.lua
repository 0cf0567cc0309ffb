-- wrk.lua - POSTs the texts of a file to /predict, one after another, and prints one line of JSON at the end.
--
--   wrk -t1 -c32 -d15s -s bench/wrk.lua http://127.0.0.1:8080 -- build/bench/workload.txt [FIRST]
--
-- FIRST is the line to begin with (0 is the first); after the last line it goes on with the first. The bodies
-- are made before the clock starts.

local requests, at = {}, 0

local function json_string(text)
  return '"' .. text:gsub('[%z\1-\31\\"]', function(c) return string.format("\\u%04x", c:byte()) end) .. '"'
end

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  for line in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", "/predict", headers, '{"inputs":' .. json_string(line) .. "}")
  end
  at = tonumber(args[2] or 0)
end

function request()
  at = at + 1
  return requests[(at - 1) % #requests + 1]
end

function done(summary, latency)
  local e, seconds = summary.errors, summary.duration / 1e6
  io.write(string.format(
    '{"requests": %d, "seconds": %.3f, "p50_ms": %.2f, "p95_ms": %.2f, "p99_ms": %.2f, "max_ms": %.2f, ' ..
    '"socket_errors": %d, "timeouts": %d, "not_2xx": %d}\n', summary.requests, seconds, latency:percentile(50) / 1e3,
    latency:percentile(95) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3, e.connect + e.read + e.write,
    e.timeout, e.status))
end
