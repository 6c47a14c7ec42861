#!/bin/sh
# Runs stops.py in three phases: a second SIGTERM, a Kafka that hangs with the producer's queue full, an open transaction.
# `make stops` runs all twelve.
set -eu
"$(dirname "$0")/stops.py" --small twice hanging transaction
