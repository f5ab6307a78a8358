package run

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// The samples of a resumed run have each step once, in order, and none of a step that the run will repeat.
func TestAddSample(t *testing.T) {
	f := need.Value(Create(t.TempDir()))(t)
	defer f.Close()
	add := func(step int, prompt, text string, done int) {
		require.NoError(t, f.AddSample(Sample{step, prompt, text}, done))
	}
	samples := func() (list []Sample) {
		r := Run{Path: f.Path}
		return need.Value(r.Samples())(t)
	}
	require.Empty(t, samples())
	add(0, "p", "base", 0)
	add(4, "p", "four", 4)
	add(8, "p", "eight", 8)
	require.Equal(t, []Sample{{0, "p", "base"}, {4, "p", "four"}, {8, "p", "eight"}}, samples())

	// The run resumes after step 6 and evaluates again.
	add(0, "p", "base", 6)
	require.Equal(t, []Sample{{0, "p", "base"}, {4, "p", "four"}}, samples())
	add(8, "p", "again", 8)
	add(8, "p", "again", 8)
	require.Equal(t, []Sample{{0, "p", "base"}, {4, "p", "four"}, {8, "p", "again"}}, samples())

	// Another prompt has a base of its own.
	add(0, "q", "other", 8)
	add(12, "q", "twelve", 12)
	want := []Sample{{0, "p", "base"}, {0, "q", "other"}, {4, "p", "four"}, {8, "p", "again"}, {12, "q", "twelve"}}
	require.Equal(t, want, samples())

	// A truncated line is skipped.
	file := need.Value(os.OpenFile(f.File(Samples), os.O_APPEND|os.O_WRONLY, 0))(t)
	_, err := file.WriteString(`{"step":13,"pro`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Equal(t, want, samples())
	add(16, "q", "sixteen", 16)
	require.Len(t, samples(), 6)
}
