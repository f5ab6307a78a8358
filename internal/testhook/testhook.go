// Package testhook lets tests see into package ggml: what its checks keep from
// happening, and what the library's part of the time is.
package testhook

import "time"

// Unchecked makes ops pass on what they would refuse. The process may not
// survive it: set it in a subprocess, and in one goroutine.
var Unchecked bool

// Computed is the time that graphs took so far, within the library.
var Computed func() time.Duration
