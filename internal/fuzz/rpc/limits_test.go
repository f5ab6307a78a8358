package rpc

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// Idle clients that occupy all slots lose them when another client waits.
func TestIdleClients(t *testing.T) {
	o := usual
	o.Clients, o.Idle = 2, 200*time.Millisecond
	s := start(t, o)
	var idle []*client
	for range o.Clients {
		c := s.dial(t)
		c.served()
		idle = append(idle, c)
	}
	s.dial(t).served()
	s.says(t, "and another client waits")
	gone := make(chan error, len(idle))
	for _, c := range idle {
		go func() {
			_, err := c.Read(make([]byte, 1))
			gone <- err
		}()
	}
	select {
	case err := <-gone:
		require.Error(t, err)
	case <-time.After(time.Minute):
		t.Error("no client had to go")
	}
}

// Idle clients that have all the memory lose it when another client needs some, unless they are allowed to be
// idle.
func TestIdleMemory(t *testing.T) {
	for _, idle := range []time.Duration{0, 200 * time.Millisecond} { // 0 stands for ten minutes
		o := usual
		o.Memory, o.Idle = 1<<20, idle
		s := start(t, o)
		first, second := s.dial(t), s.dial(t)
		first.alloc(uint64(o.Memory))
		ask := func(size int64) bool {
			second.send(rpcwire.AllocBuffer, binary.LittleEndian.AppendUint64([]byte{0, 0, 0, 0}, uint64(size)))
			return binary.LittleEndian.Uint64(second.reply()) != 0
		}
		require.False(t, ask(2*o.Memory), "more than there is")
		if idle == 0 {
			require.False(t, ask(4096))
			first.served()
			continue
		}
		require.Eventually(t, func() bool { return ask(4096) }, time.Minute, 50*time.Millisecond)
		first.refused()
		s.says(t, "and another client needs memory")
	}
}

// A client that stops in the middle of a message does not block others.
func TestHalfMessages(t *testing.T) {
	s := start(t, usual)
	for range 8 {
		c := s.dial(t)
		c.served()
		_, err := c.Write([]byte{byte(rpcwire.SetTensor), 0, 0, 0, 4})
		require.NoError(t, err)
	}
	c := s.dial(t)
	p := c.alloc(64)
	x, y := p.tensor(1, ggml.F32, 0, 1), node(p.tensor(2, ggml.F32, 32, 1), "sqr", 1)
	c.set(x, []byte{0, 0, 0, 0x40}) // 2
	c.compute(x, y)
	require.Equal(t, []byte{0, 0, 0x80, 0x40}, c.get(y, 4))
}
