//go:build linux && cgo

package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goggml/ggml/internal/test/testutil"
)

// A failure is a finding with the calls of its round up to it.
type failure struct {
	finding
	plan  plan // of the round
	calls []int
	texts map[int]string
}

// campaign runs a plan in subprocesses. If a process dies, the next one continues with the following round. Of
// several findings of one fault it returns the first.
func (p plan) campaign(log func(format string, args ...any)) (failures []failure) {
	const enough = 10
	for p.From < p.To && len(failures) < enough {
		found, next := p.subprocess()
		for _, f := range found {
			if !slices.ContainsFunc(failures, func(g failure) bool { return g.isLike(&f.finding) }) {
				log("%v: %v", f.plan, &f.finding)
				failures = append(failures, f)
			}
		}
		p.From = next
	}
	return failures
}

// silence is how long a subprocess may print nothing, including at its start.
const silence = 5 * time.Minute

// subprocess runs a plan in a subprocess, and returns its findings and the round to continue with.
func (p plan) subprocess() (found []failure, next int) {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	folder, err := os.MkdirTemp("", "calls")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	cmd := testutil.Command(os.Args[0])
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text), "OMP_WAIT_POLICY=passive",
		"GORACE=halt_on_error=1 atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	watch := time.AfterFunc(silence, func() { cmd.Process.Signal(syscall.SIGQUIT) })
	defer watch.Stop()
	round := failure{plan: p}
	fail := func(f finding) {
		r := round
		r.finding, r.calls = f, slices.Clone(r.calls)
		slices.Sort(r.calls)
		found = append(found, r)
	}
	next = p.From
	for d := json.NewDecoder(out); ; watch.Reset(silence) {
		var e event
		if d.Decode(&e) != nil {
			break
		}
		switch {
		case e.Round != nil:
			one := p
			one.From, one.To = *e.Round, min(*e.Round+perRound, p.To)
			round = failure{plan: one, texts: map[int]string{}}
			next = one.To
		case e.Finding != nil:
			fail(*e.Finding)
		default:
			round.calls = append(round.calls, e.Call)
			round.texts[e.Call] = e.Text
		}
	}
	if err := cmd.Wait(); err != nil {
		fail(death(err, errs.String()))
		next = max(next, p.From+perRound)
	}
	return found, next
}

var (
	lastWords = regexp.MustCompile(`(?m)^(panic: |fatal error: |SIG[A-Z]+|.*GGML_ASSERT|terminate called).*`)
	raceStack = regexp.MustCompile(`(?m)^(?:Previous )?(?:[Rr]ead|[Ww]rite|[Aa]tomic \w+) at .*\n  (\S+)\(`)
	digits    = regexp.MustCompile(`(0x)?[0-9a-f]*[0-9][0-9a-f]*`)
)

// death describes how a process ended, from its output.
func death(err error, text string) finding {
	detail := text[:min(len(text), 8000)]
	if strings.Contains(text, "WARNING: DATA RACE") {
		var where []string
		for _, m := range raceStack.FindAllStringSubmatch(text, 2) {
			where = append(where, m[1])
		}
		slices.Sort(where)
		return finding{Kind: "data race", Where: strings.Join(where, " and "), Detail: detail}
	}
	last := lastWords.FindString(text)
	return finding{Kind: "the process died", Where: digits.ReplaceAllString(last, "N"), What: err.Error(), Detail: last + "\n" + detail}
}

func (p plan) String() string {
	text := fmt.Sprintf("seed %d, calls %d to %d", p.Seed, p.From, p.To-1)
	if p.Goroutines > 1 {
		text += fmt.Sprintf(" of %d goroutines", p.Goroutines)
	}
	return text
}
