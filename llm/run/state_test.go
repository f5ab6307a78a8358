package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// Each end of a run has its own state, and so has a run that continues.
func TestState(t *testing.T) {
	path := t.TempDir()
	f, err := Create(path)
	require.NoError(t, err)
	state := func(step int) State {
		r := need.Value(Open(path))(t)
		return r.State(Progress{Step: step})
	}
	require.NoError(t, f.End(Outcome{}, nil), "before it began")
	for _, c := range []struct {
		out  Outcome
		err  error
		want State
	}{
		{Outcome{Complete: true, Steps: 4, Total: 4}, nil, Done},
		{Outcome{Complete: true, Steps: 3, Total: 4}, nil, EndedEarly},
		{Outcome{Stopped: true, Steps: 3, Total: 4}, train.ErrStopped, Stopped},
		{Outcome{Steps: 3, Total: 4}, fmt.Errorf("step 4: %w", train.ErrDiverged), Diverged},
		{Outcome{Steps: 3, Total: 4}, errors.New("no space"), Failed},
	} {
		require.NoError(t, f.Describe(Manifest{Steps: 4}))
		require.Equal(t, Running, state(2))
		require.NoError(t, f.End(c.out, c.err))
		require.Equal(t, c.want, state(c.out.Steps))
	}
	require.NoError(t, f.Describe(Manifest{Steps: 4}))
	require.NoError(t, f.Close())
	require.Equal(t, Stopped, state(2), "killed")
	require.Equal(t, Done, state(4), "of an older version")
	require.NoError(t, (*Folder)(nil).End(Outcome{}, nil))
}

// The time taken excludes pauses between the commands of a run; the first command begins it.
func TestTaken(t *testing.T) {
	path := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte(text), 0o600))
	}
	write("manifest.json", `{"steps": 4, "metrics": "metrics.jsonl"}`)
	write("commands.txt", "2026-01-01T10:00:00Z  finetune\n2026-01-01T12:00:00Z  finetune a\nb\n")
	write("metrics.jsonl", `{"step":1,"loss":3,"time":"2026-01-01T10:00:10.000Z"}`+"\n"+`{"st`+"\n"+`{"step":2,"loss":3,"time":"2026-01-01T10:00:30Z"}`+"\n"+
		`{"step":3,"loss":3,"time":"2026-01-01T12:00:30Z"}`+"\n")
	r := need.Value(Open(path))(t)
	p, err := r.Progress()
	require.ErrorContains(t, err, "metrics.jsonl:2: ")
	require.Equal(t, 1, p.Broken)
	require.Equal(t, time.Minute, p.Taken)
	begun := need.Value(r.Time())(t)
	require.Equal(t, time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC), begun)
	require.Equal(t, 20*time.Second, r.Left(p))
	require.Equal(t, "stopped after 1m0s", r.Describe(p))
	r.Manifest.State = Running
	require.Equal(t, "running for 1m0s, about 20s left", r.Describe(p))
	r.Manifest.State = Done
	require.Equal(t, "done in 1m0s", r.Describe(p))
}
