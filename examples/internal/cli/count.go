package cli

import (
	"fmt"
	"strings"
)

// Count is a number of things in words: "1 step", "12 steps", "7 matrices".
func Count(n int, what string) string {
	stem, isMatrix := strings.CutSuffix(what, "ix")
	switch {
	case n == 1:
	case isMatrix:
		what = stem + "ices"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
