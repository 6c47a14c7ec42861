#!/bin/sh
# Runs stops.py in the phases in which Kafka is away or hangs, with a second SIGTERM, and with an open transaction.
# `make stops` runs all thirteen.
set -eu
"$(dirname "$0")/stops.py" --small unreachable silent twice hanging away transaction
