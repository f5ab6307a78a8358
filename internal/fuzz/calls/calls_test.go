//go:build linux && cgo

package calls

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

var (
	calls = flag.Int("calls", 0, "how many calls to make; 0 for some thousand")
	seed  = flag.Uint64("seed", 0, "the seed of them; 0 derives it from the commit, so that each tries others")
	keep  = flag.String("keep", "", "of one round, the numbers of the calls to make, with commas between")
	only  = flag.String("only", "", "call only what has this in its name")
	hang  = flag.Duration("hang", 5*time.Second, "how long a call may take")
)

func TestMain(m *testing.M) {
	text := os.Getenv(workerVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := work(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// No call of an exported function or method ends the process, panics unless documented, blocks forever, or
// leaves something open.
func TestCalls(t *testing.T) { try(t, 3000, 1) }

// The same holds for objects that several goroutines share and close concurrently. The race detector finds
// more.
func TestConcurrentCalls(t *testing.T) { try(t, 1200, 4) }

func try(t *testing.T, usual, goroutines int) {
	p := plan{Seed: *seed, To: usual, Goroutines: goroutines, Only: *only, Hang: *hang}
	if p.Seed == 0 {
		p.Seed = testutil.CommitSeed(t)
	}
	if *calls != 0 {
		p.To = *calls
	}
	if raceDetector {
		p.Hang *= 6
	}
	if *keep != "" {
		for text := range strings.SplitSeq(*keep, ",") {
			i, err := strconv.Atoi(text)
			require.NoError(t, err, "-keep")
			p.Keep = append(p.Keep, i)
		}
		p.From = p.Keep[0] / perRound * perRound
		p.To = p.From + perRound
	}
	t.Logf("seed %d", p.Seed)
	for _, f := range p.campaign(t.Logf) {
		if p.Keep == nil {
			f = f.shrunk()
		}
		t.Errorf("%v", f)
	}
}

// differing returns the lines of only one of two texts: "+" of the first, "-" of the second.
func differing(want, got string) (list []string) {
	for _, side := range []struct{ sign, text, other string }{{"+", want, got}, {"-", got, want}} {
		counts := map[string]int{}
		for line := range strings.Lines(side.other) {
			counts[line]++
		}
		for line := range strings.Lines(side.text) {
			if counts[line]--; counts[line] < 0 {
				list = append(list, side.sign+line)
			}
		}
	}
	if list == nil && want != got {
		list = []string{"the order of the lines"}
	}
	return list
}

// A difference is shown by its lines, and not by the whole files.
func TestDiffering(t *testing.T) {
	require.Empty(t, differing("a\nb\n", "a\nb\n"))
	require.Equal(t, []string{"+b\n", "-c\n", "-a\n"}, differing("a\nb\n", "a\nc\na\n"))
	require.Equal(t, []string{"the order of the lines"}, differing("a\nb\n", "b\na\n"))
}

// The registries are up to date with the sources.
func TestRegistry(t *testing.T) {
	for file, want := range Registries("../../..") {
		got := need.Value(os.ReadFile(file))(t)
		require.Empty(t, differing(string(want), string(got)), "%s: go generate ./internal/fuzz/calls writes it anew", file)
	}
	require.Greater(t, len(public.types), 100)
	require.NotEmpty(t, public.alone)
}

// The prologue creates every kind of object of package llm.
func TestPrologue(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &caller{pool: newPool(&public)}
	c.prologue(rand.New(rand.NewPCG(1, 1)))
	defer closeAll(c.pool, 0, 0, 0)
	var missing []string
	for _, kind := range public.types {
		if isPlain(kind) || !strings.Contains(kind.PkgPath(), "/llm/") {
			continue
		}
		if len(c.pool.entries[reflect.PointerTo(kind)])+len(c.pool.entries[kind]) == 0 {
			missing = append(missing, kind.String())
		}
	}
	require.Equal(t, []string{"arch.Place"}, missing, "which the parts of a layer are given")
}
