// Package progress shows how far long work has come: a live line with a bar on a terminal, otherwise a plain
// line every few seconds.
//
//	p := progress.New(os.Stderr, progress.Options{Total: size, Unit: "B"})
//	defer p.Close()
//	for ... {
//		p.Update(done, fmt.Sprintf("%d examples", n))
//	}
package progress

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/goggml/ggml/internal/rss"
)

const (
	liveInterval  = 100 * time.Millisecond
	plainInterval = 5 * time.Second
	eraseToEnd    = "\x1b[K"
)

// Options describe the work.
type Options struct {
	Total, Done int64  // units of work, and the units done before New
	Unit        string // unit of the rate: "B" for bytes, whose number is shown too, or any other word
	// Rate returns the units done per second; nil stands for the units done since New.
	Rate func() float64
	// Brief work has no final plain line if it had none before: the program reports its end otherwise.
	Brief bool
}

// A Line shows the progress of some work. It is safe for concurrent use.
type Line struct {
	mu       sync.Mutex
	w        io.Writer
	columns  func() int // width of the terminal; nil for plain lines
	interval time.Duration
	o        Options

	done    int64            // as of the last Update
	fields  []string         // as of the last Update
	now     func() time.Time // replaced by tests
	began   time.Time
	shown   time.Time // time of the last frame
	frames  int
	updated bool
	ended   bool
	err     error // first error of the writer
}

// New starts the clock. Nothing is written before the first Update.
func New(w io.Writer, o Options) *Line {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return newLine(w, o, nil)
	}
	return newLine(w, o, func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return 80
		}
		return columns
	})
}

func newLine(w io.Writer, o Options, columns func() int) *Line {
	o.Total = max(o.Total, 1)
	l := &Line{w: w, o: o, columns: columns, interval: plainInterval, now: time.Now, began: time.Now(), done: o.Done}
	l.shown = l.began // avoids a plain line after 0 seconds
	if columns != nil {
		l.interval, l.shown = liveInterval, time.Time{}
	}
	return l
}

// Update records how much is done. When a frame is due, it shows the progress with the text, the memory of the
// process, and more, which a narrow window leaves out. It is cheap enough for each step.
func (l *Line) Update(done int64, text string, more ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.fields, l.updated = min(done, l.o.Total), append([]string{text, ""}, more...), true
	if complete := l.done == l.o.Total; complete || l.now().Sub(l.shown) >= l.interval {
		l.show(complete)
	}
}

// Printf writes a separate line above the live one.
func (l *Line) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf(format, args...) + "\n"
	if l.columns == nil || !l.updated || l.ended {
		l.write(text)
		return
	}
	l.write("\r" + eraseToEnd + text)
	l.show(false)
}

// Complete ends the line: all work is done, whatever Total was.
func (l *Line) Complete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done = l.o.Total; l.updated {
		l.show(true)
	}
}

// Close ends the live line if Complete did not. It returns the first error of the writer.
func (l *Line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.updated {
		l.show(true)
	}
	return l.err
}

// show writes a frame of the live line, or a plain line. The last one has the peak of memory.
func (l *Line) show(last bool) {
	if l.ended {
		return
	}
	l.shown, l.ended = l.now(), last
	if last && l.o.Brief && l.columns == nil && l.frames == 0 {
		return
	}
	l.frames++
	l.fields[1] = "RSS " + mebibytes(cmp.Or(rss.Now(), rss.Peak())) // macOS reports only the peak
	if last {
		l.fields[1] = "peak RSS " + mebibytes(rss.Peak())
	}
	frame := l.frame(last)
	if l.columns != nil {
		frame = "\r" + fit(frame, l.columns()-1) + eraseToEnd
	}
	if l.columns == nil || last {
		frame += "\n"
	}
	l.write(frame)
}

// mebibytes formats the resident set size of the process.
func mebibytes(bytes uint64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// frame returns the text of a line.
func (l *Line) frame(last bool) string {
	fields := strings.Join(l.fields, "  ")
	share := float64(l.done) / float64(l.o.Total)
	percent := int(100 * share)
	if l.columns == nil {
		return fmt.Sprintf("%s %3d%%  (%s) %s", fields, percent, l.rate(), l.times(last))
	}
	const text = 90 // columns without the bar
	width := min(max(l.columns()-text, 6), 30)
	full := int(share * float64(width))
	bar := strings.Repeat("█", full) + strings.Repeat(" ", width-full)
	return fmt.Sprintf("%4d%% |%s| (%s) %s %s", percent, bar, l.rate(), l.times(last), fields)
}

// rate returns the rate, and for bytes also how many are done.
func (l *Line) rate() string {
	rate := float64(l.done-l.o.Done) / max(l.now().Sub(l.began).Seconds(), 1e-9)
	if l.o.Rate != nil {
		rate = l.o.Rate()
	}
	if l.o.Unit != "B" {
		return fmt.Sprintf("%.0f %s/s", rate, l.o.Unit)
	}
	number, unit := scaled(float64(l.o.Total))
	perSecond, rateUnit := scaled(rate)
	return fmt.Sprintf("%.1f/%.1f %s, %.1f %s/s", float64(l.done)*number/float64(l.o.Total), number, unit, perSecond, rateUnit)
}

// scaled returns a number of bytes in a suitable unit, and the unit.
func scaled(bytes float64) (float64, string) {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for ; bytes >= 1000 && i < len(units)-1; i++ {
		bytes /= 1000
	}
	return bytes, units[i]
}

// times returns the time taken and the time left.
func (l *Line) times(last bool) string {
	taken := l.now().Sub(l.began)
	if last {
		return fmt.Sprintf("[%v]", taken.Truncate(time.Second))
	}
	left := "?"
	if done := l.done - l.o.Done; done > 0 {
		seconds := taken.Seconds() * float64(l.o.Total-l.done) / float64(done)
		left = time.Duration(min(seconds, math.MaxInt64/2e9) * 1e9).Truncate(time.Second).String()
	}
	return fmt.Sprintf("[%v:%s]", taken.Truncate(time.Second), left)
}

// fit drops the last fields of a line that is too long for the window.
func fit(line string, columns int) string {
	runes := []rune(line)
	if len(runes) <= columns {
		return line
	}
	line = string(runes[:max(columns, 0)])
	if i := strings.LastIndex(line, "  "); i > 0 {
		return line[:i]
	}
	return line
}

func (l *Line) write(text string) {
	if _, err := io.WriteString(l.w, text); err != nil && l.err == nil {
		l.err = fmt.Errorf("showing progress: %w", err)
	}
}
