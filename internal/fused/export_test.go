package fused

import (
	"io"

	"github.com/goggml/ggml"
)

// Types returns the types of a matrix's a and b.
func Types(f io.Closer, name string) []ggml.Type {
	p := f.(*linear).adapters.pairs[name]
	return []ggml.Type{p.a.Type(), p.b.Type()}
}

// GEMMIsFast reports whether many tokens are multiplied fastest by GEMM.
func GEMMIsFast() bool { return gemmIsFast() }

// IsRowMajor reports whether the copy of a matrix has the layout of the file.
func IsRowMajor(p *Repacked, name string) bool { return p.matrices[name].rowMajor }
