package clitest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/assert"
)

// RunScripts runs testscript.Run. The scripts have an environment of their own, which keeps the settings of the
// race detector, of oneDNN, of OpenBLAS and of Vulkan, and the commands advice, again, serve and close-losses. After
// all scripts it checks every message that the programs printed, and that every program and flag that they
// advised was run.
func RunScripts(t *testing.T, p testscript.Params) {
	s := &scripts{printed: map[string]string{}, ran: map[string]bool{}, titles: map[string]bool{}}
	prepare := p.Setup
	p.Setup = func(e *testscript.Env) error {
		for _, name := range []string{"GORACE", "ONEDNN_MAX_CPU_ISA", StockRun, openBLASTimeout, "GGML_VK_VISIBLE_DEVICES", "MESA_SHADER_CACHE_DIR", "VK_DRIVER_FILES"} {
			if value, ok := os.LookupEnv(name); ok {
				e.Setenv(name, value)
			}
		}
		e.Setenv("OMP_WAIT_POLICY", "passive") // many programs run at a time
		e.Setenv("GOGC", "400")                // programs of a tenth of a second collect garbage for a part of it
		if prepare == nil {
			return nil
		}
		return prepare(e)
	}
	commands := map[string]func(*testscript.TestScript, bool, []string){"advice": s.advice, "again": again, "serve": serve, "close-losses": closeLosses}
	maps.Copy(commands, p.Cmds)
	p.Cmds = commands
	if p.Files == nil && !strings.Contains(testRun(), "/") && !testing.Short() { // a subset of the scripts does not run all advice
		t.Cleanup(func() { s.check(t) })
	}
	testscript.RunT(logged{t, s}, p)
}

// scripts records what all scripts printed and ran.
type scripts struct {
	mu      sync.Mutex
	printed map[string]string // advised command lines, by program and flag
	ran     map[string]bool   // programs and flags that were run
	titles  map[string]bool   // titles of the advice that was run
}

// logged is a test that also records the full logs of its scripts for [scripts].
type logged struct {
	*testing.T
	s *scripts
}

func (l logged) Run(name string, f func(testscript.T)) {
	l.T.Run(name, func(t *testing.T) { f(logged{t, l.s}) })
}

func (logged) Verbose() bool { return true }

func (l logged) Log(args ...any) {
	l.s.read(l.T, fmt.Sprint(args...))
	if testing.Verbose() || l.Failed() {
		l.T.Log(args...)
	}
}

// read collects the output of programs from the log of a script.
func (s *scripts) read(t *testing.T, log string) {
	isOutput, isOurs, text := false, true, strings.Builder{}
	for line := range strings.Lines(log) {
		switch {
		case line == "[stdout]\n" || line == "[stderr]\n":
			isOutput = isOurs
		case strings.HasPrefix(line, "> "):
			isOutput, isOurs = false, !strings.HasPrefix(line, "> advice llama.cpp ")
		case isOutput:
			text.WriteString(line)
			assert.NoError(t, checkMessage(line))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range advised(text.String()) {
		for _, part := range partsOf(a.line) {
			s.printed[part] = a.line
		}
	}
}

// check requires that all advice in the sources was printed and run.
func (s *scripts) check(t *testing.T) {
	titles, err := sourceTitles()
	assert.NoError(t, err)
	for _, title := range titles {
		assert.True(t, s.titles[title], "the program can advise what is for %q, and no script runs it", title)
	}
	for _, part := range slices.Sorted(maps.Keys(s.printed)) {
		assert.True(t, s.ran[part], "a program advises %q, and no script runs a line with %s: give one the command advice after it", s.printed[part], part)
	}
}
