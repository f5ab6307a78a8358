package progress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// live returns a line on a terminal of a width.
func live(buf *bytes.Buffer, total int64, width int) *Line {
	return after(50*time.Millisecond, newLine(buf, Options{Total: total, Unit: "tok"}, func() int { return width }))
}

// plain returns a line outside a terminal.
func plain(w io.Writer, o Options) *Line { return after(50*time.Millisecond, New(w, o)) }

// after stops the clock of a line at a time after its start.
func after(d time.Duration, p *Line) *Line {
	p.now = func() time.Time { return p.began.Add(d) }
	return p
}

// screen interprets output as a terminal of unlimited width would: carriage returns, line feeds and erasing to
// the end of a line.
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
		r, size := utf8.DecodeRuneInString(output)
		output = output[size:]
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
	p := after(400*time.Millisecond, New(&buf, Options{Total: 4000, Unit: "tok"}))
	for step := int64(1); step <= 40; step++ {
		p.Update(100*step, fmt.Sprintf("step %d/40  loss 3.5", step), "lr 1.0e-03")
	}
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	lines := strings.Split(buf.String(), "\n")
	require.Len(t, lines, 2, "the last, and none of 0 seconds")
	require.Regexp(t, `^step 40/40  loss 3\.5  peak RSS \d+ MiB  lr 1\.0e-03 100%  \(\d+ tok/s\) \[0s\]$`, lines[0])
	require.Empty(t, lines[1])

	p.Update(4001, "too much")
	p.Printf("after %s", "the end")
	require.True(t, strings.HasSuffix(buf.String(), "[0s]\nafter the end\n"))
}

func TestPlainLinesFollowTheInterval(t *testing.T) {
	var buf bytes.Buffer
	p := New(&buf, Options{Total: 1000, Unit: "tok"})
	p.interval = 20 * time.Millisecond
	begun := time.Now()
	for done := int64(1); strings.Count(buf.String(), "\n") < 3; done++ {
		p.Update(done, "")
		time.Sleep(time.Millisecond)
	}
	require.GreaterOrEqual(t, time.Since(begun), 2*p.interval)
}

func TestSilentAndInterrupted(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, New(&buf, Options{Total: 10, Unit: "tok"}).Close())
	require.NoError(t, New(&buf, Options{Total: 0, Unit: "tok"}).Close())
	require.Empty(t, buf.String(), "no Update, no line")

	p := plain(&buf, Options{Total: 10, Unit: "tok"})
	p.interval = 0
	p.Update(5, "step 1")
	p.interval = time.Hour
	p.Update(6, "step 2")
	require.NoError(t, p.Close())
	require.Regexp(t, `^step 1  RSS \d+ MiB  50%  .*\nstep 2  peak RSS \d+ MiB  60%  .*\n$`, buf.String())
}

// Brief work that ends before a plain line is due has none; on a terminal it has a bar.
func TestBrief(t *testing.T) {
	var buf bytes.Buffer
	p := plain(&buf, Options{Total: 10, Unit: "B", Brief: true})
	p.Update(5, "reading")
	p.Update(10, "reading")
	require.NoError(t, p.Close())
	require.Empty(t, buf.String())

	p = plain(&buf, Options{Total: 10, Unit: "B", Brief: true})
	p.interval = 0
	p.Update(5, "reading")
	p.Update(10, "reading")
	require.NoError(t, p.Close())
	require.Regexp(t, `^reading  RSS .*  50%  .*\nreading  peak RSS .* 100%  .*\n$`, buf.String())

	p = newLine(&buf, Options{Total: 10, Unit: "B", Brief: true}, func() int { return 120 })
	p.Update(10, "reading")
	require.NoError(t, p.Close())
	require.Contains(t, buf.String(), " 100% |██████")
}

// Resumed work starts where it ended; its rate and time left count only the new part.
func TestWorkThatGoesOn(t *testing.T) {
	var buf bytes.Buffer
	p := after(10*time.Second, New(&buf, Options{Total: 112, Done: 87, Unit: "part"}))
	p.Update(107, "step 107/112")
	require.Regexp(t, `^step 107/112  RSS \d+ MiB  95%  \(2 part/s\) \[10s:2s\]\n$`, buf.String())

	buf.Reset()
	p = plain(&buf, Options{Total: 112, Done: 87, Unit: "tok", Rate: func() float64 { return 1600 }})
	p.interval = 0
	p.Update(87, "step 87/112")
	p.Complete()
	p.Printf("ended after step 87 of 112")
	require.NoError(t, p.Close())
	require.Regexp(t, `^step 87/112  RSS \d+ MiB  77%  \(1600 tok/s\) \[0s:\?\]\nstep 87/112  peak RSS \d+ MiB 100%  \(1600 tok/s\) \[0s\]\nended after step 87 of 112\n$`, buf.String())

	buf.Reset()
	p = plain(&buf, Options{Total: 112, Done: 112, Unit: "tok"})
	p.Complete()
	require.NoError(t, p.Close())
	require.Empty(t, buf.String())
}

