#!/bin/sh
# The small sizes of chaos.py: workers are killed, restarted, stopped, lose their broker, and meet another of their
# name, and the checker finds nothing wrong. No time is judged here; `make chaos` does that.
set -eu
"$(dirname "$0")/chaos.py" --small kill rolling stop broker comeback replaced
"$(dirname "$0")/chaos.py" --small --delivery exactly-once kill twin
