// Package progress shows how far long work has come: on a terminal a live line
// with a bar, elsewhere a plain line every few seconds. Bar, rate, the time
// taken and the time left are those of package progressbar.
//
//	p := progress.New(os.Stderr, steps*tokensPerStep, "tok")
//	defer p.Close()
//	for step := range steps {
//		...
//		p.Update((step+1)*tokensPerStep, fmt.Sprintf("step %d  loss %.3f", step+1, loss))
//	}
package progress

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/goggml/ggml/internal/rss"
)

const (
	liveInterval  = 100 * time.Millisecond
	plainInterval = 5 * time.Second
	eraseToEnd    = "\x1b[K"
)

// A Line shows the progress of some work. Several goroutines may use it.
type Line struct {
	mu       sync.Mutex
	w        io.Writer
	columns  func() int // width of the terminal; nil where lines are plain
	interval time.Duration
	bar      *progressbar.ProgressBar

	done    int64    // as of the last Update
	fields  []string // as of the last Update
	shown   time.Time
	updated bool
	ended   bool
	err     error // the first of the writer's
}

// New starts the clock of work that is done at a total of a unit: "B" for
// bytes, or any other word. Nothing is written before the first Update.
func New(w io.Writer, total int64, unit string) *Line {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return newLine(w, total, unit, nil)
	}
	return newLine(w, total, unit, func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return 80
		}
		return columns
	})
}

func newLine(w io.Writer, total int64, unit string, columns func() int) *Line {
	l := &Line{w: w, columns: columns, interval: plainInterval}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(io.Discard), // a frame is what String returns
		progressbar.OptionShowElapsedTimeOnFinish(),
	}
	if unit == "B" {
		options = append(options, progressbar.OptionShowCount(), progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit))
	}
	if columns == nil {
		options = append(options, progressbar.OptionSetWidth(0), progressbar.OptionSetTheme(progressbar.Theme{}))
	} else {
		l.interval = liveInterval
		const text = 90 // columns of all but the bar
		options = append(options, progressbar.OptionSetWidth(min(max(columns()-text, 6), 30)), progressbar.OptionShowDescriptionAtLineEnd())
	}
	l.bar = progressbar.NewOptions64(max(total, 1), options...)
	l.bar.StartWithoutRender()
	return l
}

// Update notes how much is done, and shows it if it is time to, with the text,
// the memory of the process, and more that a narrow window can do without. It is
// cheap enough to be called for each step.
func (l *Line) Update(done int64, text string, more ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.fields, l.updated = done, append([]string{text, ""}, more...), true
	if complete := done >= l.bar.GetMax64(); complete || time.Since(l.shown) >= l.interval {
		l.show(complete)
	}
}

// Printf writes a line of its own, above the live one.
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

// Close ends the live line of work that was not completed. It returns the first
// error of the writer.
func (l *Line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.updated {
		l.show(true)
	}
	return l.err
}

// show writes a frame of the live line, or a plain line. The last has the peak
// of memory.
func (l *Line) show(last bool) {
	if l.ended {
		return
	}
	l.shown, l.ended = time.Now(), last
	l.fields[1] = fmt.Sprintf("mem %d MiB", cmp.Or(rss.Now(), rss.Peak())>>20) // macOS tells the peak only
	if last {
		l.fields[1] = fmt.Sprintf("peak mem %d MiB", rss.Peak()>>20)
	}
	l.bar.Describe(strings.Join(l.fields, "  "))
	_ = l.bar.Set64(min(l.done, l.bar.GetMax64())) // fails beyond the total only
	frame := strings.TrimRight(strings.TrimLeft(l.bar.String(), "\r"), " ")
	if l.columns != nil {
		frame = "\r" + fit(frame, l.columns()-1) + eraseToEnd
	}
	if l.columns == nil || last {
		frame += "\n"
	}
	l.write(frame)
}

// fit leaves out the last fields of a line that is too long for a window.
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
