package progress

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// clock is moved by the test.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

// reporter returns a reporter into buf with a fake clock and fake memory.
func reporter(buf *bytes.Buffer, opt Options) (*Reporter, *clock) {
	c := &clock{time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	opt.now = c.now
	opt.memory = func() (uint64, uint64) { return 212 << 20, 300 << 20 }
	if opt.columns == nil {
		opt.columns = func() int { return 100 }
	}
	return New(buf, opt), c
}

// screen interprets what a terminal of endless width would show: carriage
// returns, line feeds and the erasing of a line's end.
func screen(output string) []string {
	lines := [][]rune{nil}
	column := 0
	for len(output) > 0 {
		if rest, ok := strings.CutPrefix(output, eraseToEnd); ok {
			last := len(lines) - 1
			lines[last] = lines[last][:min(column, len(lines[last]))]
			output = rest
			continue
		}
		r := []rune(output)[0]
		output = output[len(string(r)):]
		last := len(lines) - 1
		switch r {
		case '\r':
			column = 0
		case '\n':
			lines = append(lines, nil)
			column = 0
		default:
			for len(lines[last]) <= column {
				lines[last] = append(lines[last], ' ')
			}
			lines[last][column] = r
			column++
		}
	}
	var texts []string
	for _, line := range lines {
		texts = append(texts, string(line))
	}
	return texts
}

func TestPlainLines(t *testing.T) {
	var buf bytes.Buffer
	p, clock := reporter(&buf, Options{Total: 400, Interval: 10 * time.Second})
	for step := 1; step <= 400; step++ {
		clock.advance(100 * time.Millisecond)
		p.Update(State{Step: step, Tokens: int64(step) * 512, Loss: 4 - float64(step)/400, LR: 1e-3})
	}
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.Equal(t, strings.Join([]string{
		"step 1/400  loss 3.998  lr 1.0e-03  5120 tok/s  ETA 40s  mem 212 MiB",
		"step 101/400  loss 3.748  lr 1.0e-03  5120 tok/s  ETA 30s  mem 212 MiB",
		"step 201/400  loss 3.498  lr 1.0e-03  5120 tok/s  ETA 20s  mem 212 MiB",
		"step 301/400  loss 3.248  lr 1.0e-03  5120 tok/s  ETA 10s  mem 212 MiB",
		"step 400/400  loss 3.000  lr 1.0e-03  5120 tok/s  in 40s  peak mem 300 MiB",
		"",
	}, "\n"), buf.String())

	p.Update(State{Step: 401})
	p.Printf("after %s", "the end")
	require.True(t, strings.HasSuffix(buf.String(), "MiB\nafter the end\n"))
}

func TestPlainInterruptedAndSilent(t *testing.T) {
	var buf bytes.Buffer
	silent, _ := reporter(&buf, Options{Total: 10})
	require.NoError(t, silent.Close())
	require.Empty(t, buf.String(), "no Update, no line")

	p, clock := reporter(&buf, Options{Total: 10, Start: 4, Label: "batch"})
	clock.advance(2 * time.Second)
	p.Update(State{Step: 5, Loss: math.NaN()})
	clock.advance(2 * time.Second)
	p.Update(State{Step: 6})
	require.NoError(t, p.Close())
	require.Equal(t, "batch 5/10  loss NaN  0.50 batch/s  ETA 10s  mem 212 MiB\n"+
		"batch 6/10  loss 0.000  0.50 batch/s  in 4s  peak mem 300 MiB\n", buf.String())
}

func TestUnknownTotal(t *testing.T) {
	for _, live := range []bool{false, true} {
		var buf bytes.Buffer
		p, clock := reporter(&buf, Options{Label: "token", ForceTTY: live})
		clock.advance(time.Second)
		p.Update(State{Step: 42})
		require.Equal(t, "token 42  42.0 token/s  mem 212 MiB", screen(buf.String())[0])
	}
}

func TestLiveLine(t *testing.T) {
	var buf bytes.Buffer
	p, clock := reporter(&buf, Options{Total: 200, ForceTTY: true})
	clock.advance(time.Second)
	p.Update(State{Step: 1, Tokens: 100, Loss: 5, LR: 1e-4})
	require.Equal(t, []string{"   0% |                    |  step 1/200  loss 5.000  lr 1.0e-04  100 tok/s  ETA 3m19s  mem 212 MiB"},
		screenWithBar(t, buf.String(), 100))

	before := buf.Len()
	clock.advance(50 * time.Millisecond)
	p.Update(State{Step: 2, Tokens: 200, Loss: 5, LR: 1e-4})
	require.Equal(t, before, buf.Len(), "no frame within 100 ms of the last")

	clock.advance(49*time.Second - 50*time.Millisecond)
	p.Update(State{Step: 100, Tokens: 5000, Loss: 4, LR: 1e-4})
	line := screenWithBar(t, buf.String(), 100)[0]
	require.Contains(t, line, "  50% |██████████          |  step 100/200  loss 4.000")
	require.Contains(t, line, "ETA 50s")

	p.Printf("validation loss %.2f\n", 3.5)
	p.Printf("saved")
	lines := screen(buf.String())
	require.Equal(t, []string{"validation loss 3.50", "saved"}, lines[:2])
	require.Contains(t, lines[2], "step 100/200", "the live line is below")

	require.NoError(t, p.Close())
	lines = screen(buf.String())
	require.Equal(t, "step 100/200  loss 4.000  lr 1.0e-04  100 tok/s  in 50s  peak mem 300 MiB", lines[2])
	require.Equal(t, "", lines[3])
	require.Len(t, lines, 4)
}

// screenWithBar is screen, and checks that no line reaches the last column,
// where some terminals wrap.
func screenWithBar(t require.TestingT, output string, columns int) []string {
	lines := screen(output)
	for _, line := range lines {
		require.Less(t, len([]rune(line)), columns)
	}
	return lines
}

func TestFrameFitsAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(0, 200).Draw(t, "columns")
		total := rapid.IntRange(0, 1_000_000).Draw(t, "total")
		step := rapid.IntRange(-1, 1_100_000).Draw(t, "step")
		fields := []field{{fmt.Sprintf("Schritt µ %d/%d", step, total), 0}, {"loss 3.214", 0}, {"lr 9.8e-04", 3}, {"5123 tok/s", 1}, {"mem 212 MiB", 2}}
		line := frame(step, total, fields, columns)
		require.LessOrEqual(t, len([]rune(line)), columns)
		require.NotContains(t, line, "\n")
		require.NotContains(t, line, "\r")
	})
}

