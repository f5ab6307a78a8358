package cli

import "github.com/goggml/ggml/internal/counted"

// Count writes a number of things in words, see [counted.Of].
func Count(n int, what string) string { return counted.Of(n, what) }
