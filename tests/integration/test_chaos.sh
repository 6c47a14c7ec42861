#!/bin/sh
# Runs chaos.py in its small sizes: workers are killed, lose their broker and are replaced by a worker with the same id.
# (test_stops.sh and test_fleet.sh stop workers and start others in turn.) The checker must find no violation and every limit
# must hold. Time limits are three times as long, because other jobs may use the same cores; `make chaos` has more
# scenarios and checks the unchanged limits.
set -eu
"$(dirname "$0")/chaos.py" --small kill broker comeback replaced
"$(dirname "$0")/chaos.py" --small --delivery exactly-once kill twin
