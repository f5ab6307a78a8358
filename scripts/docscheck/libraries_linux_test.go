package docscheck

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/deploy.md lists the libraries to which a program is linked.
func TestLinkedLibraries(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	program := filepath.Join(t.TempDir(), "simple")
	out, err := exec.Command("go", "build", "-o", program, filepath.Join(root, "examples", "simple")).CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command("ldd", program).CombinedOutput()
	require.NoError(t, err, string(out))
	page, count := read(t, filepath.Join(root, "docs", "deploy.md")), 0
	for _, m := range regexp.MustCompile(`(?m)^\s*(lib\S+)`).FindAllStringSubmatch(string(out), -1) {
		count++
		assert.True(t, strings.Contains(page, "`"+m[1]+"`"), "docs/deploy.md does not name %s", m[1])
	}
	require.Greater(t, count, 4, string(out))
}
