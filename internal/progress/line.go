package progress

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
)

const (
	gap        = "  "
	eraseToEnd = "\x1b[K"
)

// field is a part of a line. Where there is no room for all, those with the
// highest drop go first; those with 0 stay.
type field struct {
	text string
	drop int
}

// fields are what a line in the middle of the work shows.
func (r *Reporter) fields() []field {
	fields := r.position()
	if rate := r.currentRate(); rate != "" {
		fields = append(fields, field{rate, 1})
	}
	if eta, ok := r.eta(); ok {
		fields = append(fields, field{"ETA " + formatDuration(eta), 0})
	}
	rss, peak := r.opt.memory()
	if rss == 0 {
		rss = peak // all that some systems tell
	}
	if rss > 0 {
		fields = append(fields, field{"mem " + formatBytes(rss), 2})
	}
	return fields
}

// summary is what the last line shows.
func (r *Reporter) summary() []field {
	fields := r.position()
	elapsed := r.opt.now().Sub(r.begun)
	if rate := r.formatRate(float64(r.state.Tokens)/elapsed.Seconds(), float64(r.state.Step-r.opt.Start)/elapsed.Seconds()); rate != "" {
		fields = append(fields, field{text: rate})
	}
	fields = append(fields, field{text: "in " + formatDuration(elapsed)})
	if _, peak := r.opt.memory(); peak > 0 {
		fields = append(fields, field{text: "peak mem " + formatBytes(peak)})
	}
	return fields
}

// position is the step with what was measured there.
func (r *Reporter) position() []field {
	step := fmt.Sprintf("%s %d", r.opt.Label, r.state.Step)
	if r.opt.Total > 0 {
		step += fmt.Sprintf("/%d", r.opt.Total)
	}
	fields := []field{{step, 0}}
	if r.sawLoss {
		fields = append(fields, field{"loss " + formatLoss(r.state.Loss), 0})
	}
	if r.sawLR {
		fields = append(fields, field{fmt.Sprintf("lr %.1e", r.state.LR), 3})
	}
	return fields
}

func (r *Reporter) currentRate() string {
	return r.formatRate(r.tokens.rate(), r.steps.rate())
}

// formatRate shows one of two rates per second, or nothing if it is not known.
func (r *Reporter) formatRate(tokens, steps float64) string {
	rate, unit := steps, r.opt.Label
	if r.sawTokens {
		rate, unit = tokens, r.opt.Unit
	}
	digits := 0
	switch {
	case !(rate > 0) || math.IsInf(rate, 0):
		return ""
	case rate < 10:
		digits = 2
	case rate < 100:
		digits = 1
	}
	return fmt.Sprintf("%.*f %s/s", digits, rate, unit)
}

// eta is the time left, not known before the first step is done.
func (r *Reporter) eta() (time.Duration, bool) {
	rate := r.longSteps.rate()
	left := float64(r.opt.Total - r.state.Step)
	if r.opt.Total <= 0 || !(rate > 0) {
		return 0, false
	}
	seconds := max(left, 0) / rate
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(seconds, century) * float64(time.Second)), true
}

func formatLoss(loss float64) string {
	if math.Abs(loss) >= 1000 || loss != 0 && math.Abs(loss) < 0.01 {
		return fmt.Sprintf("%.3g", loss)
	}
	return fmt.Sprintf("%.3f", loss)
}

// formatDuration shows two units at most: a digit that jumps tells nothing.
func formatDuration(d time.Duration) string {
	s := int64(d.Round(time.Second).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 24*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

func formatBytes(n uint64) string {
	const mib = 1 << 20
	if n < 10*1024*mib {
		return fmt.Sprintf("%d MiB", (n+mib/2)/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1024*mib))
}

func texts(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.text
	}
	return out
}

const (
	minBar  = 8
	maxBar  = 30
	barEdge = 10 // columns of the bar's percentage, edges and spaces
)

// frame is the live line, at most columns wide: the bar, then the fields. In a
// narrow window the less important fields go, then the bar.
func frame(step, total int, fields []field, columns int) string {
	for total > 0 {
		text := strings.Join(texts(fields), gap)
		if room := columns - barEdge - utf8.RuneCountInString(text); room >= minBar {
			return bar(min(step, total), total, min(room, maxBar), text)
		}
		fewer := dropField(fields)
		if len(fewer) == len(fields) {
			break
		}
		fields = fewer
	}
	text := []rune(strings.Join(texts(fields), gap))
	return string(text[:max(0, min(len(text), columns))])
}

// dropField removes the field that can be missed most easily, if any.
func dropField(fields []field) []field {
	worst := 0
	for i, f := range fields {
		if f.drop > fields[worst].drop {
			worst = i
		}
	}
	if fields[worst].drop == 0 {
		return fields
	}
	return append(append([]field(nil), fields[:worst]...), fields[worst+1:]...)
}

// bar renders a percentage, a bar of the given width and a text.
func bar(step, total, width int, text string) string {
	b := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(io.Discard),
		progressbar.OptionSetWidth(width),
		progressbar.OptionSetDescription(text),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), // our own does not jump
	)
	// Neither can fail: the writer does not, and step is at most total.
	_ = b.Set(max(step, 0))
	_ = b.RenderBlank() // Set renders whole percents only
	return strings.TrimRight(strings.TrimLeft(b.String(), "\r"), " ")
}
