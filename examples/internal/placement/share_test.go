package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Parts are consecutive, differ in size by at most one, and together make the whole list. If the list is too
// short, several processes get the same item.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		list  string
		parts []string
	}{
		{"abcd", []string{"abcd"}},
		{"abcd", []string{"ab", "cd"}},
		{"abc", []string{"a", "bc"}},
		{"abcdefgh", []string{"ab", "cde", "fgh"}},
		{"ab", []string{"a", "b"}},
		{"ab", []string{"a", "a", "b", "b"}},
		{"ab", []string{"a", "a", "b"}},
		{"a", []string{"a", "a"}},
		{"", []string{"", ""}},
	} {
		var parts []string
		for i := range c.parts {
			parts = append(parts, string(part([]rune(c.list), i, len(c.parts))))
		}
		require.Equal(t, c.parts, parts)
	}
}
