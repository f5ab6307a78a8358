package jinja_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzTemplate generates odd templates: each is parsed and rendered, or rejected with an error, in bounded time.
func FuzzTemplate(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.Template)
	}
	f.Fuzz(func(t *testing.T, source string) {
		start := time.Now()
		text, err := render(source)
		require.Less(t, time.Since(start), 20*time.Second)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "test:"), "the error has its line: %v", err)
			return
		}
		if utf8.ValidString(source) {
			require.True(t, utf8.ValidString(text))
		}
	})
}
