package computethread

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitPolicy(t *testing.T) {
	var applied []bool
	p := &waitPolicy{apply: func(passive bool) { applied = append(applied, passive) }}
	now := time.Now()
	ms := func(elapsed, runQueueWait int) {
		now = now.Add(time.Duration(elapsed) * time.Millisecond)
		p.record(now, time.Duration(elapsed)*time.Millisecond, time.Duration(runQueueWait)*time.Millisecond)
	}
	ms(20, 14) // too little to decide
	require.Empty(t, applied)
	ms(80, 0) // less than a fraction of both together
	ms(100, 14)
	require.Empty(t, applied)
	for range 7 {
		ms(10, 2)
	}
	require.Empty(t, applied)
	ms(10, 2) // as much as would be too much in a whole interval
	require.Equal(t, []bool{true}, applied)
	ms(249, 249) // waiting says little while threads sleep
	require.Equal(t, []bool{true}, applied)
	ms(1, 1)
	require.Equal(t, []bool{true, false}, applied)
	for range 8 {
		ms(10, 2) // contention goes on, and the pause is twice as long
	}
	ms(499, 499)
	require.Equal(t, []bool{true, false, true}, applied)
	ms(1, 1)
	require.Equal(t, []bool{true, false, true, false}, applied)
	ms(100, 0) // it is over, and the next pause is short again
	ms(20, 20)
	ms(20*20, 20*20) // but not shorter than twenty jobs
	require.Equal(t, []bool{true, false, true, false, true, false}, applied)
	ms(1000, 200)
	ms(20*1000-1, 20*1000)
	require.Len(t, applied, 7)
	ms(100, 4) // idle processors end it
	require.Len(t, applied, 8)
	for range 10 {
		ms(20, 20)
		ms(16_000, 16_000) // the longest pause
	}
	require.Len(t, applied, 28)
}
