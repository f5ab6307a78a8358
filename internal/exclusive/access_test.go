package exclusive

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const refusal = "another call is using the Session, and only one goroutine may at a time; give each goroutine its own, or let them take turns with a mutex"

func TestAcquire(t *testing.T) {
	var a Access
	require.NoError(t, a.Acquire("Session.Step", "Session"))
	assert.EqualError(t, a.Acquire("Session.Embed", "Session"), "Session.Embed: "+refusal)
	a.Release()
	assert.NoError(t, a.Acquire("Session.Embed", "Session"))
	assert.NoError(t, a.Err())
}

func TestTry(t *testing.T) {
	var a Access
	require.True(t, a.Try("Session.Add", "Session"))
	assert.False(t, a.Try("Session.Add", "Session"))
	assert.False(t, a.Try("Session.Forget", "Session"))
	a.Release()
	assert.EqualError(t, a.Acquire("Session.Step", "Session"), "Session.Add: "+refusal, "the first one refused is told once an error can be returned")
}