func TestBytes(t *testing.T) {
	var buf bytes.Buffer
	p := plain(&buf, Options{Total: 3_000_000, Unit: "B"})
	p.interval = 0
	p.Update(1_500_000, "merging")
	require.Regexp(t, `^merging  RSS \d+ MiB  50%  \(1\.5/3\.0 MB, [0-9.]+ .?B/s\) \[0s:0s\]\n$`, buf.String())
}

// The rate and the time left count units.
func TestRate(t *testing.T) {
	var buf bytes.Buffer
	p := plain(&buf, Options{Total: 1_000_000, Unit: "tok"})
	p.interval = 0
	p.Update(1000, "")
	require.Contains(t, buf.String(), "(20000 tok/s) [0s:49s]")
}

func TestLiveLine(t *testing.T) {
	var buf bytes.Buffer
	p := live(&buf, 200, 120)
	p.Update(1, "step 1/200  loss 5.000", "lr 1.0e-04")
	require.Regexp(t, `^   0% \| {30}\| \(\d+ tok/s\) \[0s:\S+s\] step 1/200  loss 5\.000  RSS \d+ MiB  lr 1\.0e-04$`, screen(buf.String())[0])

	before := buf.Len()
	p.Update(2, "step 2/200")
	require.Equal(t, before, buf.Len(), "no frame within 100 ms of the last")

	p.interval = 0
	p.Update(100, "step 100/200  loss 4.000")
	p.Printf("validation loss %.2f", 3.5)
	p.Printf("saved")
	lines := screen(buf.String())
	require.Equal(t, []string{"validation loss 3.50", "saved"}, lines[:2])
	require.Len(t, lines, 3)
	require.Regexp(t, `^  50% \|█{15} {15}\| .* step 100/200  loss 4\.000  RSS \d+ MiB$`, lines[2], "the live line is below")

	require.NoError(t, p.Close())
	lines = screen(buf.String())
	require.Regexp(t, `^  50% .* step 100/200  loss 4\.000  peak RSS \d+ MiB$`, lines[2])
	require.Equal(t, "", lines[3], "what follows begins a line")
	require.Len(t, lines, 4)
}

func TestLiveLineOfCompleteWork(t *testing.T) {
	var buf bytes.Buffer
	p := live(&buf, 10, 80)
	p.Printf("before")
	p.Update(10, "step 1/1")
	p.Printf("after")
	require.NoError(t, p.Close())
	lines := screen(buf.String())
	require.Len(t, lines, 4)
	require.Equal(t, "before", lines[0])
	require.Regexp(t, `^ 100% \|█{6}\| \(\d+ tok/s\) \[0s\] step 1/1  peak RSS \d+ MiB$`, lines[1])
	require.Equal(t, []string{"after", ""}, lines[2:])
}

// No line reaches the last column, where some terminals wrap.
func TestLineFitsAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 200).Draw(t, "columns")
		var buf bytes.Buffer
		p := live(&buf, 1000, columns)
		p.Update(rapid.Int64Range(-1, 1001).Draw(t, "done"), "Schritt µ  loss 3.214", "lr 9.8e-04")
		require.Less(t, len([]rune(screen(buf.String())[0])), columns)
	})
}

func TestFitLeavesFieldsOut(t *testing.T) {
	const line = "  25% |██| step µ  loss 3.214  lr 9.8e-04"
	require.Equal(t, line, fit(line, 41))
	require.Equal(t, "  25% |██| step µ  loss 3.214", fit(line, 40))
	require.Equal(t, "  25% |██| step µ  loss 3.214", fit(line, 31))
	require.Equal(t, "  25% |██| step µ", fit(line, 28))
	require.Equal(t, "  25%", fit(line, 5))
	require.Equal(t, "", fit(line, -1))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe is closed") }

func TestWriterErrors(t *testing.T) {
	p := New(brokenWriter{}, Options{Total: 1, Unit: "tok"})
	p.Update(1, "")
	require.EqualError(t, p.Close(), "showing progress: pipe is closed")
}

func TestGoroutines(t *testing.T) {
	var buf bytes.Buffer
	p := live(&buf, 1000, 100)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range int64(100) {
				p.Update(i, "")
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
