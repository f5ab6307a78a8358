// Package counted formats numbers of things in words.
package counted

import (
	"fmt"
	"strings"
)

// Of returns a number of things: "1 step", "12 steps", "7 matrices", "2 entries".
func Of[N ~int | ~int64 | ~uint32 | ~uint64](n N, what string) string {
	return fmt.Sprintf("%d %s", n, plural(n == 1, what))
}

// Are returns a number of things with its verb: "1 byte is", "2 bytes are".
func Are[N ~int | ~int64 | ~uint32 | ~uint64](n N, what string) string {
	if n == 1 {
		return Of(n, what) + " is"
	}
	return Of(n, what) + " are"
}

func plural(isOne bool, what string) string {
	if isOne {
		return what
	}
	for one, many := range map[string]string{"ix": "ices", "ry": "ries"} {
		if stem, ok := strings.CutSuffix(what, one); ok {
			return stem + many
		}
	}
	return what + "s"
}
