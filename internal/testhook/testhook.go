// Package testhook lets tests see what the checks of package ggml keep from
// happening.
package testhook

// Unchecked makes ops pass on what they would refuse. The process may not
// survive it: set it in a subprocess, and in one goroutine.
var Unchecked bool
