#!/bin/sh
# Runs chaos.py in its small sizes: workers are killed, restarted, stopped, lose their broker and are replaced by a
# worker with the same id. The checker must find no violation and every limit must hold, but a time limit counts thrice,
# since other jobs may use the same cores; `make chaos` checks the times themselves.
set -eu
"$(dirname "$0")/chaos.py" --small kill rolling stop broker comeback replaced
"$(dirname "$0")/chaos.py" --small --delivery exactly-once kill twin
