package rpc

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// Valgrind finds no write of ggml's C code beyond a block.
func TestMemcheck(t *testing.T) {
	if *under == "" {
		t.Skip("scripts/memcheck runs the servers under valgrind")
	}
	s := startIn(t, "short", usual)
	c := s.dial(t)
	p := c.alloc(128)
	x, y := p.tensor(1, ggml.F32, 0, 16), node(p.tensor(2, ggml.F32, 64, 16), "sqr", 1)
	c.set(x, make([]byte, 64))
	c.compute(x, y)
	c.served()
	require.Eventually(t, func() bool { return len(badAccesses(s.log.String())) > 0 }, time.Minute, 10*time.Millisecond)
	require.Contains(t, strings.Join(badAccesses(s.log.String()), ""), "Invalid write")
}
