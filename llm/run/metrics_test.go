package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// Lines contain measurements, and a continued run keeps the lines of earlier steps, unless the file is gone.
func TestMetricsAreMeasured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	trainer := newTrainer(t, 4)
	options := Options{
		Result: SavedFile{File: File{Path: os.DevNull}}, Write: func(string) error { return nil },
		Valid: oneSample(), ValidEvery: 2, Metrics: File{Path: path},
	}
	began := time.Now().Add(-time.Second)
	run := func() []string {
		out := need.Value(Train(t.Context(), trainer, options))(t)
		require.True(t, out.Complete)
		text := need.Value(os.ReadFile(path))(t)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	lines := run()
	require.Len(t, lines, 4+3)
	for i, text := range lines {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		require.Equal(t, line["step"], line["epoch"], "one row is an epoch")
		at := need.Value(time.Parse(time.RFC3339, line["time"].(string)))(t)
		require.WithinRange(t, at, began, time.Now().Add(time.Second))
		if rss.Now() > 0 { // the system reports it
			require.Greater(t, line["memory"], 1e6)
		}
		if line["loss"] != nil {
			require.Positive(t, line["tokens_per_second"], "%d %s", i, text)
		} else {
			require.NotContains(t, line, "tokens_per_second")
		}
	}
	require.NotContains(t, lines[1], "peak_share")
	require.Equal(t, lines, run(), "nothing is left to do, and the lines are those of before")

	require.NoError(t, os.Remove(path))
	again := run()
	require.Len(t, again, len(lines))
	for i, line := range lines {
		require.Equal(t, line[:strings.Index(line, `,"time"`)]+"}", again[i])
	}
	require.NoError(t, os.WriteFile(path, []byte("no JSON\n{}\n"), 0o600))
	require.Equal(t, again, run(), "what is no line of metrics says nothing")
}

// Steps have the share of the machine's peak speed, once it is known.
func TestMetricsHaveTheShareOfThePeak(t *testing.T) {
	path, asked := filepath.Join(t.TempDir(), "metrics.jsonl"), 0
	peak := func(reached float64) float64 {
		if asked++; asked == 3 || reached <= 0 {
			return 0
		}
		return 10
	}
	_, err := Train(t.Context(), newTrainer(t, 3), Options{
		Result: SavedFile{File: File{Path: os.DevNull}}, Write: func(string) error { return nil },
		Valid: oneSample(), Metrics: File{Path: path}, Peak: peak,
	})
	require.NoError(t, err)
	text := need.Value(os.ReadFile(path))(t)
	for line := range strings.Lines(string(text)) {
		l := need.Value(ParseLine([]byte(line)))(t)
		if l.Loss == nil || l.Step == 3 {
			require.Zero(t, l.PeakShare, line)
			continue
		}
		require.InDelta(t, l.TokensPerSecond/10, l.PeakShare, 0.006, line)
	}
	require.Equal(t, 3, asked)
}

// The speed counts the tokens of rows without padding: 3 of 4 here.
func TestSpeedIsOfTheData(t *testing.T) {
	var s speed
	s.start()
	s.began = s.began.Add(-time.Hour)
	require.InDelta(t, 2., s.add(7200), 0.01)
	s.start()
	s.began = s.began.Add(-time.Hour)
	s.add(0)
	require.InDelta(t, 1., s.mean(), 0.01)
	trainer, mean := newTrainer(t, 2), 0.
	_, err := Train(t.Context(), trainer, Options{
		Result: SavedFile{File: File{Path: os.DevNull}}, Write: func(string) error { return nil },
		OnStep: func(_ train.StepMetrics, tokensPerSecond float64) { mean = tokensPerSecond },
	})
	require.NoError(t, err)
	require.Equal(t, 3, trainer.History[1].RowTokens)
	require.Positive(t, mean)
}

// A broken line is an error that names it, and hides none of the others.
func TestBrokenMetrics(t *testing.T) {
	r := &Run{Path: t.TempDir(), Manifest: Manifest{Metrics: Metrics}}
	text := `{"step":1,"loss":3}` + "\n{\nnull\n" + `{"step":2,"eval_loss":2}` + "\n" + `{"step":4,"loss":1}` + "\n" + `{"step":5,"lo`
	require.NoError(t, os.WriteFile(r.MetricsPath(), []byte(text), 0o600))
	var faults []string
	for line, err := range r.Metrics() {
		if err != nil {
			faults = append(faults, err.Error())
		}
		require.Equal(t, err == nil, line.Step > 0)
	}
	require.Equal(t, []string{
		r.MetricsPath() + ":2: unexpected end of JSON input",
		r.MetricsPath() + ":3: it has neither a step nor an evaluation",
	}, faults)
	p, err := r.Progress()
	require.EqualError(t, err, faults[0])
	require.Equal(t, Progress{Step: 4, Loss: 1, Evaluated: true, BestLoss: 2, BestStep: 2, Broken: 2}, p)

	text = `{"step":1,"loss":3}` + "\n" + strings.Repeat("x", 2*maxLine) + "\n" + `{"step":2,"loss":1}` + "\n"
	require.NoError(t, os.WriteFile(r.MetricsPath(), []byte(text), 0o600))
	p, err = r.Progress()
	require.EqualError(t, err, r.MetricsPath()+":2: it is longer than 1048576 bytes")
	require.Equal(t, Progress{Step: 2, Loss: 1, Broken: 1}, p)
	require.NoError(t, os.Truncate(r.MetricsPath(), 1<<40))
	_, err = r.Progress()
	require.EqualError(t, err, r.MetricsPath()+" is larger than 1073741824 bytes")

	require.NoError(t, os.Remove(r.MetricsPath()))
	require.NoError(t, os.Mkdir(r.MetricsPath(), 0o700))
	_, err = r.Progress()
	require.EqualError(t, err, "open "+r.MetricsPath()+": it is a folder; name the file in it")
}
