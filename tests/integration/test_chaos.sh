#!/bin/sh
# The small sizes of chaos.py: workers are killed, restarted, stopped, and lose their broker, and the checker
# finds nothing wrong. No time is judged here; `make chaos` does that.
set -eu
exec "$(dirname "$0")/chaos.py" --small kill rolling stop broker
