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

// RunScripts is testscript.Run, whose scripts have an environment of their own, with the settings of the race detector and
// of Vulkan, and the commands advice, again, serve and close-losses. When all have ended, it holds what the programs printed to what is demanded of
// every message, and that each program and flag that they advise was run as advised.
func RunScripts(t *testing.T, p testscript.Params) {
	s := &scripts{printed: map[string]string{}, ran: map[string]bool{}, titles: map[string]bool{}}
	prepare := p.Setup
	p.Setup = func(e *testscript.Env) error {
		for _, name := range []string{"GORACE", StockRun, "GGML_VK_VISIBLE_DEVICES", "MESA_SHADER_CACHE_DIR", "VK_DRIVER_FILES"} {
			if value, ok := os.LookupEnv(name); ok {
				e.Setenv(name, value)
			}
		}
		if prepare == nil {
			return nil
		}
		return prepare(e)
	}
	commands := map[string]func(*testscript.TestScript, bool, []string){"advice": s.advice, "again": again, "serve": serve, "close-losses": closeLosses}
	maps.Copy(commands, p.Cmds)
	p.Cmds = commands
	if p.Files == nil && !strings.Contains(testRun(), "/") { // some scripts alone do not run all
		t.Cleanup(func() { s.check(t) })
	}
	testscript.RunT(logged{t, s}, p)
}

// scripts records what several scripts have printed and run.
type scripts struct {
	mu      sync.Mutex
	printed map[string]string // command lines that programs advise, by their parts
	ran     map[string]bool   // parts of those that were run
	titles  map[string]bool   // what these are for
}

// logged is a test whose scripts are logged in full, for [scripts] to read.
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

// read takes what programs have printed from the log of a script.
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

// check demands that all advice that the program can give was given, and run.
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
