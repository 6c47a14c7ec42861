#!/bin/sh
# A fleet of real workers sleeps and wakes by the figure of millrace lag: the small form of scale.py, with the embedded broker.
exec "$(dirname "$0")/scale.py" --millrace "${MILLRACE_BIN:-build/millrace}" --requests 60 --tokens 32 --target 2
