module dtj.dev/e2e/probe

go 1.25.0
