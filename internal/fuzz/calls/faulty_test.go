//go:build linux && cgo

package calls

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Each fault is found, and reduced to the calls that it needs.
func TestFindsFaults(t *testing.T) {
	need.Time(t, "takes a second for each attempt of a call that does not end")
	for _, c := range []struct {
		name, only string
		goroutines int
		finding    string // "" for none
		calls      []string
	}{
		{"a panic", "faulty.Row", 1, "panic: faulty.Row", []string{"faulty.Row"}},
		{"a documented panic", "faulty.At", 1, "", nil},
		{"a lock left", "Box", 1, "hang: faulty.Box.Len", []string{"faulty.NewBox", "faulty.Box.Do", "faulty.Box.Len"}},
		{"a panic of a callback", "faulty.Each", 1, "the process died: panic: ", []string{"faulty.Each"}},
		{"a hang", "faulty.Count", 1, "hang: faulty.Count", []string{"faulty.Count"}},
		{"an object left", "faulty.Open", 1, "objects left open", []string{"faulty.Open"}},
		{"a goroutine left", "faulty.Watch", 1, "goroutines left", []string{"faulty.Watch"}},
		{"a data race", "Counter", 4, "data race: ", []string{"faulty.NewCounter", "faulty.Counter.Add", "faulty.Counter.Add"}},
		{"what goroutines may not share", "Cursor", 4, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			if c.goroutines > 1 && !raceDetector {
				t.Skip("needs the race detector")
			}
			p := plan{Faulty: true, Seed: 1, To: 2 * perRound, Goroutines: c.goroutines, Only: c.only, Hang: time.Second / 2}
			failures := p.campaign(t.Logf)
			if c.finding == "" {
				require.Empty(t, failures)
				return
			}
			i := slices.IndexFunc(failures, func(f failure) bool { return strings.HasPrefix(f.finding.String(), c.finding) })
			require.GreaterOrEqual(t, i, 0, "%v", failures)
			f := failures[i].shrunk()
			t.Log(f)
			var names []string
			for _, i := range f.calls {
				names = append(names, regexp.MustCompile(`^[^(]+`).FindString(f.texts[i]))
			}
			require.Equal(t, c.calls, names)
		})
	}
}

func TestMinimal(t *testing.T) {
	list := make([]int, 300)
	for i := range list {
		list[i] = i
	}
	needed := []int{3, 17, 150, 299}
	attempts := 0
	got := minimal(list, func(part []int) []int {
		attempts++
		for _, n := range needed {
			if !slices.Contains(part, n) {
				return nil
			}
		}
		return part
	})
	require.Equal(t, needed, got)
	require.Less(t, attempts, 120)
}
