"""Sessions and runs in the forms of other programs: NDJSON, ATIF trajectories, OpenTelemetry spans."""
