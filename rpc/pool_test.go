package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPool(t *testing.T) {
	const limit = 100 << 20
	collected := 0
	p := newPool(limit, func() { collected++ })
	require.True(t, p.take(limit, reserve), "objects have a reserve")
	require.Zero(t, p.free())
	require.False(t, p.take(1, 0))
	require.False(t, p.take(0, 1))
	p.give(30)
	require.EqualValues(t, 30, p.free())
	require.True(t, p.take(10, 20), "and take of the limit beyond it")
	require.Zero(t, p.free())

	p.drop(0, 20)
	require.EqualValues(t, 20, p.free())
	require.True(t, p.take(20, 0))
	require.Zero(t, collected)
	p.drop(limit, reserve)
	require.Equal(t, 1, collected)
	require.EqualValues(t, limit, p.free())
	require.True(t, p.take(limit, reserve))
	require.True(t, newPool(0, nil).take(1<<60, 1<<60))
}
