package computethread

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitPolicy(t *testing.T) {
	var applied []bool
	p := &waitPolicy{apply: func(passive bool) { applied = append(applied, passive) }}
	ms := func(elapsed, runQueueWait int) {
		p.record(time.Duration(elapsed)*time.Millisecond, time.Duration(runQueueWait)*time.Millisecond)
	}
	ms(99, 99) // too little to decide
	require.Empty(t, applied)
	ms(901, 0) // a tenth of both together
	ms(100, 14)
	require.Empty(t, applied)
	for range 10 {
		ms(10, 2)
	}
	require.Equal(t, []bool{true}, applied)
	ms(100, 50)
	ms(100, 6) // between the two limits
	require.Equal(t, []bool{true}, applied)
	ms(60, 0)
	ms(60, 4)
	require.Equal(t, []bool{true, false}, applied)
	ms(100, 20)
	require.Equal(t, []bool{true, false, true}, applied)
}
