package main

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// vectors checks embeddings: that files are equal, that all vectors in a file are equal, or that they have
// length 1.
func vectors(ts *testscript.TestScript, neg bool, args []string) {
	var list [][]float32
	for _, file := range args[1:] {
		for line := range strings.Lines(ts.ReadFile(file)) {
			var e embedded
			ts.Check(json.Unmarshal([]byte(line), &e))
			list = append(list, e.Embedding)
		}
	}
	for i, v := range list {
		length, distance := 0.0, 0.0
		for j, x := range v {
			length = math.Hypot(length, float64(x))
			distance = math.Hypot(distance, float64(x-list[0][j]))
		}
		switch {
		case args[0] == "unit" && math.Abs(length-1) > 1e-6,
			args[0] == "same" && (len(list) < 2 || distance != 0),
			args[0] == "alike" && (len(list) < 2 || distance > 1e-3*length):
			ts.Fatalf("%s: vector %d has length %v and distance %v from the first", args[0], i, length, distance)
		}
	}
}
