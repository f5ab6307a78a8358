// Package progress shows how far long work has come: a live line with a bar on
// a terminal, plain lines at an interval anywhere else.
//
//	p := progress.New(os.Stderr, progress.Options{Total: steps})
//	defer p.Close()
//	for step := 1; step <= steps; step++ {
//		...
//		p.Update(progress.State{Step: step, Tokens: tokens, Loss: loss, LR: lr})
//	}
//
// It also reports the memory of the process and of the machine.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	defaultInterval = 5 * time.Second
	frameInterval   = 100 * time.Millisecond // of the live line
	rateSpan        = 15 * time.Second       // the rate shows the present
	etaSpan         = 5 * time.Minute        // the ETA evens out validation and other pauses
)

// Options describe the work. The zero value counts steps without a known end.
type Options struct {
	Total    int           // step at which the work is done; 0 if unknown, then there is no bar and no ETA
	Start    int           // step from which a resumed run goes on
	Label    string        // what a step is called; "step" if empty
	Unit     string        // what State.Tokens counts; "tok" if empty
	Interval time.Duration // between plain lines; 5 s if zero
	ForceTTY bool          // live line even if the writer is no terminal
	Plain    bool          // plain lines even if the writer is a terminal

	now     func() time.Time
	memory  func() (rss, peak uint64)
	columns func() int
}

// State is how far the work has come.
type State struct {
	Step   int
	Tokens int64   // processed since New; without any, the rate is in steps
	Loss   float64 // shown as soon as it is not zero, NaN included
	LR     float64 // learning rate, likewise
}

// Reporter shows progress. All its methods may be called by several
// goroutines at a time.
type Reporter struct {
	mu   sync.Mutex
	w    io.Writer
	opt  Options
	live bool
	err  error // the first of the writer's

	state          State
	begun          time.Time
	tokens, steps  window // tokens over rateSpan, steps over rateSpan
	longSteps      window // steps over etaSpan
	updated        bool   // there is a state to show
	drawn          bool   // the live line is on the screen
	closed         bool
	nextLine       time.Time
	sawLoss, sawLR bool
	sawTokens      bool
}

// New starts the clock of the work that opt describes and returns its
// reporter, which writes to w. It shows a live line if w is a terminal that can
// move its cursor. Nothing is written before the first Update.
func New(w io.Writer, opt Options) *Reporter {
	if opt.Label == "" {
		opt.Label = "step"
	}
	if opt.Unit == "" {
		opt.Unit = "tok"
	}
	if opt.Interval <= 0 {
		opt.Interval = defaultInterval
	}
	if opt.now == nil {
		opt.now = time.Now
	}
	if opt.memory == nil {
		opt.memory = func() (uint64, uint64) { return RSS(), PeakRSS() }
	}
	if opt.columns == nil {
		opt.columns = func() int { return columnsOf(w) }
	}
	r := &Reporter{
		w: w, opt: opt,
		live:      !opt.Plain && (opt.ForceTTY || isTerminal(w)),
		begun:     opt.now(),
		state:     State{Step: opt.Start},
		tokens:    window{span: rateSpan},
		steps:     window{span: rateSpan},
		longSteps: window{span: etaSpan},
	}
	r.measure(r.begun)
	return r
}

// Update notes the state of the work, and shows it if it is time to. It is
// cheap enough to be called for each step or token.
func (r *Reporter) Update(s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	now := r.opt.now()
	first := !r.updated
	r.updated = true
	r.state = s
	r.sawLoss = r.sawLoss || s.Loss != 0
	r.sawLR = r.sawLR || s.LR != 0
	r.sawTokens = r.sawTokens || s.Tokens != 0
	r.measure(now)

	done := r.opt.Total > 0 && s.Step >= r.opt.Total
	switch {
	case r.live && (first || done || !now.Before(r.nextLine)):
		r.nextLine = now.Add(frameInterval)
		r.draw()
	case !r.live && !done && (first || !now.Before(r.nextLine)): // Close writes the last line
		r.nextLine = now.Add(r.opt.Interval)
		r.write(strings.Join(texts(r.fields()), gap) + "\n")
	}
}

// Printf writes a line of its own above the live line. A missing newline at
// the end is added.
func (r *Reporter) Printf(format string, args ...any) {
	fmt.Fprintf(r, format, args...)
}

// Write is Printf for whole lines that are formatted already, so that a
// reporter can be the output of a logger.
func (r *Reporter) Write(lines []byte) (int, error) {
	if len(lines) == 0 {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.erase()
	text := string(lines)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	r.write(text)
	if r.live && r.updated && !r.closed {
		r.draw()
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(lines), nil
}

// Close writes the last line, with the mean rate, the time taken and the peak
// of memory, if there was any Update. It returns the first error of the
// writer. Calling it again does nothing.
func (r *Reporter) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	r.closed = true
	if r.updated {
		r.erase()
		r.write(strings.Join(texts(r.summary()), gap) + "\n")
	}
	return r.err
}

func (r *Reporter) measure(now time.Time) {
	r.tokens.add(now, float64(r.state.Tokens))
	r.steps.add(now, float64(r.state.Step))
	r.longSteps.add(now, float64(r.state.Step))
}

// draw replaces the live line.
func (r *Reporter) draw() {
	r.write("\r" + frame(r.state.Step, r.opt.Total, r.fields(), r.opt.columns()-1) + eraseToEnd)
	r.drawn = true
}

func (r *Reporter) erase() {
	if r.drawn {
		r.write("\r" + eraseToEnd)
		r.drawn = false
	}
}

func (r *Reporter) write(text string) {
	if _, err := io.WriteString(r.w, text); err != nil && r.err == nil {
		r.err = fmt.Errorf("showing progress: %w", err)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// columnsOf asks for the width at each frame, because a window may be resized.
func columnsOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}
