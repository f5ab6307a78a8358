package main

import (
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// advised: REPORT N FILE writes the N-th command that a report advises into a file, as a
// script that adds its arguments.
func advised(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	_, use, found := strings.Cut(ts.ReadFile(args[0]), "use it:\n")
	if !found || neg {
		ts.Fatalf("no command is advised")
	}
	for line := range strings.Lines(use) {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			if n--; n == 0 {
				command = strings.TrimSuffix(command, "\n")
				ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(command+" \"$@\"\n"), 0o600))
				return
			}
		}
	}
	ts.Fatalf("there is no such command:\n%s", use)
}
