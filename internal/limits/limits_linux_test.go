package limits

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A process in a control group with a quota computes on that many processors, regardless of Go's
// GOMAXPROCS.
func TestQuotaOfSystem(t *testing.T) {
	const child = "GOGGML_TEST_PROCESSORS"
	if os.Getenv(child) != "" {
		fmt.Println("processors:", Processors(), Cores(), Machine())
		return
	}
	folder := makeGroup(t)
	for _, c := range []struct{ percent, want int }{{50, 1}, {100, 1}, {150, 2}, {200, 2}, {350, 4}} {
		quota, version2 := strconv.Itoa(c.percent*1000), filepath.Join(folder, "cpu.max")
		if _, err := os.Stat(version2); err == nil {
			require.NoError(t, os.WriteFile(version2, []byte(quota+" 100000"), 0o644))
		} else {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "cpu.cfs_quota_us"), []byte(quota), 0o644))
		}
		want := fmt.Sprintln("processors:", min(Processors(), c.want), min(Cores(), c.want), min(Machine(), c.want))
		for _, follows := range []string{"0", "1"} { // as Go does for a go.mod that says 1.24, and 1.25
			command := exec.Command("sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(folder, "cgroup.procs"), os.Args[0], "-test.run=^TestQuotaOfSystem$")
			command.Env = append(os.Environ(), child+"=1", "GODEBUG=containermaxprocs="+follows)
			out := need.Output(t, command)
			require.Contains(t, out, want, "a quota of %d %%", c.percent)
		}
	}
}

// makeGroup makes a control group inside the process's own, with a quota that can be set.
func makeGroup(t *testing.T) string {
	for _, g := range groups(system, "cpu") {
		folder := filepath.Join("/", g.folder, "goggml-quota-"+strconv.Itoa(os.Getpid()))
		if !strings.HasPrefix(folder, "/sys/") || os.Mkdir(folder, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(folder) })
		for _, file := range []string{"cpu.max", "cpu.cfs_quota_us"} {
			if f, err := os.OpenFile(filepath.Join(folder, file), os.O_WRONLY, 0); err == nil {
				f.Close()
				t.Logf("limited by %s", filepath.Join(folder, file))
				return folder
			}
		}
	}
	t.Skip("no control group can be made here")
	return ""
}
