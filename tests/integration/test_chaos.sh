#!/bin/sh
# Runs chaos.py in its small sizes: workers are killed, restarted, stopped, lose their broker and are replaced by a
# worker with the same id. The checker must find no violation and every limit must hold. Time limits
# are three times as long, because other jobs may use the same cores; `make chaos` checks the
# unchanged limits.
set -eu
"$(dirname "$0")/chaos.py" --small kill rolling stop broker comeback replaced
"$(dirname "$0")/chaos.py" --small --delivery exactly-once kill twin