func TestFrameDropsFields(t *testing.T) {
	fields := []field{{"step 1/4", 0}, {"loss 3.214", 0}, {"lr 9.8e-04", 3}, {"5123 tok/s", 1}, {"mem 212 MiB", 2}}
	require.Equal(t, "  25% |██      |  step 1/4  loss 3.214  5123 tok/s", frame(1, 4, fields, 50))
	require.Equal(t, "  25% |██      |  step 1/4  loss 3.214", frame(1, 4, fields, 38))
	require.Equal(t, "step 1/4  loss 3.214", frame(1, 4, fields, 37))
	require.Equal(t, "step 1/4  l", frame(1, 4, fields, 11))
	require.Equal(t, " 100% |████████|  step 1/4  loss 3.214", frame(5, 4, fields, 38))
}

func TestLogger(t *testing.T) {
	var buf bytes.Buffer
	p, _ := reporter(&buf, Options{Total: 2, ForceTTY: true})
	logger := slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	p.Update(State{Step: 1})
	logger.Info("checkpoint", "path", "a.ckpt")
	lines := screen(buf.String())
	require.Equal(t, "level=INFO msg=checkpoint path=a.ckpt", lines[0])
	require.Contains(t, lines[1], "step 1/2")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe is closed") }

func TestWriterErrors(t *testing.T) {
	p := New(brokenWriter{}, Options{Total: 1})
	p.Update(State{Step: 1})
	_, err := p.Write([]byte("x\n"))
	require.ErrorContains(t, err, "pipe is closed")
	require.EqualError(t, p.Close(), "showing progress: pipe is closed")
}

// The rate follows a change of speed within its span, the ETA hardly moves.
func TestRateSlidesAndETAIsStable(t *testing.T) {
	var buf bytes.Buffer
	p, clock := reporter(&buf, Options{Total: 1000})
	step := 0
	work := func(steps int, each time.Duration) {
		for i := 0; i < steps; i++ {
			clock.advance(each)
			step++
			p.Update(State{Step: step, Tokens: int64(step) * 100})
		}
	}
	work(200, time.Second)
	require.InDelta(t, 100, p.tokens.rate(), 1e-9)
	eta, ok := p.eta()
	require.True(t, ok)
	require.Equal(t, 800*time.Second, eta)

	work(10, 2*time.Second) // 20 s at half the speed
	require.InDelta(t, 50, p.tokens.rate(), 1e-9)
	eta, _ = p.eta()
	require.InDelta(t, 790*220/210., eta.Seconds(), 1)

	clock.advance(10 * time.Second) // a pause for validation
	work(1, time.Second)
	after, _ := p.eta()
	require.InEpsilon(t, eta.Seconds(), after.Seconds(), 0.06)
}

func TestWindowStaysSmallAndAgreesWithAllSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := window{span: 10 * time.Second}
		at := time.Unix(0, 0)
		all := []sample{{at, 0}}
		w.add(at, 0)
		amount := 0.0
		for i := rapid.IntRange(1, 2000).Draw(t, "n"); i > 0; i-- {
			at = at.Add(time.Duration(1 + i*7919%40*1e6))
			amount += float64(i % 13)
			all = append(all, sample{at, amount})
			w.add(at, amount)
		}
		require.LessOrEqual(t, len(w.samples), 2*resolution)

		// The rate over exactly the span, by a search over everything.
		first := all[0]
		for _, s := range all {
			if at.Sub(s.at) >= w.span {
				first = s
			}
		}
		want := (amount - first.amount) / at.Sub(first.at).Seconds()
		require.InEpsilon(t, want+1, w.rate()+1, 0.05)
	})
}

