package rpcmemory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPool(t *testing.T) {
	const limit = 100 << 20
	collected := 0
	p := New(limit, func() { collected++ })
	require.True(t, p.Take(limit, Reserve), "objects have a reserve")
	require.Zero(t, p.Free())
	require.False(t, p.Take(1, 0))
	require.False(t, p.Take(0, 1))
	p.Give(30)
	require.EqualValues(t, 30, p.Free())
	require.True(t, p.Take(10, 20), "and take of the limit beyond it")
	require.Zero(t, p.Free())

	p.Drop(0, 20)
	require.EqualValues(t, 20, p.Free())
	require.True(t, p.Take(20, 0))
	require.Zero(t, collected)
	p.Drop(limit, Reserve)
	require.Equal(t, 1, collected)
	require.EqualValues(t, limit, p.Free())
	require.True(t, p.Take(limit, Reserve))
	require.True(t, New(0, nil).Take(1<<60, 1<<60))
}
