//go:build interop

package jinja_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInteropLanguage checks what TestLanguage expects.
func TestInteropLanguage(t *testing.T) {
	folder, err := exec.Command("../../scripts/chattemplates").Output()
	require.NoError(t, err, "scripts/chattemplates")
	python := filepath.Join(strings.TrimSpace(string(folder)), "venv", "bin", "python")
	out, err := exec.Command(python, "testdata/reference.py", "language", "testdata/language.json").Output()
	require.NoError(t, err)
	var want []sample
	require.NoError(t, json.Unmarshal(out, &want))
	require.Equal(t, want, samples(t))
}
