"""The rules in CEL by which the API server refuses a job."""
