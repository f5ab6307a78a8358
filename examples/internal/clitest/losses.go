package clitest

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// close-losses: A B TOLERANCE compares the losses of the steps in two files of --metrics.
func closeLosses(ts *testscript.TestScript, neg bool, args []string) {
	read := func(path string) (losses []float64) {
		for line := range strings.Lines(ts.ReadFile(path)) {
			var step struct{ Loss *float64 }
			ts.Check(json.Unmarshal([]byte(line), &step))
			if step.Loss != nil {
				losses = append(losses, *step.Loss)
			}
		}
		return losses
	}
	a, b := read(args[0]), read(args[1])
	tolerance, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	same := len(a) > 0 && len(a) == len(b)
	for i := range min(len(a), len(b)) {
		same = same && math.Abs(a[i]-b[i]) <= tolerance*a[i]
	}
	if same == neg {
		ts.Fatalf("losses of %s: %v\nof %s: %v", args[0], a, args[1], b)
	}
}
