#!/bin/sh
# Runs chaos.py in its small sizes: workers are killed, restarted, stopped, lose their broker and are replaced by a
# worker with the same id. The checker must find no violation; times are checked only by `make chaos`.
set -eu
"$(dirname "$0")/chaos.py" --small kill rolling stop broker comeback replaced
"$(dirname "$0")/chaos.py" --small --delivery exactly-once kill twin