func TestWindowStartsAnew(t *testing.T) {
	w := window{span: time.Minute}
	at := time.Unix(0, 0)
	require.Zero(t, w.rate())
	w.add(at, 100)
	w.add(at, 200)
	require.Zero(t, w.rate(), "no time has passed")
	w.add(at.Add(time.Second), 5)
	require.Zero(t, w.rate())
	w.add(at.Add(2*time.Second), 15)
	require.InDelta(t, 10, w.rate(), 1e-9)
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59400 * time.Millisecond: "59s", 59600 * time.Millisecond: "1m00s",
		3599 * time.Second: "59m59s", time.Hour + 7*time.Minute: "1h07m", 76 * time.Hour: "3d04h",
	} {
		require.Equal(t, want, formatDuration(d))
	}
	for n, want := range map[uint64]string{0: "0 MiB", 212 << 20: "212 MiB", 9 << 30: "9216 MiB", 12<<30 + 512<<20: "12.5 GiB"} {
		require.Equal(t, want, formatBytes(n))
	}
	for loss, want := range map[float64]string{3.2144: "3.214", 12345: "1.23e+04", 0.00123: "0.00123", 0: "0.000", math.Inf(1): "+Inf"} {
		require.Equal(t, want, formatLoss(loss))
	}
}

func TestGoroutines(t *testing.T) {
	var buf bytes.Buffer
	p := New(&buf, Options{Total: 100, ForceTTY: true})
	var wg sync.WaitGroup
	for g := 0; g < 4; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 1; i <= 100; i++ {
				p.Update(State{Step: i})
				p.Printf("line")
			}
		}()
	}
	wg.Wait()
	require.NoError(t, p.Close())
	lines := screen(buf.String())
	require.Len(t, lines, 402)
	for _, line := range lines[:400] {
		require.Equal(t, "line", line)
	}
}
