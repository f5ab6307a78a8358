package docscheck

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// docs/deploy.md lists the libraries to which a program is linked.
func TestLinkedLibraries(t *testing.T) {
	need.Time(t, "it builds a program")
	program := filepath.Join(t.TempDir(), "simple")
	need.Output(t, exec.Command("go", "build", "-o", program, filepath.Join(root, "examples", "simple")))
	out := need.Output(t, exec.Command("ldd", program))
	page, count := read(t, filepath.Join(root, "docs", "deploy.md")), 0
	for _, m := range regexp.MustCompile(`(?m)^\s*(lib\S+)`).FindAllStringSubmatch(out, -1) {
		count++
		assert.True(t, strings.Contains(page, "`"+m[1]+"`"), "docs/deploy.md does not name %s", m[1])
	}
	require.Greater(t, count, 4, out)
}
